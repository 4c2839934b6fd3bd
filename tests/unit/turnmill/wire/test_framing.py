"""Bytes -> events: WHATWG framing, JSON lines, and what is wrong with a line."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill.errors import Reason
from turnmill.wire.framing import Decoder, Framed


def read(stream: bytes, **options) -> list[Framed]:
    decoder = Decoder(**options)
    return decoder.feed(stream) + decoder.close()


def events(stream: bytes, **options) -> list:
    return [item.event for item in read(stream, **options)]


@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"a":1}\n\ndata: {"b":2}\n\n',
        b'data: {"a":1}\r\n\r\ndata: {"b":2}\r\n\r\n',
        b'data: {"a":1}\r\rdata: {"b":2}\r\r',
        b'data: {"a":1}\n\r\ndata: {"b":2}\r\r\n',
        b'\xef\xbb\xbfdata: {"a":1}\n\ndata: {"b":2}\n\n',
        b'data:{"a":1}\n\ndata:{"b":2}\n\n',
        b'data:  {"a":1}\n\ndata: {"b":2}\n\n',
        b': ping\n\nevent: x\nid: 7\nretry: 10\ndata: {"a":1}\n\n: ping\n\ndata: {"b":2}\n\n',
        b'data: {"a":\ndata: 1}\n\nid\ndata: {"b":2}\nunknown: {\n\n',
        b'event: only a name\n\ndata: {"a":1}\n\ndata: {"b":2}\n\n',
        b'{"a":1}\n{"b":2}\n',
        b'\n{"a":1}\r\n\r\n{"b":2}',
    ],
    ids=[
        "lf", "crlf", "cr", "mixed", "bom", "no-space", "two-spaces", "fields", "multi-line", "name-alone",
        "json-lines", "json-lines-open",
    ],
)  # fmt: skip
def test_both_events_are_read(stream):
    assert events(stream) == [{"a": 1}, {"b": 2}]


@given(st.data())
def test_any_cut_of_the_bytes_gives_the_same_items(data):
    stream = data.draw(
        st.sampled_from(
            [
                'data: {"t":"ö😀"}\r\n\r\ndata: {\r\n: c\r\ndata: "x":1}\r\n\r\n'.encode(),
                b'data: {"x":1}\r\n\r\ndata: broken\n\ndata: {"open":1}',
                b'\xef\xbb\xbfdata: {"a":1}\r\r\ndata: [DONE]\n\n\rdata:\n\ndata: {"b":2}\r\n\r\n',
                b'{"a":1}\r\n{"b":2}\rnope\n\n{"c":3}',
            ]
        )
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    decoder = Decoder(done_marker="[DONE]")
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    items = [item for piece in pieces for item in decoder.feed(piece)] + decoder.close()
    expected = read(stream, done_marker="[DONE]")
    assert [(i.line, i.event, str(i.error), i.raw) for i in items] == [
        (i.line, i.event, str(i.error), i.raw) for i in expected
    ]


def test_the_unicode_line_ends_are_text():
    assert events('data: {"t":"a\u2028b\u2029c\u0085d"}\n\n'.encode()) == [{"t": "a\u2028b\u2029c\u0085d"}]
    assert events('{"t":"a\u2028b\u0085c"}\n'.encode()) == [{"t": "a\u2028b\u0085c"}]


def test_an_event_that_the_stream_left_open_is_dropped():
    assert events(b'data: {"a":1}\n\ndata: {"b":2}\n') == [{"a": 1}]
    assert events(b'data: {"a":1}') == []


@pytest.mark.parametrize("marker", [b"[DONE]", b"[DONE] "])
def test_the_done_marker_is_no_event(marker):
    stream = b'data: {"a":1}\n\ndata: %s\n\ndata: {"b":2}\n\n' % marker
    assert events(stream, done_marker="[DONE]") == [{"a": 1}, {"b": 2}]
    assert read(stream)[1].error.reason is Reason.UNDECODABLE


@pytest.mark.parametrize(
    ("payload", "reason", "why"),
    [
        (b"[done]", Reason.UNDECODABLE, "line 3: not JSON"),
        (b"", Reason.UNDECODABLE, "line 3: an event without data"),
        (b'{"a":', Reason.UNDECODABLE, "line 3: not JSON"),
        (b"[1]", Reason.INVALID_EVENT, "line 3: an event is a JSON object, not list"),
        (b'{"a":' + b"[" * 1500 + b"]" * 1500 + b"}", Reason.UNDECODABLE, "line 3: "),
        (b'{"u":"\\ud800","a":' + b"[" * 1500 + b"]" * 1500 + b"}", Reason.UNDECODABLE, "line 3: nested too deeply"),
    ],
)
def test_a_bad_event_says_where_and_why_and_the_rest_goes_on(payload, reason, why):
    first, bad, last = read(b'data: {"a":1}\n\ndata: %s\n\ndata: {"b":2}\n\n' % payload)
    assert (first.event, last.event) == ({"a": 1}, {"b": 2})
    assert bad.event is None
    assert bad.error.reason is reason
    assert bad.error.detail.startswith(why)
    assert bad.raw == payload
    assert (first.line, bad.line, last.line) == (1, 3, 5)


def test_a_bad_json_line_says_where_and_why():
    items = read(b'{"a":1}\nnonsense\n{"b":2}\n')
    assert [item.event for item in items] == [{"a": 1}, None, {"b": 2}]
    assert items[1].error.detail.startswith("line 2: not JSON")


def test_json_of_javascript():
    assert events(b'data: {"a":1,"a":2,"s":"\\ud83d","big":9007199254740993}\n\n') == [
        {"a": 2, "s": "\ud83d", "big": 9007199254740993}
    ]
    assert events(b'data: {"t":"a\xffb\xe2\x82"}\n\n') == [{"t": "a\ufffdb\ufffd"}]


@pytest.mark.parametrize("value", [b'["messages", [1]]', b'"text"', b"7", b"null"])
def test_a_boxed_wire_takes_any_json(value):
    boxed = [{"event": None, "data": orjson.loads(value)}, {"a": 1}]
    assert events(b"data: " + value + b'\n\ndata: {"a":1}\n\n', boxed=True) == boxed
    assert events(value + b'\n{"a":1}\n', boxed=True) == boxed
    assert read(value + b"\n")[0].error.reason == Reason.INVALID_EVENT


def test_a_boxed_wire_keeps_its_done_marker():
    stream = b'data: {"a":1}\n\ndata: [DONE]\n\n'
    assert events(stream, done_marker="[DONE]", boxed=True) == [{"a": 1}, {"event": None, "data": "[DONE]"}]
    assert events(stream, done_marker="[DONE]") == [{"a": 1}]


def test_named_events_are_not_boxed():
    stream = b"event: values\ndata: [1]\n\n"
    assert events(stream, framing="named-sse", boxed=True) == [{"event": "values", "data": [1]}]


def test_named_events():
    stream = b'event: meta\nid: 1\ndata: {"a":1}\n\ndata: 2\n\nevent: x\n\ndata: {"b":3}\n\n'
    assert events(stream, framing="named-sse") == [
        {"event": "meta", "data": {"a": 1}},
        {"event": "message", "data": 2},
        {"event": "message", "data": {"b": 3}},
    ]
    assert events(b'{"event":"meta","data":{}}\n', framing="named-sse") == [{"event": "meta", "data": {}}]


def test_each_data_line_is_an_event():
    assert events(b'data: {"a":1}\ndata: {"b":2}\r\n\r\ndata: {"c":3}\n', framing="data-lines") == [
        {"a": 1},
        {"b": 2},
        {"c": 3},
    ]


def test_lines_that_the_client_of_data_lines_does_not_read_are_no_events():
    assert events(b'data:{"a":1}\ndata: \ndata: {"b":2}\n', framing="data-lines") == [{"b": 2}]
    assert events(b'data: {"a":1}\rdata: {"b":2}\r\n', framing="data-lines") == [None]
    found = read(b'data: {"a":1}\ndata: {no}\ndata: {"b":2}\n', framing="data-lines")
    assert [item.event for item in found] == [{"a": 1}, None]


@pytest.mark.parametrize("chunk", [7, 10_000])
@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"a":1}\n\ndata: "%s"\n\ndata: {"b":2}\n\n' % (b"x" * 3000),
        b'data: {"a":1}\n\ndata: "%s\ndata: %s"\n\ndata: {"b":2}\n\n' % (b"x" * 600, b"y" * 600),
        b'{"a":1}\n"%s"\n{"b":2}\n' % (b"x" * 3000),
    ],
)
def test_an_event_has_a_largest_size(stream, chunk):
    decoder = Decoder(max_event_bytes=1000)
    items, held = [], 0
    for at in range(0, len(stream), chunk):
        items += decoder.feed(stream[at : at + chunk])
        held = max(held, decoder._held)
    assert [item.event for item in items] == [{"a": 1}, None, {"b": 2}]
    assert items[1].error.reason is Reason.TOO_LARGE
    assert "1,000 bytes" in items[1].error.detail
    assert 0 < len(items[1].raw) <= 1000
    assert held <= 1000


def test_a_long_comment_costs_nothing():
    decoder = Decoder(max_event_bytes=1000)
    items = [item for part in (b": ", b"x" * 3000, b"\n\n", b'data: {"a":1}\n\n') for item in decoder.feed(part)]
    assert [item.event for item in items] == [{"a": 1}]


WHOLE = b'{\n  "a": {\n    "b": 1\n  }\n}\n'


@pytest.mark.parametrize(
    ("stream", "found"),
    [
        (WHOLE, [{"a": {"b": 1}}]),
        (WHOLE.strip(), [{"a": {"b": 1}}]),
        (b'{"x":0}\n' + WHOLE + b'{"x":1}\n', [{"x": 0}, {"a": {"b": 1}}, {"x": 1}]),
        (b'{\n  "a":\n{"x":1}\n', [None, {"x": 1}]),
        (b'{\n  "a": 1', [None]),
    ],
    ids=["whole", "open", "among lines", "torn by the next", "torn at the end"],
)
def test_an_object_may_be_written_over_several_lines(stream: bytes, found: list) -> None:
    for cut in range(len(stream)):
        decoder = Decoder()
        items = decoder.feed(stream[:cut]) + decoder.feed(stream[cut:]) + decoder.close()
        assert [item.event for item in items] == found


@pytest.mark.parametrize("error", [b'{\n  "error": {\n    "code": 503\n  }\n}\n', b'{"error": {"code": 503}}\n'])
def test_a_bare_error_behind_events_is_an_event_of_the_wire_that_reads_objects(error: bytes) -> None:
    stream = b'data: {"a":1}\n\n' + error
    assert events(stream, framing="sse-or-array") == [{"a": 1}, {"error": {"code": 503}}]
    assert events(stream) == [{"a": 1}]


def test_a_number_beyond_a_double_keeps_its_digits() -> None:
    assert events(b'data: {"a":1e400,"b":[-1E+999,1.5]}\n\n') == [{"a": "1e400", "b": ["-1E+999", 1.5]}]

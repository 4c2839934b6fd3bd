"""JSON objects out of any bytes, wherever these are cut."""

import json

from hypothesis import given
from hypothesis import strategies as st

from turnmill.wire.framing import decode
from turnmill.wire.json_objects import Cutter
from turnmill.wire.registry import WIRES

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[], \n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"{\\'), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text("ab", min_size=1), VALUES, max_size=3), max_size=4)


@given(OBJECTS, st.sampled_from([None, 2]), st.booleans(), st.data())
def test_objects_come_out_as_they_went_in_however_the_bytes_are_cut(
    objects: list[dict[str, object]],
    indent: int | None,
    as_array: bool,  # noqa: FBT001  # Hypothesis hands it over
    data: st.DataObject,
) -> None:
    texts = [json.dumps(one, indent=indent) for one in objects]
    stream = json.dumps(objects, indent=indent).encode() if as_array else "\n".join(texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    cutter = Cutter(10_000, 100)
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    found = [item for piece in pieces for item in cutter.feed(piece)]
    assert [json.loads(item.raw) for item in found] == objects
    assert not any(item.cut for item in found)
    assert [item.event for item in decode(stream, WIRES["gemini"])] == objects


def test_an_object_that_is_too_long_leaves_its_beginning_and_no_more() -> None:
    cutter = Cutter(50, 10)
    found = [item for _ in range(2_000) for item in cutter.feed(b'{"a": "' if _ == 0 else b"x" * 100)]
    assert found == []
    assert cutter._held <= 50 + 10
    found = cutter.feed(b'"}\n{"b": 1}')
    assert [(item.raw[:5], item.cut) for item in found] == [(b'{"a":', True), (b'{"b":', False)]
    assert [item.line for item in found] == [1, 2]


def test_bytes_between_objects_are_told_as_what_they_are() -> None:
    found = decode(b'[{"a": 1},\n oops {"b": 2}]', WIRES["gemini"])
    assert [(item.line, item.event, item.raw) for item in found] == [
        (1, {"a": 1}, b'{"a": 1}'),
        (2, None, b"oops"),
        (2, {"b": 2}, b'{"b": 2}'),
    ]


def test_server_sent_events_are_read_as_such() -> None:
    found = decode(b'\n: hello\ndata: {"a": 1}\n\ndata: {"b": 2}\n\n', WIRES["gemini"])
    assert [item.event for item in found] == [{"a": 1}, {"b": 2}]

"""A request and its answer, as events: streams and whole answers, cut anywhere, encoded, broken, or too large."""

import gzip
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.aws_frames import frame
from turnmill.capture.exchange import MAX_NOTES, RETRY_WINDOW, Exchange, Verdict
from turnmill.capture.fitting import BODY_BYTES, EVENT_BYTES
from turnmill.limits import CAPTURED_ANSWER_BYTES, CAPTURED_EVENTS
from turnmill.wire.envelope import encode

SSE = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}
ASKED = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "Weather?"}]}).encode()
CHUNKS: list[Any] = [
    {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Régn 🌧"}}]},
    {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]
STREAM = b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in CHUNKS) + b"data: [DONE]\n\n"
EVENTS = [*CHUNKS, {"event": None, "data": "[DONE]"}]


def played(
    data: bytes, headers: dict[str, str], *, status: int = 200, how: str = "finished", size: int = 0, **about: Any
) -> tuple[list[Any], Verdict]:
    """-> the events of the answer, and how it ended."""
    exchange = Exchange(about.get("dialect", "openai-chat"), json.loads(about.get("body", ASKED)), about.get("sent"))
    events = exchange.answered(status, headers)
    for at in range(0, len(data), size or max(len(data), 1)):
        events += exchange.data(data[at : at + (size or len(data))])
    if how == "finished":
        events += exchange.finished()
    if how == "failed":
        events += exchange.failed("ReadError: broken")
    return events, exchange.verdict(how)


def test_the_request() -> None:
    assert Exchange("openai-chat", json.loads(ASKED)).asked() == [
        {"object": "turnmill.request", "request": json.loads(ASKED)}
    ]
    assert Exchange("anthropic", {}).asked() == [{"type": "turnmill.request", "request": {}}]


def test_a_large_request_travels_from_the_last_answer_on() -> None:
    old = [{"role": "user", "content": "x" * BODY_BYTES}, {"role": "assistant", "content": "a"}]
    new = [{"role": "assistant", "content": "", "tool_calls": []}, {"role": "tool", "content": "r"}]
    body = {"model": "m", "tools": ["t"], "messages": [*old, {"role": "user", "content": "b"}, *new]}
    (event,) = Exchange("openai-chat", body).asked()
    assert event["request"] == {"model": "m", "tools": ["t"], "messages": new}
    system, long = {"role": "system", "content": "s" * 300_000}, {"role": "tool", "content": "r" * 700_000}
    (event,) = Exchange("openai-chat", {"tools": ["t" * 10_000], "messages": [system, *old, long]}).asked()
    assert event["request"]["tools"] == ["t" * 10_000]
    first, answer, cut = event["request"]["messages"]
    assert (first, answer) == (system, old[1])
    assert "characters were left out" in cut["content"]
    large = {"messages": [{"role": "user", "content": "x" * 2_000_000}]}
    (event,) = Exchange("openai-chat", large).asked()
    assert len(encode(event)) < EVENT_BYTES
    assert "characters were left out" in event["request"]["messages"][0]["content"]


@given(st.integers(1, len(STREAM)), st.sampled_from(["", "gzip"]))
def test_how_bytes_are_cut_changes_nothing(size: int, encoding: str) -> None:
    data = gzip.compress(STREAM) if encoding else STREAM
    found = played(data, {**SSE, "content-encoding": encoding}, size=size)
    assert found == (EVENTS, Verdict("complete"))


@given(st.integers(1, len(STREAM)))
def test_a_stream_that_breaks_anywhere(at: int) -> None:
    events, verdict = played(STREAM[:at], SSE, how="failed")
    said = [event for event in events if event in EVENTS]
    assert said == EVENTS[: len(said)]
    if CHUNKS[1] in said:
        assert verdict == Verdict("complete"), "the model had ended its answer"
        assert events == said
    else:
        assert verdict == Verdict("disconnected", RETRY_WINDOW)
        assert events[-1] == {"object": "turnmill.error", "body": {"type": "ReadError", "message": "ReadError: broken"}}


@pytest.mark.parametrize("headers", [JSON, {}, {"content-type": "text/plain"}])
def test_a_whole_answer(headers: dict[str, str]) -> None:
    answer = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"content": "Rain."}, "finish_reason": "stop"}],
    }
    data = json.dumps(answer, indent=2).encode()
    assert played(data, headers, size=3, body=b"{}") == ([answer], Verdict("complete"))


def test_binary_frames_are_cut_anywhere() -> None:
    """AWS's streams say what they are by their content type; the second half of a frame may never come."""
    kinds = {"messageStart": {"role": "assistant"}, "contentBlockDelta": {"delta": {"text": "Régn 🌧"}}}
    kinds["messageStop"] = {"stopReason": "end_turn"}
    data = b"".join(frame(kind, told) for kind, told in kinds.items())
    headers, about = {"content-type": "application/vnd.amazon.eventstream"}, {"dialect": "bedrock", "body": b"{}"}
    told = [{kind: event} for kind, event in kinds.items()]
    for size in (1, 7, len(data)):
        assert played(data, headers, size=size, **about) == (told, Verdict("complete"))
    events, verdict = played(data[:-9], headers, how="finished", **about)
    assert (events, verdict.end) == (told[:-1], "disconnected")
    wrong = data[:-1] + bytes([data[-1] ^ 1])
    *events, left_out = played(wrong, headers, **about)[0]
    assert events == told[:-1]
    assert left_out["reason"] == "a frame has a wrong checksum"


def test_a_stream_under_another_name() -> None:
    assert played(STREAM, {}) == (EVENTS, Verdict("complete")), "as it was asked for"
    assert played(STREAM, JSON) == (EVENTS, Verdict("complete")), "as it is none"
    assert played(STREAM, {"content-type": "text/plain"}, body=b"{}") == (EVENTS, Verdict("complete"))


@pytest.mark.parametrize(
    ("status", "headers", "again"),
    [
        (429, {}, RETRY_WINDOW),
        (429, {"retry-after": "20"}, RETRY_WINDOW + 20),
        (429, {"retry-after-ms": "1500"}, RETRY_WINDOW + 1.5),
        (503, {"retry-after": "Mon, 23 Nov 2026 04:00:00 GMT"}, RETRY_WINDOW + 120),
        (500, {}, RETRY_WINDOW),
        (307, {}, RETRY_WINDOW),
        (400, {}, 0),
        (401, {"retry-after": "20"}, 0),
    ],
)
def test_refusals(status: int, headers: dict[str, str], again: float) -> None:
    body = {"error": {"message": "no"}}
    found = played(json.dumps(body).encode(), {**JSON, **headers}, status=status, size=2)
    assert found == ([{"object": "turnmill.error", "status": status, "body": body}], Verdict("error", again))


def test_a_refusal_that_nobody_reads() -> None:
    """As by clients that close it, and try again."""
    exchange = Exchange("openai-chat", json.loads(ASKED))
    exchange.answered(503, {**JSON, "retry-after": "2"})
    assert list(exchange.cancelled()) == [{"object": "turnmill.error", "status": 503, "body": ""}]
    assert exchange.verdict("cancelled") == Verdict("error", RETRY_WINDOW + 2)


def test_a_refusal_that_repeats_the_key() -> None:
    sent = {"authorization": "Bearer sk-secret-1234", "x-api-key": "AIza-secret", "user-agent": "openai-python"}
    said = b'{"error": "Incorrect API key sk-secret-1234 or AIza-secret of openai-python"}'
    ((event,), _) = played(said, JSON, status=401, sent=sent)
    assert event["body"] == {"error": "Incorrect API key *** or *** of openai-python"}


def test_an_error_within_a_stream_that_repeats_the_key() -> None:
    sent = {"authorization": "Bearer sk-secret-1234"}
    said = b'data: {"error": {"message": "no sk-secret-1234"}}\n\n'
    ((event,), _) = played(said, SSE, sent=sent)
    assert event == {"error": {"message": "no ***"}}


def test_a_response_that_repeats_the_settings() -> None:
    tools = [{"type": "mcp", "authorization": "mcp-secret-1"}]
    response = {"id": "r", "object": "response", "status": "completed", "tools": tools, "output": []}
    body = json.dumps({"tools": tools}).encode()
    streamed = b"data: " + json.dumps({"type": "response.created", "response": response}).encode() + b"\n\n"
    for data, headers in ((streamed, SSE), (json.dumps(response).encode(), JSON)):
        events, _ = played(data, headers, dialect="openai-responses", body=body)
        assert "mcp-secret-1" not in json.dumps(events)
        assert "***" in json.dumps(events)


def test_no_query_in_what_a_failure_says() -> None:
    exchange = Exchange("anthropic", {}, {"x-goog-api-key": "AIza-secret"})
    (event,) = exchange.failed(
        "ConnectError: https://api.example/v1?key=AIza-other and AIza-secret, https://me:word@a/b"
    )
    assert event["body"]["message"] == "ConnectError: https://api.example/v1 and ***, https://a/b"
    assert exchange.verdict("failed") == Verdict("error", RETRY_WINDOW)


@pytest.mark.parametrize("data", [b"data: {broken\n\n", b"data: 17\n\ndata: {\n\n", b"event: x\ndata:\n\n"])
def test_broken_events_are_left_out(data: bytes) -> None:
    events, verdict = played(data + STREAM, SSE)
    assert [event for event in events if event in EVENTS] == EVENTS
    assert verdict == Verdict("complete")
    for event in events[: -len(EVENTS)]:
        assert event.get("object") in ("turnmill.left_out", None)
    assert any(event.get("object") == "turnmill.left_out" for event in events)


def test_notes_are_bounded() -> None:
    events, _ = played(b"data: {\n\n" * 1_000, SSE)
    assert len(events) == MAX_NOTES


def test_unknown_and_wrong_encodings() -> None:
    for encoding, data in (("snappy", STREAM), ("gzip", STREAM)):
        ((event,), verdict) = played(data, {**SSE, "content-encoding": encoding})
        assert event["object"] == "turnmill.error"
        assert encoding in event["body"]
        assert verdict == Verdict("error")


def test_events_that_take_no_bytes_are_not_read_to_their_end() -> None:
    same = b"data: " + json.dumps(CHUNKS[0]).encode() + b"\n\n"
    data = gzip.compress(same * 60_000)
    events, verdict = played(data, {**SSE, "content-encoding": "gzip"})
    assert CAPTURED_EVENTS < len(events) < CAPTURED_EVENTS + len(data) + 5_000
    assert events[-1]["object"] == "turnmill.error"
    assert f"events of an answer came in {len(data):,} bytes" in events[-1]["body"]
    assert verdict == Verdict("error")


def test_a_long_stream_of_words_is_read_to_its_end() -> None:
    vary = random.Random(1)
    words = [vary.choice("aeiou") + vary.choice("mnst") for _ in range(2 * CAPTURED_EVENTS)]
    said = [{**CHUNKS[0], "choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
    data = gzip.compress(b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in [*said, CHUNKS[1]]))
    events, verdict = played(data, {**SSE, "content-encoding": "gzip"})
    assert len(events) == len(said) + 1
    assert verdict == Verdict("complete")


def test_a_whole_answer_that_is_too_large_to_be_read() -> None:
    exchange = Exchange("openai-chat", {})
    exchange.answered(200, JSON)
    piece = b" " * 1_000_000
    for _ in range(100):
        assert list(exchange.data(piece)) == []
        assert sum(map(len, exchange._whole)) <= CAPTURED_ANSWER_BYTES
    (event,) = exchange.finished()
    assert "100,000,000 bytes" in event["body"]
    assert exchange.verdict("finished") == Verdict("error")


def test_an_answer_that_is_too_large_to_travel() -> None:
    text = "x" * 2_000_000
    answer = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}],
    }
    ((event, note), verdict) = played(json.dumps(answer).encode(), JSON)
    assert len(encode(event)) < EVENT_BYTES
    assert event["choices"][0]["message"]["content"].endswith("characters were left out]")
    assert note["object"] == "turnmill.left_out"
    assert verdict == Verdict("complete")


def test_a_large_end_of_a_stream_does_not_repeat_what_the_deltas_said() -> None:
    response = {
        "id": "r",
        "status": "completed",
        "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x" * 900_000}]}
        ],
        "usage": {"input_tokens": 1},
    }
    data = b"data: " + json.dumps({"type": "response.completed", "response": response}).encode() + b"\n\n"
    events, verdict = played(data, SSE, dialect="openai-responses")
    assert events[0] == {"type": "response.completed", "response": {**response, "output": []}}
    assert events[1]["type"] == "turnmill.left_out"
    assert verdict == Verdict("complete")


PIECES: list[Any] = [
    {"candidates": [{"content": {"parts": [{"text": "Ra"}]}}]},
    {"candidates": [{"content": {"parts": [{"text": "in"}]}, "finishReason": "STOP"}]},
]


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize("data", [json.dumps(PIECES, indent=1), "".join(f"data: {json.dumps(p)}\n\n" for p in PIECES)])
def test_google_streams_with_sse_and_without(data: str, size: int) -> None:
    headers = SSE if data.startswith("data") else JSON
    found = played(data.encode(), headers, dialect="gemini", body=b"{}", size=size)
    assert found == (PIECES, Verdict("complete"))
    assert played(data.encode()[:-40], headers, dialect="gemini")[1].end == "disconnected"


def test_ends() -> None:
    assert played(STREAM[:100], SSE, how="cancelled")[1] == Verdict("aborted")
    assert played(STREAM, SSE, how="cancelled")[1] == Verdict("complete"), "the program has read all it wanted"
    assert played(STREAM[:100], SSE)[1] == Verdict("disconnected", RETRY_WINDOW), "no end of the model's"
    error = b'data: {"error": {"message": "overloaded"}}\n\n'
    assert played(error, SSE)[1] == Verdict("error", RETRY_WINDOW)


def test_a_gap() -> None:
    exchange = Exchange("openai-chat", json.loads(ASKED))
    exchange.answered(200, SSE)
    list(exchange.data(STREAM[:150]))
    (event,) = exchange.gap(17)
    assert (event["object"], event["bytes"]) == ("turnmill.left_out", 17)
    assert list(exchange.data(STREAM)) == []
    assert list(exchange.finished()) == []
    assert exchange.verdict("finished") == Verdict("error")

"""What of a run's messages is in its agent turn, complete and interrupted."""

from typing import Any

import pytest

from pipeline.assembly.agent_turn import agent_turn, complete_cycles
from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Context

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"


def said(builder: Builder, text: str, *, done: bool = True) -> None:
    builder.text_start("t").chunks.append(text)
    if done:
        builder.text_end("t")


def turn_of(builder: Builder, end: str, start: int | None = None, **options: Any) -> dict[str, Any]:
    builder.end_turn(end)
    document, _ = agent_turn(builder.context, builder.agent_turns[-1], start, keep_telemetry=options.get("keep", False))
    return document


def contents(document: dict[str, Any]) -> list[list[Any]]:
    return [[p.get("content", p.get("tool_call_id")) for p in m.get("parts", ())] for m in document["messages"]]


@pytest.fixture
def builder() -> Builder:
    return Builder(Context(THREAD, "r", "a", "toy", model_name="m"), 1000)


def test_a_complete_turn_keeps_what_was_closed(builder: Builder) -> None:
    said(builder, "kept")
    said(builder, "open", done=False)
    builder.open_response()
    builder.tool_call("client-side", "ask", {})
    builder.tool_start("never-finished", "ask")
    document = turn_of(builder, "complete")
    assert contents(document) == [["kept"], ["client-side"]]
    assert [message["finish_reason"] for message in document["messages"]] == ["stop", "tool_call"]
    assert document["completed_at"] == "1970-01-01T00:00:01.000Z"
    assert "interruption" not in document


@pytest.mark.parametrize(
    ("took", "timing"),
    [(0, {"ttft_ms": None, "duration_ms": None}), (40, {"ttft_ms": 0, "duration_ms": 40})],
)
def test_what_came_at_one_time_took_nobody_knows_how_long(
    builder: Builder, took: int, timing: dict[str, int | None]
) -> None:
    builder.text_start("t").chunks.append("all of it")
    builder.at += took
    builder.text_end("t")
    builder.end_turn("complete")
    _, timings = agent_turn(builder.context, builder.agent_turns[-1], None, keep_telemetry=False)
    assert timings == [timing]


def test_nobody_has_measured_the_first_token_of_an_answer_in_a_single_piece(builder: Builder) -> None:
    began = builder.at
    builder.at += 40
    said(builder, "whole")
    builder.end_turn("complete")
    _, timings = agent_turn(builder.context, builder.agent_turns[-1], began, keep_telemetry=False)
    assert timings == [{"ttft_ms": None, "duration_ms": 40}]


def test_an_interrupted_turn_keeps_complete_cycles(builder: Builder) -> None:
    said(builder, "closed")
    builder.open_response()
    builder.tool_call("answered", "ask", {})
    builder.close_response()
    builder.tool_return("answered", content="a")
    builder.open_response()
    builder.tool_call("one", "ask", {})
    builder.tool_call("two", "ask", {})
    builder.close_response()
    builder.tool_return("one", content="b")
    builder.open_response()
    said(builder, "not closed")
    document = turn_of(builder, "aborted")
    assert contents(document) == [["closed"], ["answered"], ["a"]]
    assert document["interruption"]["reason"] == "user_cancelled"
    assert "completed_at" not in document


def test_a_users_words_stay_though_the_answers_beside_them_go(builder: Builder) -> None:
    builder.tool_call("one", "ask", {})
    builder.tool_call("two", "ask", {})
    builder.close_response()
    builder.tool_return("one", content="b")
    request = builder.request_after(None)
    request.parts.append(type(request.parts[0])({"part_kind": "user-prompt", "content": "wait"}, done=True))
    kept = complete_cycles(builder.messages)
    assert [[part.fields["content"] for part in message.parts] for message in kept] == [["wait"]]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("aborted", "user_cancelled"),
        ("error", "error"),
        ("disconnected", "network_failure"),
        ("timeout", "timeout"),
        ("events_lost", "events_lost"),
    ],
)
def test_reasons(builder: Builder, end: str, reason: str) -> None:
    builder.error_text = "why"
    assert turn_of(builder, end)["interruption"] == {
        "reason": reason,
        "interrupted_at": "1970-01-01T00:00:01.000Z",
        "detail": "why",
    }


def test_returns_are_in_the_order_of_their_calls(builder: Builder) -> None:
    for call in "abc":
        builder.tool_call(call, "ask", {})
    for call in "cab":
        builder.tool_return(call, content=call.upper())
    assert contents(turn_of(builder, "complete")) == [["a", "b", "c"], ["A", "B", "C"]]


def test_times_never_go_back(builder: Builder) -> None:
    builder.tool_call("c", "ask", {})
    builder.close_response()
    builder.at = 5000
    said(builder, "later")
    builder.at = 9000
    builder.tool_return("c", content="late")
    builder.last_at = 9000
    times = [message["timestamp"] for message in turn_of(builder, "complete")["messages"]]
    assert times == sorted(times)


def test_usage_is_named_and_summed(builder: Builder) -> None:
    for count in (1, 2):
        builder.open_response()
        said(builder, "x")
        builder.usage({"inputTokens": count, "outputTokens": None, "cost": "free"})
    document = turn_of(builder, "complete")
    assert [message["usage"] for message in document["messages"]] == [
        {"input_tokens": n, "cost": "free"} for n in (1, 2)
    ]
    assert document["total_usage"] == {"input_tokens": 3}


@pytest.mark.parametrize("keep", [False, True])
def test_telemetry_in_turns(builder: Builder, keep: bool) -> None:  # noqa: FBT001
    builder.system("data-sys-latency", {})
    builder.system("data-app-x", {})
    assert len(turn_of(builder, "complete", keep=keep)["messages"]) == (2 if keep else 1)


def test_the_start_that_the_run_names_is_not_after_its_end(builder: Builder) -> None:
    assert turn_of(builder, "complete", start=500)["started_at"] == "1970-01-01T00:00:00.500Z"
    assert turn_of(builder, "complete", start=99_999)["started_at"] == "1970-01-01T00:00:01.000Z"

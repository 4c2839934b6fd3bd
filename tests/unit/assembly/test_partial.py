"""What an interrupted turn had shown and does not keep."""

from typing import Any

import pytest

from pipeline.assembly.agent_turn import agent_turn
from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Context
from pipeline.turns.canonical import turn_hash
from pipeline.turns.content import pieces, resolved
from pipeline.turns.partial_turns import with_partial
from pipeline.turns.path_rules import PathRule, parse
from pipeline.turns.redaction import Redaction, TextRule

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"


@pytest.fixture
def builder() -> Builder:
    return Builder(Context(THREAD, "r", "a", "toy"), 1000)


def turn_of(builder: Builder, end: str) -> dict[str, Any]:
    builder.end_turn(end)
    return agent_turn(builder.context, builder.agent_turns[-1], None, keep_telemetry=False)[0]


def shown(turn: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    messages = turn["meta:partial"]["messages"]
    return [
        (message["message_type"], [part.get("args") or part.get("content") for part in message["parts"]])
        for message in messages
    ]


def said(builder: Builder, *texts: str, done: bool = True) -> None:
    builder.text_start("t").chunks.extend(texts)
    if done:
        builder.text_end("t")


def test_a_text_without_its_end_is_partial(builder: Builder) -> None:
    said(builder, "kept")
    builder.close_response()
    said(builder, "half a ", "sent", done=False)
    turn = turn_of(builder, "disconnected")
    assert [part["content"] for message in turn["messages"] for part in message["parts"]] == ["kept"]
    assert shown(turn) == [("response", ["half a sent"])]
    (message,) = turn["meta:partial"]["messages"]
    assert message["parts"][0]["meta:unfinished"] is True
    assert message["timestamp"] == "1970-01-01T00:00:01.000Z"
    assert message["agent_id"] == "a"


def test_a_response_that_is_not_kept_names_who_is_paid_for_it(builder: Builder) -> None:
    said(builder, "half a ", done=False)
    response = builder.messages[-1]
    response.fields |= {"model_name": "m", "provider_name": "p", "provider_response_id": "x"}
    builder.usage({"prompt_tokens": 7}, response)
    (message,) = turn_of(builder, "disconnected")["meta:partial"]["messages"]
    assert {key: message[key] for key in message if key not in ("message_type", "timestamp", "agent_id", "parts")} == {
        "usage": {"input_tokens": 7},
        "model_name": "m",
        "provider_name": "p",
        "provider_response_id": "x",
    }


@pytest.mark.parametrize("tokens", [7, 0])
def test_a_response_that_had_shown_nothing_is_billed_and_not_shown(builder: Builder, tokens: int) -> None:
    said(builder, "kept")
    builder.close_response()
    said(builder, done=False)
    builder.messages[-1].fields |= {"model_name": "m", "usage": {"prompt_tokens": tokens}}
    turn = turn_of(builder, "disconnected")
    billed = turn.get("meta:partial", {}).get("messages", [])
    assert [(one["parts"], one["model_name"], one["usage"]) for one in billed] == (
        [([], "m", {"input_tokens": 7})] if tokens else []
    )
    assert [part["content"] for one in with_partial(turn)["messages"] for part in one["parts"]] == ["kept"]


def test_arguments_that_broke_off_are_text(builder: Builder) -> None:
    builder.tool_start("c", "search").chunks.extend(['{"q": ', '"rain'])
    assert shown(turn_of(builder, "aborted")) == [("response", [{"INVALID_JSON": '{"q": "rain'}])]


def test_a_cycle_without_all_of_its_answers_is_partial_with_those_it_has(builder: Builder) -> None:
    builder.tool_call("one", "ask", {"n": 1})
    builder.tool_call("two", "ask", {"n": 2})
    builder.close_response()
    builder.tool_return("one", content="first", status="success")
    turn = turn_of(builder, "error")
    assert turn["messages"] == []
    assert shown(turn) == [("response", [{"n": 1}, {"n": 2}]), ("request", ["first"])]
    assert not any("meta:unfinished" in part for m in turn["meta:partial"]["messages"] for part in m["parts"])


def test_a_complete_turn_has_none(builder: Builder) -> None:
    said(builder, "open", done=False)
    assert "meta:partial" not in turn_of(builder, "complete")


def test_what_said_nothing_is_nothing(builder: Builder) -> None:
    said(builder, "", done=False)
    assert "meta:partial" not in turn_of(builder, "disconnected")


def test_it_is_outside_of_the_hash(builder: Builder) -> None:
    said(builder, "half", done=False)
    turn = turn_of(builder, "disconnected")
    assert turn_hash(turn) == turn_hash({key: value for key, value in turn.items() if key != "meta:partial"})


def test_it_is_redacted_by_all_rules(builder: Builder) -> None:
    builder.tool_call("one", "ask", {"secret": "x"})
    said(builder, "a key: s3", "cret", done=False)
    turn = turn_of(builder, "disconnected")
    rules = [
        TextRule("key", lambda text: (text.replace("s3cret", "***"), text.count("s3cret"))),
        PathRule("args", parse("$.messages[*].parts[*].args"), "gone"),
    ]
    redaction = Redaction(rules)
    assert shown(redaction.turn(turn)) == [("response", [{"redacted": "gone"}, "a key: ***"])]
    assert redaction.counts == {"key": 1, "args": 1}


def test_its_large_values_may_be_kept_elsewhere(builder: Builder) -> None:
    builder.tool_call("one", "ask", {})
    builder.tool_call("two", "ask", {})
    builder.tool_return("one", content="large", status="success")
    turn = turn_of(builder, "disconnected")
    (piece,) = pieces(turn)
    assert piece.path == ("meta:partial", "messages", 1, "parts", 0)
    assert piece.data == b"large"
    assert resolved(turn, {}) == turn


def test_a_response_that_stays_nowhere_else_has_its_usage(builder: Builder) -> None:
    said(builder, "kept")
    builder.usage({"output_tokens": 1})
    builder.close_response()
    said(builder, "half", done=False)
    builder.usage({"output_tokens": 2})
    turn = turn_of(builder, "disconnected")
    assert [message["usage"]["output_tokens"] for message in turn["messages"]] == [1]
    assert [message["usage"]["output_tokens"] for message in turn["meta:partial"]["messages"]] == [2]
    assert turn["total_usage"]["output_tokens"] == 3

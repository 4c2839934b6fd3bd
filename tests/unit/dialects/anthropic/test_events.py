"""The Messages API: what its events become, as clouds and gateways write them."""

from typing import Any

import pytest

from pipeline.turns.tokens import tier_of
from tests.support.assembled import Assembled, assembled

Fields = dict[str, Any]
USER: Fields = {"role": "user", "content": "Weather?"}
CALL: Fields = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
RESULT: Fields = {"type": "tool_result", "tool_use_id": "a", "content": "72F"}
STOP: Fields = {"type": "message_stop"}


def start(*content: Fields, **more: Any) -> Fields:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(content)}
    return {"type": "message_start", "message": {**message, "usage": {"input_tokens": 5, "output_tokens": 1}, **more}}


def block(index: int, content: Fields, *deltas: Fields) -> list[Fields]:
    pieces = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    begin = {"type": "content_block_start", "index": index, "content_block": content}
    return [begin, *pieces, {"type": "content_block_stop", "index": index}]


def text(*words: str, index: int = 0) -> list[Fields]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": word} for word in words))


def args(*pieces: str) -> list[Fields]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def stop(reason: str | None = "end_turn", **usage: int) -> list[Fields]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9, **usage}}, STOP]


def request(*messages: Fields) -> Fields:
    return {"type": "turnmill.request", "request": {"model": "m", "system": "be brief", "messages": list(messages)}}


def run(*events: Fields, **rest: Any) -> Assembled:
    return assembled("anthropic", list(events), **rest)


def said(got: Assembled) -> list[Any]:
    messages = [m for turn in got.agent_turns for m in turn["messages"] if m["message_type"] != "system"]
    return [[part.get("args", part.get("content")) for part in message["parts"]] for message in messages]


def status(got: Assembled) -> str:
    return str(got.agent_turns[-1]["completion_status"])


def test_thinking_text_and_a_call() -> None:
    thought = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "signature_delta", "signature": "s"},
    )
    got = run(
        request(USER),
        start(),
        *thought,
        *text("a", "b", index=1),
        *block(2, CALL, *args("", '{"x":', "1}")),
        *stop("tool_use"),
    )
    thinking, words, call = got.parts("response")
    assert (thinking["content"], thinking["signature"], words["content"]) == ("Hm", "s", "ab")
    assert (call["tool_name"], call["tool_call_id"], call["args"]) == ("f", "a", {"x": 1})
    (response,) = got.messages("response")
    assert (response["model_name"], response["provider_response_id"], response["finish_reason"]) == (
        "m",
        "msg_1",
        "tool_call",
    )
    assert [part["content"] for turn in got.user_turns for part in turn["parts"]] == ["Weather?"]
    assert status(got) == "complete"


@pytest.mark.parametrize(
    ("given", "deltas", "found"),
    [
        ({}, [], {}),
        ({}, [""], {}),
        ({"x": 1}, [""], {"x": 1}),
        ({"x": 1}, ['{"x":2}'], {"x": 2}),
        ({}, ['{"x":'], {"INVALID_JSON": '{"x":'}),
    ],
)
def test_arguments(given: Fields, deltas: list[str], found: Fields) -> None:
    assert said(run(start(), *block(0, {**CALL, "input": given}, *args(*deltas)), *stop("tool_use"))) == [[found]]


def test_parts_stand_in_the_order_of_their_indices() -> None:
    events = [*text("two", index=2), *text("one", index=1)]
    assert said(run(start({"type": "text", "text": "zero"}), *events, *stop())) == [["zero", "one", "two"]]


@pytest.mark.parametrize(
    ("reason", "kept"), [("max_tokens", "length"), ("refusal", "content_filter"), ("new", "error")]
)
def test_why_a_message_ended(reason: str, kept: str) -> None:
    (response,) = run(start(), *text("x"), *stop(reason)).messages("response")
    assert (response["finish_reason"], response["meta:anthropic"]["stop_reason"]) == (kept, reason)


def test_usage_is_told_twice_and_counts_caches() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2, "output_tokens": 1}
    got = run(start(usage=usage), *text("x"), *stop(input_tokens=6))
    total = got.agent_turns[0]["total_usage"]
    assert (total["input_tokens"], total["output_tokens"], total["cache_read_tokens"]) == (15, 9, 7)


@pytest.mark.parametrize("end", ["complete", "disconnected", None])
def test_without_message_stop_it_broke_off(end: str | None) -> None:
    got = run(request(USER), start(), *text("half"), stop()[0], end=end)
    assert (status(got), got.messages("response")) == ("interrupted", [])
    (message,) = got.agent_turns[0]["meta:partial"]["messages"]
    assert [part["content"] for part in message["parts"]] == ["half"]


@pytest.mark.parametrize("failed", [{"type": "error", "error": {"message": "busy"}}, {"error": {"message": "busy"}}])
def test_an_error_and_a_retry(failed: Fields) -> None:
    got = run(request(USER), start(), *text("half"), failed)
    assert got.agent_turns[0]["interruption"]["detail"] == "busy"
    (shown,) = got.agent_turns[0]["meta:partial"]["messages"]
    assert shown["provider_response_id"] == start()["message"]["id"]
    again = run(request(USER), start(), *text("half"), failed, request(USER), start(), *text("whole"), *stop())
    answer, retry = again.messages("response")
    assert (status(again), said(again)) == ("complete", [["whole"], []])
    assert (retry["meta:purpose"], retry["usage"]["input_tokens"], answer["usage"]["input_tokens"]) == ("retry", 5, 5)
    assert again.agent_turns[0]["total_usage"]["input_tokens"] == 10, "both are billed"


def test_an_error_has_the_id_by_which_the_provider_finds_it() -> None:
    failed = {"type": "error", "error": {"message": "busy"}, "request_id": "req_1"}
    refused = {"type": "turnmill.error", "status": 529, "body": failed}
    for event, status in ((failed, {}), (refused, {"status": 529})):
        got = run(request(USER), event)
        assert got.messages("system")[-1]["event_data"] == {
            **status,
            "error": {"message": "busy"},
            "request_id": "req_1",
        }


def test_results_stand_behind_the_response() -> None:
    answer = {"role": "user", "content": [RESULT, {"type": "text", "text": "hurry"}]}
    resent = [USER, {"role": "assistant", "content": [CALL]}, answer]
    got = run(
        request(USER), start(), *block(0, CALL), *stop("tool_use"), request(*resent), start(), *text("x"), *stop()
    )
    assert said(got) == [[{}], ["72F", "hurry"], ["x"]]


def test_a_paused_turn_goes_on_in_the_next_response() -> None:
    paused = [start(), *text("a"), *stop("pause_turn")]
    got = run(
        request(USER), *paused, request(USER, {"role": "assistant", "content": "a"}), start(), *text("b"), *stop()
    )
    assert said(got) == [["a"], ["b"]]


def test_server_tools_are_found_over_the_run() -> None:
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}}
    failed = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": failed}
    got = run(start(), *block(0, search), *stop("pause_turn"), start(), *block(0, result), *stop())
    call, answer = got.parts("response")
    assert (call["part_kind"], answer["part_kind"]) == ("builtin-tool-call", "builtin-tool-return")
    assert (answer["tool_name"], answer["status"]) == ("web_search", "error")


def test_a_message_that_starts_again_before_any_block_is_the_same() -> None:
    assert said(run(start(), start(), *text("x"), *stop())) == [["x"]]


def test_a_message_that_another_one_cuts_off_is_given_up() -> None:
    got = run(start(), text("half")[0], start(), *text("x"), *stop())
    assert said(got) == [[], ["x"]], "its tokens were spent"


def test_what_comes_behind_the_end_belongs_to_no_message_and_is_refused() -> None:
    got = run(start(), *text("x"), *stop(), *text("y", "z", index=0), STOP, {"type": "ping"})
    assert (status(got), said(got)) == ("complete", [["x"]])
    kinds = ("content_block_start", "content_block_delta", "content_block_delta")
    assert got.refused == [f"protocol_violation: seq 0+: {kind}: the call is over" for kind in kinds]


def test_what_comes_behind_an_error_is_refused() -> None:
    got = run(start(), {"type": "error", "error": {"message": "overloaded"}}, *text("late"))
    assert status(got) == "interrupted"
    assert len(got.refused) == 2


def test_deltas_without_a_start() -> None:
    lost = [{"type": "content_block_delta", "index": 3, "delta": delta} for delta in args("{}")]
    assert said(run(*text("x")[1:], *lost, *stop())) == [["x"]]


def test_what_nobody_knows_is_kept() -> None:
    new = block(0, {"type": "hologram", "a": 1}, {"type": "hologram_delta", "b": 2})
    got = run(start(), *new, *text("x", index=1), {"type": "news", "n": 1}, *stop())
    assert got.parts("response")[0] == {"part_kind": "custom:hologram", "block": {"type": "hologram", "a": 1, "b": 2}}
    assert [m["event_type"] for m in got.messages("system")] == ["data-app-news"]
    assert got.export("anthropic")[0]["content"][0] == {"type": "hologram", "a": 1, "b": 2}


def test_unknown_deltas_of_known_blocks_are_kept_beside_the_text() -> None:
    mood, stray = {"type": "mood_delta", "mood": "calm"}, {"type": "thinking_delta", "thinking": "Hm"}
    words = block(0, {"type": "text", "text": ""}, mood, {"type": "text_delta", "text": "x"}, stray)
    orphan = {"type": "content_block_delta", "index": 7, "delta": mood}
    empty = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}}
    got = run(start(), *words, orphan, empty, *stop())
    assert (said(got)[0], got.refused) == (["x"], [])
    kept = [(m["event_type"], m["event_data"]) for m in got.messages("system")]
    assert kept == [
        ("data-app-content_block_delta", {"index": index, "delta": delta})
        for index, delta in ((0, mood), (0, stray), (7, mood))
    ]


def test_unknown_fields_are_kept() -> None:
    words = block(0, {"type": "text", "text": "x", "later": True})
    thought = block(1, {"type": "thinking", "thinking": "Hm", "signature": "s", "seen": 1})
    edits = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "context_management": {"edits": 1}}
    got = run(start(), *words, *thought, edits, {**STOP, "metrics": {"ms": 4}})
    response = got.messages("response")[0]
    assert [part["meta:anthropic"] for part in response["parts"]] == [{"later": True}, {"type": "thinking", "seen": 1}]
    kept = {"context_management": {"edits": 1}, "metrics": {"ms": 4}}
    assert response["meta:anthropic"].items() >= kept.items()


def test_a_whole_answer() -> None:
    body = start({"type": "text", "text": "x"}, stop_reason="end_turn")["message"]
    got = run(request(USER), body)
    assert (status(got), said(got)) == ("complete", [["x"]])
    assert got.agent_turns[0]["total_usage"]["output_tokens"] == 1


# Counts and types of iterations as in anthropic 2.14.0 (`BetaUsage`); its documentation says that the tokens of a
# `compaction` entry are not included in the top-level usage.
COMPACTION: Fields = {"type": "compaction", "input_tokens": 170_000, "output_tokens": 3_500}
ADVICE: Fields = {"type": "advisor_message", "model": "claude-opus-4-6", "input_tokens": 900, "output_tokens": 50}
SAMPLED: Fields = {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000}


def used(**usage: Any) -> list[Fields]:
    return [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}, STOP]


def test_compaction_and_advice_are_beside_the_answer() -> None:
    compaction = {**COMPACTION, "cache_read_input_tokens": 10_000, "cache_creation_input_tokens": 0}
    counts = {"input_tokens": 23_000, "output_tokens": 1_000}
    events = [start(), *text("x")]
    early = {
        "type": "message_delta",
        "delta": {},
        "usage": {**counts, "iterations": [{**COMPACTION, "output_tokens": 1}]},
    }
    got = run(*events, early, *used(**counts, service_tier="batch", iterations=[compaction, ADVICE, SAMPLED]))
    answer, summary, advice = got.messages("response")
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (23_000, 1_000)
    assert (summary["meta:purpose"], summary["model_name"], summary["parts"]) == ("compaction", "m", [])
    assert summary["usage"]["input_tokens"] == 180_000
    assert (summary["usage"]["cache_read_tokens"], summary["usage"]["service_tier"]) == (10_000, "batch")
    assert (advice["meta:purpose"], advice["model_name"]) == ("advisor", "claude-opus-4-6")
    assert [one.get("provider_name") for one in (answer, summary, advice)] == [None] * 3, "of one provider, in reports"
    total = got.agent_turns[0]["total_usage"]
    assert (total["input_tokens"], total["output_tokens"]) == (203_900, 4_550)
    assert "meta:summed" not in answer["usage"]


def test_the_usage_of_several_samplings_is_known_to_be_a_sum() -> None:
    loop = used(input_tokens=46_000, output_tokens=2_000, iterations=[SAMPLED, SAMPLED])
    (answer,) = run(start(), *text("x"), *loop).messages("response")
    assert answer["usage"]["meta:summed"] is True


def test_the_model_that_served_after_a_fallback_is_named() -> None:
    """A declined attempt is a `message` entry, and is not billed; the usage is that of the attempt that served."""
    served = {**SAMPLED, "type": "fallback_message", "model": "claude-small"}
    got = run(start(), *text("x"), *used(input_tokens=23_000, output_tokens=1_000, iterations=[SAMPLED, served]))
    (answer,) = got.messages("response")
    assert (answer["model_name"], answer["usage"]["input_tokens"]) == ("claude-small", 23_000)
    assert "meta:summed" not in answer["usage"]


def test_a_zero_behind_a_count_changes_nothing() -> None:
    written = {"ephemeral_5m_input_tokens": 20_000, "ephemeral_1h_input_tokens": 80_000}
    told = {"input_tokens": 1_000, "cache_read_input_tokens": 50_000, "cache_creation": written, "output_tokens": 1}
    zeros = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    none = {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "cache_creation": zeros}
    (answer,) = run(start(usage=told), *text("x"), *used(**none, output_tokens=500)).messages("response")
    counts = {name: answer["usage"][name] for name in COUNTED}
    assert counts == dict(zip(COUNTED, (151_000, 500, 50_000, 100_000, 80_000), strict=True))


COUNTED = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens")


def test_searches_and_the_tier_stay() -> None:
    used_tools = {"web_search_requests": 3, "web_fetch_requests": 0}
    usage = {"input_tokens": 5, "output_tokens": 1, "server_tool_use": used_tools, "service_tier": "priority"}
    (answer,) = run(start(usage={**usage, "inference_geo": "us"}), *text("x"), *stop()).messages("response")
    assert answer["usage"]["web_searches"] == 3
    assert tier_of(answer["usage"]) == "priority us only"

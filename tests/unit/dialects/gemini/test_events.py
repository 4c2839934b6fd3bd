"""The Gemini API: what its responses become, in all the forms in which they come."""

from typing import Any

import pytest

from tests.support.assembled import Assembled, assembled

Fields = dict[str, Any]
CALL: Fields = {"functionCall": {"name": "f", "args": {"a": 1}}}


def piece(*parts: Fields, finish: str | None = None, **rest: Any) -> Fields:
    candidate: Fields = {"content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], **rest}


def request(*contents: Fields) -> Fields:
    return {"type": "turnmill.request", "request": {"contents": list(contents)}}


def user(*parts: Fields) -> Fields:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Fields) -> Fields:
    return {"role": "model", "parts": list(parts)}


def run(*events: Any, **rest: Any) -> Assembled:
    return assembled("gemini", list(events), **rest)


def status(got: Assembled) -> str:
    return str(got.agent_turns[-1]["completion_status"])


ASKED = request(user({"text": "Weather?"}))


@pytest.mark.parametrize(
    "events",
    [
        [piece({"text": "Hel"}), piece({"text": "lo"}, finish="STOP")],
        [{"event": None, "data": [piece({"text": "Hel"}), piece({"text": "lo"}, finish="STOP")]}],
        [{"response": piece({"text": "Hel"})}, {"response": piece({"text": "lo"}, finish="STOP"), "traceId": "t"}],
        [piece({"text": "Hel"}, finish="STOP"), piece({"text": "lo"}, finish="STOP")],
        [piece({"text": "Hello"}, finish="STOP")],
        [{"candidates": [{"content": {"parts": [{"text": "Hello"}]}, "finish_reason": "STOP"}]}],
    ],
    ids=["pieces", "array", "code assist", "finish in each", "whole", "snake case"],
)
def test_a_text_in_all_its_forms(events: list[Fields]) -> None:
    got = run(ASKED, *events)
    assert [(part["part_kind"], part["content"]) for part in got.parts("response")] == [("text", "Hello")]
    assert got.user_turns[0]["parts"] == [{"part_kind": "user-prompt", "content": "Weather?"}]
    assert status(got) == "complete"
    assert got.refused == []


def test_calls_without_ids_are_numbered_and_answered_by_name() -> None:
    twice = [CALL, {"functionCall": {"name": "g"}}]
    results = [{"functionResponse": {"name": name, "response": {"from": name}}} for name in ("g", "f")]
    history = [user({"text": "Weather?"}), model(*twice), user(*results)]
    got = run(ASKED, piece(*twice, finish="STOP"), request(*history), piece(CALL, finish="STOP"))
    assert [part["tool_call_id"] for part in got.parts("response")] == ["call:0", "call:1", "call:2"]
    returned = {part["tool_call_id"]: (part["tool_name"], part["content"]) for part in got.parts("request")}
    assert returned == {"call:0": ("f", {"from": "f"}), "call:1": ("g", {"from": "g"})}
    assert got.refused == []


def test_a_result_whose_call_an_earlier_run_made_keeps_the_name_that_it_tells() -> None:
    result = {"functionResponse": {"id": "x", "name": "f", "response": {"result": 1}}}
    got = run(request(user(result)), piece({"text": "Done."}, finish="STOP"))
    assert [(part["tool_name"], part["tool_call_id"]) for part in got.parts("request")] == [("f", "x")]


def test_a_signature_stays_with_the_text_that_it_ends() -> None:
    pieces = [{"text": "Hm", "thought": True}, {"text": "A"}, {"text": "b", "thoughtSignature": "s1"}, {"text": "c"}]
    got = run(ASKED, *(piece(part) for part in pieces), piece(finish="STOP"))
    said = [(part["part_kind"], part["content"], part.get("meta:thought_signature")) for part in got.parts("response")]
    assert said == [("thinking", "Hm", None), ("text", "Ab", "s1"), ("text", "c", None)]


def test_a_prompt_that_was_blocked_is_a_turn_without_an_answer() -> None:
    got = run(ASKED, {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}})
    (message,) = got.messages("response")
    assert (status(got), message["finish_reason"], message["parts"]) == ("complete", "content_filter", [])
    assert got.agent_turns[-1]["total_usage"]["input_tokens"] == 7


def test_the_first_attempt_of_a_call_that_is_tried_again_is_in_no_turn() -> None:
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    got = run(ASKED, piece({"text": "It"}), error, ASKED, piece({"text": "Sunny."}, finish="STOP"))
    assert [part["content"] for part in got.parts("response")] == ["Sunny."]
    assert status(got) == "complete"


@pytest.mark.parametrize(
    "last",
    [
        {"error": {"code": 500, "message": "no"}},
        {"type": "turnmill.error", "status": 429, "body": {"error": {"code": 429, "message": "no"}}},
    ],
    ids=["in the stream", "instead of it"],
)
def test_an_error_interrupts_and_nothing_follows_it(last: Fields) -> None:
    got = run(ASKED, piece({"text": "It"}), last, piece({"text": "late"}, finish="STOP"))
    assert status(got) == "interrupted"
    assert got.agent_turns[-1]["interruption"]["reason"] == "error"
    assert [refused.split(":")[0] for refused in got.refused] == ["protocol_violation"]


def test_an_answer_that_goes_on_in_the_next_request_is_not_over() -> None:
    events = [ASKED, piece({"text": "Once"}, finish="CONTINUATION")]
    assert status(run(*events, end="complete")) == "complete"
    got = run(*events, ASKED, piece({"text": " upon"}, finish="STOP"))
    assert [part["content"] for part in got.parts("response")] == ["Once", " upon"]


def test_other_candidates_are_alternatives() -> None:
    other = {"index": 1, "content": {"parts": [{"text": "Rain."}]}, "finishReason": "STOP"}
    whole = piece({"text": "Sun."}, finish="STOP")
    got = run(ASKED, {"candidates": [*whole["candidates"], other]})
    assert [part["content"] for part in got.parts("response")] == ["Sun."]
    (choice,) = [message["event_data"] for message in got.messages("system")]
    assert choice == {"index": 1, "finish_reason": "STOP", "parts": [{"part_kind": "text", "content": "Rain."}]}


@pytest.mark.parametrize(
    "event",
    [
        {"candidates": "x"},
        {"candidates": [5]},
        piece({"functionCall": {"id": "c"}}),
        piece({"text": 5}),
        {"event": None, "data": [piece({"text": "no"}), 5]},
        {"type": 5},
    ],
)
def test_what_is_malformed_is_refused_and_leaves_no_trace(event: Fields) -> None:
    got = run(ASKED, piece({"text": "Hel"}), event, piece({"text": "lo"}, finish="STOP"))
    assert len(got.refused) == 1
    assert [part["content"] for part in got.parts("response")] == ["Hello"]


def test_unknown_events_are_kept() -> None:
    got = run(ASKED, {"type": "speech", "level": 3}, piece({"text": "Hi."}, finish="STOP"))
    assert [(m["event_type"], m["event_data"]) for m in got.messages("system")] == [("data-app-speech", {"level": 3})]


def test_code_counts_among_the_calls_without_ids() -> None:
    code = [{"executableCode": {"code": "1"}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}]
    first, second = ({"functionCall": {"name": "f", "args": {"x": x}}} for x in (1, 2))
    answers = [{"functionResponse": {"name": "f", "response": {"r": r}}} for r in (1, 2)]
    asked = request(user({"text": "Weather?"}), model(*code, first, second), user(*answers))
    got = run(ASKED, piece(*code, first, second, finish="STOP"), asked, piece(*code, {"text": "Sun."}, finish="STOP"))
    assert [part.get("tool_call_id") for part in got.parts("response")] == [
        "call:0", "call:0", "call:1", "call:2", "call:3", "call:3", None,
    ]  # fmt: skip
    returned = [(part["tool_call_id"], part["content"]) for part in got.parts("request") if "content" in part]
    assert [one for one in returned if one[0].startswith("call")] == [("call:1", {"r": 1}), ("call:2", {"r": 2})]


def test_the_last_tokens_count_and_no_mixture() -> None:
    first = {"usageMetadata": {"promptTokenCount": 20, "thoughtsTokenCount": 21, "candidatesTokenCount": 1}}
    last = {"usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 58, "totalTokenCount": 78}}
    got = run(ASKED, piece({"text": "Su"}, **first), piece({"text": "n"}, **last), piece({"text": "."}, finish="STOP"))
    assert got.agent_turns[0]["total_usage"] == {"input_tokens": 20, "output_tokens": 58, "total_tokens": 78}


def resuming(token: str = "t", **more: Any) -> Fields:
    body = {**ASKED["request"], "continuationToken": token, **more}
    return {"type": "turnmill.request", "request": body}


def counted(words: str, output: int, finish: str | None = None, token: str | None = None) -> Fields:
    usage = {"promptTokenCount": 20, "candidatesTokenCount": output, "totalTokenCount": 20 + output}
    usage |= {"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 2}]}
    whole = piece({"text": words}, finish=finish, usageMetadata=usage)
    if token is not None:
        whole["candidates"][0]["continuationToken"] = token
    return whole


BROKEN: Fields = {"type": "turnmill.error", "body": {"type": "ReadError", "message": "by peer"}}


@pytest.mark.parametrize(
    "first",
    [
        [counted("One, ", 5), counted("two, ", 10, token="t")],
        [counted("One, ", 5), counted("two, ", 10, token="t"), BROKEN],
        [counted("One, ", 5, token="s"), counted("two, ", 10, token="t"), {"error": {"code": 500, "message": "no"}}],
        [counted("One, two, ", 10, "CONTINUATION", "t")],
        [counted("One, two, ", 10, "CONTINUATION", "t"), resuming(), BROKEN],
        [counted("One, two, ", 10, "MAX_TOKENS", "t")],
    ],
)
def test_an_answer_in_several_calls_is_one_response(first: list[Fields]) -> None:
    """google-genai 3.6.1 yields one stream of them, and adds up what each call has used."""
    got = run(ASKED, *first, resuming(generationConfig={}), counted("three.", 5, "STOP"), end="complete")
    (response,) = got.messages("response")
    assert [part["content"] for part in response["parts"]] == ["One, two, three."]
    assert (status(got), response["finish_reason"], got.refused) == ("complete", "stop", [])
    usage = response["usage"]
    assert [usage[name] for name in ("input_tokens", "output_tokens", "total_tokens")] == [40, 15, 55]
    assert (usage["input_audio_tokens"], usage["meta:summed"]) == (4, True)
    assert "continuationToken" not in response["meta:adk"]
    assert [turn["parts"][0]["content"] for turn in got.user_turns] == ["Weather?"]


def test_the_rest_of_an_answer_calls_a_tool() -> None:
    answer = request(
        user({"text": "Weather?"}),
        model({"text": "Let me look."}, CALL),
        user({"functionResponse": {"name": "f", "response": {"r": 1}}}),
    )
    got = run(
        ASKED, counted("Let me ", 5, "CONTINUATION", "t"), resuming(), piece({"text": "look."}, CALL, finish="STOP"),
        answer, piece({"text": "Sunny."}, finish="STOP"), end="complete",
    )  # fmt: skip
    assert [len(message["parts"]) for message in got.messages("response")] == [2, 1]
    assert got.parts("request")[0]["tool_name"] == "f"


def test_the_rest_of_an_answer_of_another_run() -> None:
    """The user's words are in that run."""
    got = run(resuming(), piece({"text": "three."}, finish="STOP"), end="complete")
    assert (len(got.user_turns), got.records[-1]["lineage"]["goes_on"]) == (0, True)


def test_a_broken_call_without_a_token_is_tried_again() -> None:
    got = run(
        ASKED, piece({"text": "One, "}), BROKEN, ASKED, piece({"text": "One, two."}, finish="STOP"), end="complete"
    )
    assert [part["content"] for part in got.parts("response")] == ["One, two."]


def test_a_users_part_that_is_no_thought_is_words() -> None:
    """Rig 0.30 writes `"thought": false` into each part."""
    got = run(request(user({"text": "Weather?", "thought": False})), piece({"text": "Sun."}, finish="STOP"))
    assert got.user_turns[0]["parts"] == [{"part_kind": "user-prompt", "content": "Weather?"}]

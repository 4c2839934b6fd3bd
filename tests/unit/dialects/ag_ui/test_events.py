"""AG-UI events -> turns: what the protocol's own client keeps, and what it throws at."""

from typing import Any

import pytest

from tests.support.assembled import Assembled, assembled
from topics.thread_rules import check

Fields = dict[str, Any]
STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
ASKED = {"messages": [{"id": "u1", "role": "user", "content": "Weather?"}]}


def text(message_id: str, *deltas: str) -> list[Fields]:
    event = {"messageId": message_id}
    said = [{"type": "TEXT_MESSAGE_CONTENT", **event, "delta": delta} for delta in deltas]
    return [{"type": "TEXT_MESSAGE_START", **event}, *said, {"type": "TEXT_MESSAGE_END", **event}]


def call(call_id: str, *deltas: str, **more: Any) -> list[Fields]:
    event = {"toolCallId": call_id}
    said = [{"type": "TOOL_CALL_ARGS", **event, "delta": delta} for delta in deltas]
    start = {"type": "TOOL_CALL_START", **event, "toolCallName": "weather", **more}
    return [start, *said, {"type": "TOOL_CALL_END", **event}]


def result(call_id: str, content: Any = "sun", **more: Any) -> Fields:
    return {"type": "TOOL_CALL_RESULT", "messageId": f"r-{call_id}", "toolCallId": call_id, "content": content, **more}


def run(*events: Fields, **rest: Any) -> Assembled:
    rest = {"run": {"request": ASKED}} | rest
    got = assembled("ag-ui", [STARTED, *events], **rest)
    assert [finding for finding in check(got.document) if finding.severity == "error"] == []
    return got


def said(got: Assembled) -> list[Any]:
    return [part.get("content", part.get("args")) for part in got.parts("response")]


def test_text_call_result_and_text_are_two_responses() -> None:
    got = run(
        *text("m1", "Let me ", "look."),
        *call("c1", '{"city":', '"Paris"}'),
        result("c1"),
        *text("m2", "Sun."),
        FINISHED,
    )
    assert [message["message_type"] for message in got.agent_turns[0]["messages"]] == [
        "response",
        "request",
        "response",
    ]
    assert said(got) == ["Let me look.", {"city": "Paris"}, "Sun."]
    assert got.parts("request")[0]["status"] == "success"
    assert got.user_turns[0]["parts"][0]["content"] == "Weather?"
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert got.refused == []


def test_calls_of_a_named_message_stand_behind_its_text_and_others_alone() -> None:
    got = run(*call("c1", "{}", parentMessageId="m1"), *text("m1", "Hm."), result("c1"), *call("c2", "{}"), FINISHED)
    first, second = got.messages("response")
    assert [part["part_kind"] for part in first["parts"]] == ["text", "tool-call"]
    assert [part["tool_call_id"] for part in second["parts"]] == ["c2"]


@pytest.mark.parametrize("order", [["c1", "c2"], ["c2", "c1"]])
@pytest.mark.parametrize("parents", [["m1", "m2"], [None, None], ["m1", None]], ids=str)
def test_calls_that_are_whole_before_the_first_result_are_one_answer(order: list[str], parents: list[Any]) -> None:
    """Strands and ADK over AG-UI give each of the model's parallel calls a message of its own."""
    both = [call(f"c{n}", f'{{"n":{n}}}', parentMessageId=parent) for n, parent in enumerate(parents, 1)]
    got = run(*text("m1", "Hm."), *both[0], *both[1], *map(result, order), *text("m3", "Sun."), FINISHED)
    kinds = [message["message_type"] for message in got.agent_turns[0]["messages"]]
    assert kinds == ["response", "request", "response"]
    assert said(got) == ["Hm.", {"n": 1}, {"n": 2}, "Sun."]
    assert [part["tool_call_id"] for part in got.parts("request")] == ["c1", "c2"]


def test_a_call_that_ends_behind_its_result() -> None:
    """As the client of AG-UI 1.0 has it; a call that never began has no end."""
    (start, args, end), never = call("c1", "{}"), call("c2")[-1]
    got = run(start, args, result("c1"), end, never, *text("m2", "Sun."), FINISHED)
    assert said(got) == [{}, "Sun."]
    assert got.refused == [
        "invalid_event: seq 0+: TOOL_CALL_END: 'call:c2' is missing, or refers to nothing that is open"
    ]


def of_call(*ids: str) -> list[Fields]:
    return [{"id": each, "type": "function", "function": {"name": "weather", "arguments": "{}"}} for each in ids]


def test_the_order_of_a_snapshot_counts() -> None:
    """ag-ui-langgraph 0.0.47 streams results under their calls' ids, and gives them others at the end."""
    asked, calls = ASKED["messages"], {"toolCalls": of_call("c1", "c2")}
    first, last = {"id": "m1", "role": "assistant", "content": "Hm.", **calls}, text("m2", "Sun.")
    tools = [{"id": f"new-{n}", "role": "tool", "toolCallId": f"c{n}", "content": "sun"} for n in (1, 2)]
    messages = [*asked, first, *tools, {"id": "m2", "role": "assistant", "content": "Sun."}]
    both = [event for each in ("c1", "c2") for event in call(each, "{}", parentMessageId="m1")]
    results = [result(each, messageId=each) for each in ("c1", "c2")]
    snapshot = {"type": "MESSAGES_SNAPSHOT", "messages": messages}
    for late in (False, True):
        streamed = [*last, *results] if late else [*results, *last]
        beside = {"type": "CUSTOM", "name": "note", "value": 1}
        got = run(*text("m1", "Hm."), *both, *streamed, beside, snapshot, FINISHED)
        kinds = [message["message_type"] for message in got.agent_turns[0]["messages"]]
        assert kinds == ["response", "request", "response", "system"]
        assert said(got) == ["Hm.", {}, {}, "Sun."]
        assert [part["meta:ag_ui"]["id"] for part in got.parts("request")] == ["new-1", "new-2"]


def test_a_snapshot_with_a_summary_removes_nothing_that_was_said() -> None:
    """As LangChain's SummarizationMiddleware writes a history anew, within a run; AG-UI has no mark of it."""
    summary = {"id": "s1", "role": "user", "content": "Here is a summary of the conversation to date: …"}
    answer = {"id": "m2", "role": "assistant", "content": "Sun."}
    tools = [{"id": "r-c2", "role": "tool", "toolCallId": "c2", "content": "sun"}]
    second = {"id": "m1b", "role": "assistant", "toolCalls": of_call("c2")}
    snapshot = {"type": "MESSAGES_SNAPSHOT", "messages": [summary, second, *tools, answer]}
    streamed = [
        *call("c1", "{}", parentMessageId="m1"),
        result("c1"),
        *call("c2", "{}", parentMessageId="m1b"),
        result("c2"),
    ]
    got = run(*streamed, *text("m2", "Sun."), snapshot, snapshot, FINISHED)
    assert said(got) == [{}, {}, "Sun."]
    assert [part["tool_call_id"] for part in got.parts("request")] == ["c1", "c2"]
    assert [turn["parts"][0]["content"] for turn in got.user_turns] == ["Weather?"]
    (beside,) = got.messages("system")
    assert beside["event_type"] == "custom:ag-ui.summary"
    assert beside["event_data"] == {"id": "s1", "content": summary["content"]}


def test_tanstack_ends_each_call_and_seals_a_thought_by_its_step() -> None:
    """@tanstack/ai 0.58: RUN_FINISHED after each model call, whose usage is that call's; the step is sealed twice."""
    told = {"tanstack": {"model": "m"}}
    step = {"stepName": "step-1", "metadata": told}
    sealed = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "step-1", "encryptedValue": "s"}
    thought = [
        {"type": "REASONING_MESSAGE_START", "messageId": "th1", "role": "reasoning"},
        {"type": "STEP_STARTED", **step},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "th1", "delta": "Look it up."},
        {"type": "REASONING_MESSAGE_END", "messageId": "th1"},
    ]

    def finished(reason: str, *counts: int) -> Fields:
        usage = [dict(zip(("inputTokens", "outputTokens"), counts, strict=True))]
        return {**FINISHED, "usage": usage, "metadata": {"tanstack": {"model": "m", "finishReason": reason}}}

    first = [*thought, {"type": "STEP_FINISHED", **step}, sealed, *call("c1", "{}", parentMessageId="m1")]
    second = [*text("m2", "Sun"), finished("length", 40, 8)]
    got = run(*first, {"type": "STEP_FINISHED", **step}, sealed, finished("tool_calls", 20, 10), result("c1"), *second)
    assert got.refused == []
    assert said(got) == ["Look it up.", {}, "Sun"]
    assert got.parts("response")[0]["signature"] == "s"
    assert [message["finish_reason"] for message in got.messages("response")] == ["tool_call", "length"]
    assert [message["usage"]["input_tokens"] for message in got.messages("response")] == [20, 40]
    assert got.agent_turns[0]["completion_status"] == "complete"


def test_the_id_of_an_answered_call_is_anothers() -> None:
    got = run(*call("tc-1", '{"n":1}'), result("tc-1"), *call("tc-1", '{"n":2}'), result("tc-1", "rain"), FINISHED)
    assert said(got) == [{"n": 1}, {"n": 2}]
    assert [part["content"] for part in got.parts("request")] == ["sun", "rain"]


def test_a_snapshot_overrules_what_was_streamed_and_history_stays_out() -> None:
    history = [{"id": "u0", "role": "user", "content": "Hi"}, {"id": "a0", "role": "assistant", "content": "Hello"}]
    snapshot = [*history, *ASKED["messages"], {"id": "m1", "role": "assistant", "content": "Sun."}]
    event = {"type": "MESSAGES_SNAPSHOT", "messages": snapshot}
    asked = {"request": {"messages": snapshot[:-1]}}
    assert said(run(*text("m1", "Su"), event, FINISHED, run=asked)) == ["Sun."]
    assert said(run(*text("other", "Sun."), event, FINISHED, run=asked)) == ["Sun."]
    assert said(run(event, FINISHED, run={})) == ["Sun."]


def test_deltas_go_on_behind_a_snapshot() -> None:
    start, delta, end = text("m1", "Sun")
    event = {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "m1", "role": "assistant", "content": "Sun"}]}
    assert said(run(start, delta, event, {**delta, "delta": "ny."}, end, FINISHED)) == ["Sunny."]


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([FINISHED], "complete"),
        ([{**FINISHED, "outcome": {"type": "interrupt", "interrupts": [{"id": "i"}]}}], "complete"),
        ([{**FINISHED, "outcome": {"type": "cancelled"}}], "interrupted"),
        ([{"type": "RUN_ERROR"}], "interrupted"),
        ([{"type": "RUN_ERROR", "message": "late"}, FINISHED], "interrupted"),
        ([FINISHED, {"type": "RUN_ERROR", "message": "late"}], "complete"),
        ([], "interrupted"),
    ],
)
def test_how_a_run_ends(events: list[Fields], status: str) -> None:
    assert run(*text("m1", "Hi"), *events).agent_turns[0]["completion_status"] == status


@pytest.mark.parametrize("how", ["complete", "disconnected", None])
def test_without_its_last_event_a_run_broke_off_whatever_its_publisher_says(how: str | None) -> None:
    got = run(
        *text("m1", "Hm."), *call("c1", "{}", parentMessageId="m1"), result("c1"), *text("m2", "Su")[:-1], end=how
    )
    assert got.agent_turns[0]["completion_status"] == "interrupted"
    assert said(got) == ["Hm.", {}]
    (shown,) = got.agent_turns[0]["meta:partial"]["messages"]
    assert [part["content"] for part in shown["parts"]] == ["Su"]


def test_a_run_that_breaks_off_keeps_complete_cycles() -> None:
    got = run(*text("m1", "Hm."), *call("c1", "{}", parentMessageId="m1"), result("c1"), *text("m2", "Su")[:-1])
    assert said(got) == ["Hm.", {}]


def test_what_is_still_open_at_a_good_end_is_whole() -> None:
    chunks = [
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m1", "delta": "Su"},
        {"type": "TEXT_MESSAGE_CHUNK", "delta": "n."},
        {
            "type": "TOOL_CALL_CHUNK",
            "toolCallId": "c1",
            "toolCallName": "weather",
            "parentMessageId": "m1",
            "delta": "{",
        },
        {"type": "TOOL_CALL_CHUNK", "delta": "}"},
    ]
    assert said(run(*chunks, FINISHED)) == ["Sun.", {}]


def test_content_behind_the_end_is_refused() -> None:
    got = run(*text("m1", "Hi"), FINISHED, *text("m2", "late"))
    assert said(got) == ["Hi"]
    assert len(got.refused) == 3


def test_another_run_in_the_stream_is_another_turn() -> None:
    again = {
        "messages": [
            *ASKED["messages"],
            {"id": "m1", "role": "assistant"},
            {"id": "u2", "role": "user", "content": "And Rome?"},
        ]
    }
    got = run(*text("m1", "Sun."), FINISHED, {**STARTED, "runId": "r2", "input": again}, *text("m2", "Rain."), FINISHED)
    assert [turn["completion_status"] for turn in got.agent_turns] == ["complete", "complete"]
    assert said(got) == ["Sun.", "Rain."]
    assert got.user_turns[1]["parts"][0]["content"] == "And Rome?"


def test_results_of_the_clients_tools_open_the_next_turn() -> None:
    function = {"name": "paint", "arguments": "{}"}
    asked = [
        *ASKED["messages"],
        {"id": "a", "role": "assistant", "toolCalls": [{"id": "c0", "type": "function", "function": function}]},
        {"id": "t", "role": "tool", "toolCallId": "c0", "content": "red"},
    ]
    got = assembled("ag-ui", [*text("m1", "Done."), FINISHED], run={"request": {"messages": asked}})
    opening = got.agent_turns[0]["messages"][0]
    assert opening["message_type"] == "request"
    assert (opening["parts"][0]["tool_name"], opening["parts"][0]["content"]) == ("paint", "red")
    assert got.user_turns == []


def test_tokens_are_the_last_responses_unless_responses_told_their_own() -> None:
    usage = {"provider": "openai", "model": "gpt-5.2", "inputTokens": 12, "outputTokens": 3, "cachedInputTokens": 4}
    own = {"type": "CUSTOM", "name": "data-sys-usage", "value": {"input_tokens": 12, "output_tokens": 3}}
    for events in ([{**FINISHED, "usage": [usage]}], [own, {**FINISHED, "usage": [usage]}], [own, FINISHED]):
        got = run(*text("m1", "Hi"), *events)
        assert got.agent_turns[0]["total_usage"]["input_tokens"] == 12
        assert got.messages("response")[0]["usage"]["output_tokens"] == 3
    assert (
        run(*text("m1", "Hi"), {**FINISHED, "usage": [usage, usage]}).agent_turns[0]["total_usage"]["input_tokens"]
        == 24
    )
    assert run(*text("m1", "Hi"), {**FINISHED, "usage": [usage]}).messages("response")[0]["model_name"] == "gpt-5.2"


def test_what_stands_beside_the_conversation() -> None:
    patch = {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": 1}]}
    events = [
        {"type": "STATE_SNAPSHOT", "snapshot": {}},
        patch,
        patch,
        {"type": "CUSTOM", "name": "mood", "value": "good"},
    ]
    got = run(*events, *text("m1", "Hi"), {"type": "HOLOGRAM", "beam": 1}, {"type": "RAW", "event": {}}, FINISHED)
    beside = {message["event_type"]: message["event_data"] for message in got.messages("system")}
    assert beside == {
        "custom:ag-ui.state_snapshot": {"snapshot": {}},
        "custom:ag-ui.state_delta": {"patches": [patch["delta"], patch["delta"]]},
        "custom:mood": "good",
        "data-app-HOLOGRAM": {"beam": 1},
    }


def test_a_sub_agents_messages_are_kept_beside() -> None:
    mine = {"subagentRunId": "s1"}
    events = [{**event, **mine} for event in [*text("m9", "Hm."), *call("c9", "{}"), result("c9")]]
    started = {"type": "SUBAGENT_STARTED", **mine, "name": "researcher", "parentToolCallId": "c1"}
    ended = {"type": "SUBAGENT_FINISHED", **mine, "result": "found"}
    got = run(
        *text("m1", "Let me ask."),
        *call("c1", "{}", parentMessageId="m1"),
        started,
        *events,
        ended,
        result("c1"),
        FINISHED,
    )
    assert said(got) == ["Let me ask.", {}]
    (told,) = [m["event_data"] for m in got.messages("system") if m["event_type"] == "custom:ag-ui.subagent"]
    assert (told["name"], told["result"]) == ("researcher", "found")
    assert [message["role"] for message in told["messages"]] == ["assistant", "assistant", "tool"]


def test_what_pydantic_ai_says_in_encrypted_values() -> None:
    claim = '{"pydantic_ai": {"outcome": "denied"}}'
    sealed = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "r-c1", "encryptedValue": claim}
    builtin = call("pyd_ai_builtin|openai|ws_1", "{}", parentMessageId="m1")
    found = result("pyd_ai_builtin|openai|ws_1", "[]")
    got = run(
        *text("m1", "Hm."),
        *builtin,
        found,
        *text("m2", "Well."),
        *call("c1", "{}"),
        result("c1", "no"),
        sealed,
        FINISHED,
    )
    (first,) = got.messages("response")
    assert [part["part_kind"] for part in first["parts"]] == [
        "text", "builtin-tool-call", "builtin-tool-return", "text", "tool-call",
    ]  # fmt: skip
    assert first["parts"][1]["tool_call_id"] == "ws_1"
    (answer,) = got.parts("request")
    assert (answer["status"], answer["outcome"]) == ("error", "denied")


def test_thoughts_of_old_and_hand_made_servers() -> None:
    old = [{"type": "THINKING_TEXT_MESSAGE_START"}, {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "Hm"}]
    chunk = {"type": "REASONING_MESSAGE_CHUNK"}
    own = [{**chunk, "message_id": "m1", "delta": "H"}, {**chunk, "delta": "m"}]
    for events in ([*old, {"type": "THINKING_TEXT_MESSAGE_END"}], own):
        (part,) = run(*events, FINISHED).parts("response")
        assert (part["part_kind"], part["content"]) == ("thinking", "Hm")


def test_unknown_fields_are_kept_beside_what_they_came_with() -> None:
    begin, *rest = text("m1", "Hi")
    got = run(
        {**begin, "name": "Pilot", "mood": "calm"},
        *rest,
        *call("c1", "{}", why="curious"),
        result("c1", took=3),
        {**FINISHED, "cost": 7},
    )
    words, asked = (part["meta:ag_ui"] for part in got.parts("response"))
    assert (words["name"], words["fields"], asked["fields"]) == ("Pilot", {"mood": "calm"}, {"why": "curious"})
    assert got.parts("request")[0]["meta:ag_ui"]["fields"] == {"took": 3}
    assert got.agent_turns[0]["meta:ag_ui"]["fields"] == {"cost": 7}
    assert "fields" not in str(got.export("ag-ui"))


def test_a_signature_of_a_thought_without_text_is_kept() -> None:
    sealed = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "r1", "encryptedValue": "c2ln"}
    around = [{"type": f"REASONING_{when}", "messageId": "r1"} for when in ("START", "END")]
    got = run(around[0], sealed, around[1], *text("m1", "Hm."), FINISHED)
    assert [(part["part_kind"], part.get("signature")) for part in got.parts("response")] == [
        ("thinking", "c2ln"),
        ("text", None),
    ]
    assert got.refused == []


@pytest.mark.parametrize("place", [{"state": "output-error"}, {"metadata": {"tanstack": {"state": "output-error"}}}])
def test_a_result_of_tanstack_may_be_an_error(place: Fields) -> None:
    got = run(*call("c1", "{}"), result("c1", "no such place", **place), *text("m2", "Sun."), FINISHED)
    (answer,) = got.parts("request")
    assert (answer["status"], answer["content"]) == ("error", "no such place")


@pytest.mark.parametrize("place", [{"input": {"n": 1}}, {"metadata": {"tanstack": {"input": {"n": 1}}}}])
def test_the_end_of_a_call_may_have_its_arguments(place: Fields) -> None:
    """As @tanstack/ai 0.58 ends calls of a provider's own tools; what was streamed is what the model wrote."""
    start, end = call("c1")
    assert said(run(start, end | place, result("c1"), FINISHED)) == [{"n": 1}]
    start, args, end = call("c2", '{"n": 2}')
    assert said(run(start, args, end | place, result("c2"), FINISHED)) == [{"n": 2}]


SEALED = {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c1", "encryptedValue": "c2ln"}


@pytest.mark.parametrize("place", ["call", "beside"])
def test_a_call_keeps_the_signature_of_its_thought(place: str) -> None:
    """Gemini refuses the call without it; @tanstack/ai 0.58 has it in the call, ag-ui-adk 0.11 in an event."""
    calls = call("c1", "{}", **({"metadata": {"thoughtSignature": "c2ln"}} if place == "call" else {}))
    beside = [SEALED] if place == "beside" else []
    got = run(*calls, *beside, result("c1"), *text("m2", "Sun."), FINISHED)
    model = next(content for content in got.export("gemini") if content["role"] == "model")
    assert model["parts"][0]["thoughtSignature"] == "c2ln"
    (called,) = [message for message in got.export("ag-ui") if message.get("toolCalls")]
    assert called["toolCalls"][0]["encryptedValue"] == "c2ln"

"""UI message stream events -> ThreadProtocol: each event type, and each trap of the protocol."""

import pytest

from pipeline.dialects.vercel_ai.keys import DENIED, META
from tests.support.assembled import START, THREAD_ID, assembled
from tests.support.bills import bill, billed
from turnmill.identity import thread_uuid

CALL = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "weather", "input": {"city": "Paris"}}
OUTPUT = {"type": "tool-output-available", "toolCallId": "c1", "output": {"t": 7}}
STOP = {"type": "finish", "finishReason": "stop"}


def step(*events):
    return [{"type": "start-step"}, *events, {"type": "finish-step"}]


def text(said, key="t", **end):
    delta = [{"type": "text-delta", "id": key, "delta": piece} for piece in said]
    return [{"type": "text-start", "id": key}, *delta, {"type": "text-end", "id": key, **end}]


def thought(*events, key="r"):
    return [{"type": "reasoning-start", "id": key}, *events, {"type": "reasoning-end", "id": key}]


def run(*events, **rest):
    return assembled("vercel-ai", [{"type": "start", "messageId": "m1"}, *events], **rest)


def said(got):
    """Per request and response: what its parts say."""
    return [
        [part.get("content", part.get("args")) for part in message["parts"]]
        for turn in got.agent_turns
        for message in turn["messages"]
        if message["message_type"] != "system"
    ]


def system(got):
    return [(message["event_type"], message["event_data"]) for message in got.messages("system")]


def test_a_result_may_say_more_of_its_tool():
    """ai 6.0.326: `chunk.toolMetadata ?? toolInvocation.toolMetadata`, of a result or an error."""
    for answer in (OUTPUT, {"type": "tool-output-error", "toolCallId": "c1", "errorText": "no"}):
        got = run(*step({**CALL, "toolMetadata": {"icon": "sun"}}, {**answer, "toolMetadata": {"icon": "rain"}}), STOP)
        assert got.parts("response")[0][META]["toolMetadata"] == {"icon": "rain"}


# ---- text and reasoning


def test_a_turn_of_two_steps():
    got = run(*step(*text(["Let me ", "see."]), CALL, OUTPUT), *step(*text(["Sunny."])), STOP)
    first, second = got.messages("response")
    assert [part["part_kind"] for part in first["parts"]] == ["text", "tool-call"]
    assert (first["finish_reason"], second["finish_reason"]) == ("tool_call", "stop")
    assert said(got) == [["Let me see.", {"city": "Paris"}], [{"t": 7}], ["Sunny."]]
    assert got.parts("request")[0] == {
        "part_kind": "tool-return",
        "tool_name": "weather",
        "tool_call_id": "c1",
        "status": "success",
        "content": {"t": 7},
    }
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert got.agent_turns[0][META] == {"id": "m1"}
    assert not got.refused


def test_outputs_and_usage_may_come_behind_the_step():
    usage = {"type": "data-sys-usage", "data": {"input_tokens": 5, "output_tokens": 2}}
    got = run(*step(CALL), OUTPUT, usage, *step(*text(["Sunny."])), {**usage, "data": {"inputTokens": 8}}, STOP)
    assert said(got) == [[{"city": "Paris"}], [{"t": 7}], ["Sunny."]]
    assert [m["usage"] for m in got.messages("response")] == [
        {"input_tokens": 5, "output_tokens": 2},
        {"input_tokens": 8},
    ]
    assert got.agent_turns[0]["total_usage"] == {"input_tokens": 13, "output_tokens": 2}
    assert not system(got)


def test_parts_stand_where_they_began():
    events = [
        {"type": "text-start", "id": "a"},
        {"type": "text-start", "id": "b"},
        {"type": "text-delta", "id": "b", "delta": "B"},
        {"type": "text-delta", "id": "a", "delta": "A"},
        {"type": "text-end", "id": "b"},
        {"type": "text-end", "id": "a"},
    ]
    assert said(run(*step(*events), STOP)) == [["A", "B"]]


def test_a_text_without_its_end_is_discarded():
    got = run({"type": "start-step"}, *text(["kept"], "a"), {"type": "text-start", "id": "t"}, STOP)
    assert said(got) == [["kept"]]


def test_an_id_may_come_again_in_a_later_step():
    open_text = [{"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": "lost"}]
    assert said(run(*step(*open_text), *step(*text(["kept"])), STOP)) == [["kept"]]


def test_the_same_id_of_a_text_and_a_thought():
    got = run(*step(*text(["T"], "x"), *thought({"type": "reasoning-delta", "id": "x", "delta": "R"}, key="x")), STOP)
    assert [part["part_kind"] for part in got.parts("response")] == ["text", "thinking"]


def test_merged_streams_go_on_with_the_text_they_have_open():
    got = run(
        {"type": "start", "messageId": "m1"},
        {"type": "start-step"},
        {"type": "text-start", "id": "A"},
        {"type": "start-step"},
        {"type": "text-start", "id": "B"},
        {"type": "text-delta", "id": "A", "delta": "a"},
        {"type": "text-end", "id": "A"},
        {"type": "finish-step"},
        STOP,
        {"type": "text-delta", "id": "B", "delta": "b"},
        {"type": "text-end", "id": "B"},
        {"type": "finish-step"},
        STOP,
    )
    assert said(got) == [["a"], ["b"]]
    assert not got.refused


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        ({"anthropic": {"signature": "s"}}, {"signature": "s", "provider_name": "anthropic"}),
        (
            {"anthropic": {"redactedData": "x"}},
            {"signature": "x", "provider_name": "anthropic", "thinking_id": "redacted_thinking"},
        ),
        (
            {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "e"}},
            {"thinking_id": "rs_1", "signature": "e", "provider_name": "openai"},
        ),
        ({"google": {"thoughtSignature": "g"}}, {"signature": "g", "provider_name": "google"}),
        (
            {"pydantic_ai": {"id": "r1", "signature": "s", "provider_name": "acme", "provider_details": {"a": 1}}},
            {"thinking_id": "r1", "signature": "s", "provider_name": "acme", "provider_details": {"a": 1}},
        ),
        ({"acme": {"other": 1}}, {}),
        ({"acme": "no object"}, {}),
    ],
)
def test_provider_metadata_of_a_thought(metadata, fields):
    delta = {"type": "reasoning-delta", "id": "r", "delta": "why", "providerMetadata": {"early": {"signature": "no"}}}
    events = [
        {"type": "reasoning-start", "id": "r"},
        delta,
        {"type": "reasoning-end", "id": "r", "providerMetadata": metadata},
    ]
    (part,) = run(*step(*events), STOP).parts("response")
    assert part.pop(META) == {"id": "r", "providerMetadata": metadata}
    early = {} if fields else {"signature": "no", "provider_name": "early"}
    assert part == {"part_kind": "thinking", "content": "why", **early, **fields}


def test_citations_and_metadata_of_a_text():
    citations = [{"startIndex": 0}]
    end = {"citations": citations, "providerMetadata": {"openai": {"itemId": "msg_1"}}}
    (part,) = run(*step(*text(["x"], **end)), STOP).parts("response")
    assert part == {"part_kind": "text", "content": "x", "id": "msg_1", "provider_name": "openai", META: end}


def test_split_surrogates_join():
    assert said(run(*step(*text(["\ud83d", "\ude00 \ud800"])), STOP)) == [["😀 \ufffd"]]


# ---- tools


def test_input_comes_as_deltas_and_whole():
    start = {"type": "tool-input-start", "toolCallId": "c1", "toolName": "weather"}
    delta = {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '{"city": "Rome"}'}
    got = run(*step(start, delta, CALL, delta, OUTPUT), STOP)
    assert got.parts("response")[0]["args"] == {"city": "Paris"}


def test_a_call_that_never_was_whole_is_discarded():
    start = {"type": "tool-input-start", "toolCallId": "c1", "toolName": "weather"}
    assert said(run(*step(start, *text(["x"])), STOP)) == [["x"]]


def test_a_call_that_was_answered_although_it_never_was_whole():
    start = {"type": "tool-input-start", "toolCallId": "c1", "toolName": "weather"}
    delta = {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '{"city": "Rome"}'}
    assert said(run(*step(start, delta, OUTPUT), STOP)) == [[{"city": "Rome"}], [{"t": 7}]]


@pytest.mark.parametrize(
    ("given", "args"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1]", [1]),
        ('{"a": ', {"INVALID_JSON": '{"a": '}),
        ('"text"', {"INVALID_JSON": '"text"'}),
        ('{"a": NaN}', {"INVALID_JSON": '{"a": NaN}'}),
        ("", {}),
        ([1, 2], [1, 2]),
        (None, {}),
    ],
)
def test_arguments_are_data(given, args):
    got = run(*step({**CALL, "input": given}, OUTPUT), STOP)
    assert got.parts("response")[0]["args"] == args
    (tool,) = [part for part in got.export("vercel-ai")[0]["parts"] if part["type"] == "tool-weather"]
    assert tool.get("input") == given


def test_the_same_id_in_two_steps_is_two_calls():
    again = [{**CALL, "input": {"city": "Rome"}}, {**OUTPUT, "output": {"t": 9}}]
    got = run(*step(CALL, OUTPUT), *step(*again), STOP)
    assert said(got) == [[{"city": "Paris"}], [{"t": 7}], [{"city": "Rome"}], [{"t": 9}]]


def test_the_same_id_twice_in_a_step_is_one_call():
    start = {"type": "tool-input-start", "toolCallId": "c1", "toolName": "weather"}
    again = [start, {**CALL, "input": {"city": "Rome"}}, OUTPUT, {**OUTPUT, "output": {"t": 9}}]
    assert said(run(*step(start, CALL, *again), STOP)) == [[{"city": "Rome"}], [{"t": 9}]]


def test_a_late_output_belongs_to_the_step_of_its_call():
    got = run(*step(CALL), *step(*text(["meanwhile"])), OUTPUT, STOP)
    assert said(got) == [[{"city": "Paris"}], [{"t": 7}], ["meanwhile"]]


def test_an_output_before_its_call_waits_for_it():
    start = {"type": "tool-input-start", "toolCallId": "c1", "toolName": "weather"}
    for events in ([OUTPUT, CALL], [start, OUTPUT, CALL]):
        assert said(run(*step(*text(["x"]), *events), STOP)) == [["x", {"city": "Paris"}], [{"t": 7}]]


def test_an_output_whose_call_never_comes_is_kept_beside():
    got = run(*step(*text(["x"]), OUTPUT), STOP)
    assert system(got) == [("data-app-tool-output-available", {"toolCallId": "c1", "output": {"t": 7}})]


def test_preliminary_outputs_are_no_results():
    first = {**OUTPUT, "output": "almost", "preliminary": True}
    assert said(run(*step(CALL, first, OUTPUT, first), STOP)) == [[{"city": "Paris"}], [{"t": 7}]]
    assert said(run(*step(CALL, first), STOP)) == [[{"city": "Paris"}]]


def test_outputs_may_be_missing():
    got = run(*step(CALL, {"type": "tool-output-available", "toolCallId": "c1"}), STOP)
    assert got.parts("request")[0]["content"] is None


def test_results_are_in_the_order_in_which_inputs_were_whole():
    calls = [{**CALL, "toolCallId": key} for key in ("c2", "c1")]
    starts = [{"type": "tool-input-start", "toolCallId": key, "toolName": "weather"} for key in ("c1", "c2")]
    outputs = [{**OUTPUT, "toolCallId": key, "output": key} for key in ("c1", "c2")]
    assert said(run(*step(*starts, *calls, *outputs), STOP))[1] == ["c2", "c1"]


def test_a_failed_tool():
    got = run(*step(CALL, {"type": "tool-output-error", "toolCallId": "c1", "errorText": "died"}), STOP)
    assert (got.parts("request")[0]["status"], got.parts("request")[0]["content"]) == ("error", "died")


@pytest.mark.parametrize("told_again", [False, True])
def test_invalid_input(told_again):
    refused = {**CALL, "type": "tool-input-error", "errorText": "no city"}
    again = [{"type": "tool-output-error", "toolCallId": "c1", "errorText": "no city"}] if told_again else []
    got = run(*step(refused, *again), STOP)
    assert got.parts("response")[0]["args"] == {"city": "Paris"}
    assert got.parts("request")[0]["status"] == "validation_error"
    tool = got.export("vercel-ai")[0]["parts"][1]
    assert tool["rawInput" if told_again else "input"] == {"city": "Paris"}  # AI SDK 5 and 6, and 7
    assert (tool["state"], tool["errorText"]) == ("output-error", "no city")


def test_a_provider_runs_its_own_tools():
    call, output = {**CALL, "providerExecuted": True}, {**OUTPUT, "providerExecuted": True}
    got = run(*step(call, output, *text(["x"])), STOP)
    assert [p["part_kind"] for p in got.parts("response")] == ["builtin-tool-call", "builtin-tool-return", "text"]
    assert "status" not in got.parts("response")[1]
    assert not got.messages("request")
    failed = run(*step(call, {"type": "tool-output-error", "toolCallId": "c1", "errorText": "died"}), STOP)
    assert failed.parts("response")[1]["outcome"] == "failed"


def test_an_approval_is_asked_for_and_given():
    ask = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1", "reason": "costs"}
    answer = {"type": "tool-approval-response", "approvalId": "a1", "approved": False, "reason": "no"}
    got = run(*step(CALL, ask), STOP)
    assert got.agent_turns[0]["completion_status"] == "complete"
    got = run(*step(CALL, ask, answer, {"type": "tool-output-denied", "toolCallId": "c1"}), STOP)
    assert got.parts("response")[0][META] == {
        "approval": {"id": "a1", "requestReason": "costs", "approved": False, "reason": "no"}
    }
    answer = got.parts("request")[0]
    assert (answer["status"], answer["outcome"], answer["content"]) == ("error", "denied", "no")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "nope"},
        {"type": "tool-approval-response", "approvalId": "nope", "approved": True},
        {"type": "text-delta", "id": "t", "delta": "no start"},
        {"type": "text-delta", "id": "t"},
        {"type": "text-start", "id": 1},
        {"type": "text-start", "id": ["t"]},
        {"type": "tool-input-delta", "toolCallId": "nope", "inputTextDelta": "{"},
        {"type": "tool-input-available", "toolCallId": "c1", "input": {}},
        {"type": "error"},
        {"type": 7},
        {"no": "type"},
        {"type": "finish", "finishReason": ["stop"]},
        {"type": "steering-message", "id": "s"},
        {"type": "file", "url": "x"},
        {"type": "source-url", "sourceId": "s"},
    ],
)
def test_an_event_that_breaks_the_rules_is_refused_and_the_rest_goes_on(event):
    got = run(event, *step(*text(["kept"])), STOP)
    assert len(got.refused) == 1
    assert said(got) == [["kept"]]
    assert got.agent_turns[0]["completion_status"] == "complete"


def test_a_wrong_delta_does_not_end_its_text():
    events = text(["a", "b"])
    got = run(*step(*events[:2], {"type": "text-delta", "id": "t", "delta": 5}, *events[2:]), STOP)
    assert said(got) == [["ab"]]
    assert got.refused[0].startswith("protocol_violation")


# ---- files, sources, data


def test_files_by_value_and_by_address():
    files = [
        {"type": "file", "url": "data:image/png;base64,iVBORw0KGgo=", "mediaType": "image/png"},
        {"type": "file", "url": "https://e.x/i.png", "mediaType": "image/png"},
        {"type": "reasoning-file", "url": "data:text/plain,hello", "mediaType": "text/plain"},
        {"type": "file", "url": "data:text/plain;charset=utf-8;base64,aGk=", "mediaType": "text/plain"},
        {"type": "custom", "kind": "openai.compaction", "providerMetadata": {"openai": {"itemId": "cmp_1"}}},
    ]
    got = run(*step(*files), STOP)
    first, second, third, fourth, custom = got.parts("response")
    assert first["content"] == {
        "kind": "binary",
        "data": "iVBORw0KGgo=",
        "media_type": "image/png",
        "identifier": "4caece",
    }
    assert second["content"] == {"url": "https://e.x/i.png", "content_type": "image/png"}
    assert third["content"] == {"url": "data:text/plain,hello", "content_type": "text/plain"}
    assert fourth["content"]["data"] == "aGk="
    assert custom["part_kind"] == "custom:openai.compaction"
    assert got.export("vercel-ai")[0]["parts"][1:] == files


def test_sources_are_system_messages():
    url = {"type": "source-url", "sourceId": "s1", "url": "https://e.x", "title": "T"}
    paper = {"type": "source-document", "sourceId": "s2", "mediaType": "application/pdf", "title": "P"}
    got = run(*step(url, paper, *text(["x"])), STOP)
    assert system(got) == [
        ("source.url", {"source_id": "s1", "url": "https://e.x", "title": "T"}),
        ("source.document", {"source_id": "s2", "media_type": "application/pdf", "title": "P"}),
    ]


def test_data_is_replaced_by_type_and_id_and_transient_data_is_not_stored():
    events = [
        {"type": "data-w", "id": "a", "data": 1, "extra": True},
        {"type": "data-v", "id": "a", "data": "other type"},
        {"type": "data-w", "id": "a", "data": 2, "transient": True},
        {"type": "data-w", "id": "a", "data": 3, "extra": False},
        {"type": "data-w", "data": "no id"},
        {"type": "data-w"},
    ]
    got = run(*step(*events), STOP)
    assert system(got) == [("data-w", 3), ("data-v", "other type"), ("data-w", "no id"), ("data-w", None)]
    assert got.messages("system")[0][META] == {"id": "a", "extra": True}


def metadata(kind="message-metadata", **data):
    return {"type": kind, "messageMetadata": data}


def test_tokens_in_the_metadata_are_billed():
    first = {"inputTokens": 20, "outputTokens": 10, "totalTokens": 30, "cachedInputTokens": 15}  # the AI SDK 5
    second = {"inputTokens": 40, "outputTokens": 8, "inputTokenDetails": {"cacheReadTokens": 5, "cacheWriteTokens": 7}}
    total = {"inputTokens": 60, "outputTokens": 18, "totalTokens": 78}
    steps = [*step(CALL, OUTPUT), metadata(usage=first), *step(*text(["Sunny."])), metadata(usage=second)]
    for end in (STOP, {**STOP, **metadata("finish", totalUsage=total)}):
        got = run(*steps, end)
        assert [(row["input_tokens"], row["cache_read_tokens"], row["cache_write_tokens"]) for row in bill(got)] == [
            (20, 15, None),
            (40, 5, 7),
        ]
        assert billed(got, "input_tokens", "output_tokens", "turns") == (60, 18, 1)
    for key in ("usage", "totalUsage"):
        end = {**STOP, **metadata("finish", **{key: total})}
        assert billed(run(*step(CALL, OUTPUT), *step(*text(["Sunny."])), end), "input_tokens") == (60,)
        assert run(*step(*text(["Sunny."])), end).messages("response")[0]["usage"]["input_tokens"] == 60
    assert billed(run(*step(*text(["x"])), {**STOP, **metadata("finish", usage="much")}), "input_tokens") == (None,)


def test_telemetry_leaves_the_turn_and_feeds_usage():
    events = step(*text(["x"]), {"type": "data-sys-usage", "data": {"input_tokens": 3}, "transient": True})
    latency = {"type": "data-sys-latency", "data": {"ms": 9}}
    got = run(*events, latency, STOP)
    assert got.messages("response")[0]["usage"] == {"input_tokens": 3}
    assert not system(got)


def test_events_of_threadprotocol_make_links():
    got = run(
        {"type": "data-tp-thread_spawn", "data": {"spawned_thread_id": "child"}},
        {"type": "data-tp-thread_merge", "data": {"merged_thread_id": "other"}},
        {"type": "data-tp-thread_end", "data": {"timestamp": "2026-01-20T17:00:00Z"}},
        {"type": "data-tp-agent_handoff", "data": {"to": "b"}},
        STOP,
    )
    assert got.records[-1]["links"] == [
        {"from": thread_uuid("child")[0], "thread_id": THREAD_ID, "relation": "spawned_from"},
        {"thread_id": thread_uuid("other")[0], "relation": "merged_from"},
    ]
    assert got.document["metadata"]["meta:ended_at"] == "2026-01-20T17:00:00.000Z"
    assert [kind for kind, _ in system(got)] == [
        "data-tp-thread_spawn",
        "data-tp-thread_merge",
        "data-tp-thread_end",
        "data-tp-agent_handoff",
    ]


def test_unknown_events_are_kept_as_the_applications():
    got = run({"type": "brand-new", "field": [1]}, *step(*text(["x"])), STOP)
    assert system(got) == [("data-app-brand-new", {"field": [1]})]
    assert got.export("vercel-ai")[0]["parts"][0] == {"type": "data-app-brand-new", "data": {"field": [1]}}


# ---- steps and the end


def test_a_steering_message_is_the_users_and_stands_behind_the_results():
    steering = {"type": "steering-message", "id": "s1", "parts": [{"type": "text", "text": "Paris, Texas"}]}
    got = run(*step(CALL), steering, OUTPUT, *step(*text(["ok"])), STOP)
    assert said(got) == [[{"city": "Paris"}], [{"t": 7}, "Paris, Texas"], ["ok"]]
    assert not got.user_turns


def test_a_step_is_taken_back():
    kept = step(*text(["kept"]), CALL, OUTPUT)
    lost = [{"type": "start-step"}, *text(["lost"]), {**CALL, "toolCallId": "c2"}, {"type": "data-w", "data": 1}]
    got = run(*kept, *lost, {"type": "reset-step"}, *text(["again"]), {"type": "finish-step"}, STOP)
    assert said(got) == [["kept", {"city": "Paris"}], [{"t": 7}], ["again"]]
    assert not system(got)
    assert said(run(*text(["lost"]), {"type": "reset-step"}, *text(["kept"]), STOP)) == [["kept"]]


def test_metadata_is_merged_deeply():
    got = run(
        {"type": "message-metadata", "messageMetadata": {"a": {"b": 1, "l": [1, 2]}, "c": 1}},
        {"type": "message-metadata", "messageMetadata": None},
        {"type": "finish", "messageMetadata": {"a": {"b": None, "l": [3]}, "d": "x"}},
    )
    assert got.agent_turns[0][META]["metadata"] == {"a": {"b": None, "l": [3]}, "c": 1, "d": "x"}


@pytest.mark.parametrize(
    ("events", "status", "reason"),
    [
        ([STOP], "complete", None),
        ([{"type": "finish"}], "complete", None),
        ([{"type": "finish", "finishReason": "unknown"}], "complete", None),
        ([{"type": "finish", "finishReason": "error"}], "interrupted", "error"),
        ([{"type": "finish", "finishReason": "interrupted"}], "interrupted", "network_failure"),
        ([{"type": "error", "errorText": "boom"}], "interrupted", "error"),
        ([{"type": "error", "errorText": "boom"}, {"type": "finish"}], "interrupted", "error"),
        ([{"type": "error", "errorText": "soft"}, *step(*text(["on"])), {"type": "finish"}], "complete", None),
        ([{"type": "error", "errorText": "soft"}, STOP], "complete", None),
        ([{"type": "abort", "reason": "user"}], "interrupted", "user_cancelled"),
        ([{"type": "abort"}, {"type": "finish-step"}], "interrupted", "user_cancelled"),
        ([STOP, {"type": "abort"}], "complete", None),
        ([], "interrupted", "network_failure"),
    ],
)
def test_how_a_run_ends(events, status, reason):
    (turn,) = run(*step(*text(["x"])), *events).agent_turns
    assert turn["completion_status"] == status
    assert turn.get("interruption", {}).get("reason") == reason


def test_an_aborted_step_is_no_complete_response():
    got = run(*step(CALL, OUTPUT), {"type": "start-step"}, *text(["half"]), {"type": "abort"}, {"type": "finish-step"})
    assert said(got) == [[{"city": "Paris"}], [{"t": 7}]]


def test_a_step_with_an_error_is_kept_but_not_for_pydantic_ai():
    error = [
        {"type": "error", "errorText": "down"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "error"},
    ]
    got = run({"type": "start-step"}, *text(["half"]), *error)
    assert said(got) == [["half"]]
    assert got.export("pydantic-ai") == []
    assert got.agent_turns[0]["interruption"]["detail"] == "down"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("length", "length"), ("content-filter", "content_filter"), ("other", None), ("unknown", None), ("new", "error")],
)
def test_why_the_model_stopped(reason, expected):
    """What the SDK knows, and ThreadProtocol lacks, is no `stop`."""
    (response,) = run(*step(*text(["x"])), {"type": "finish", "finishReason": reason}).messages("response")
    assert response.get("finish_reason") == expected
    kept = None if expected in ("length", "content_filter") else {"finishReason": reason}
    assert response.get("meta:vercel") == kept


def test_what_follows_a_finish_still_belongs_to_the_message():
    got = run(*step(*text(["a"])), STOP, *text(["b"], "u"), {"type": "data-app-rating", "data": 5})
    assert said(got) == [["a", "b"]]
    assert system(got) == [("data-app-rating", 5)]


def test_another_message_is_another_turn():
    second = {"type": "start", "messageId": "m2"}
    got = run(*step(*text(["a"])), STOP, second, *step(*text(["b"])), {"type": "abort"})
    assert [turn["completion_status"] for turn in got.agent_turns] == ["complete", "interrupted"]
    assert said(got) == [["a"], ["b"]]
    assert len({record["turn_id"] for record in got.records}) == 2
    assert [message["id"] for message in got.export("vercel-ai")] == ["m1", "m2"]
    again = run(*step(*text(["a"])), {"type": "start", "messageId": "m1"}, *step(*text(["b"])), STOP)
    assert len(again.agent_turns) == 1


def test_a_message_that_has_not_ended_may_get_another_id():
    start, *rest = text(["a", "b"])
    second = {"type": "start", "messageId": "m2"}
    for at in range(len(rest)):
        got = run({"type": "start-step"}, start, *rest[:at], second, *rest[at:], {"type": "finish-step"}, STOP)
        assert said(got) == [["ab"]]
        assert not got.refused
        assert [message["id"] for message in got.export("vercel-ai")] == ["m2"]


@pytest.mark.parametrize(
    "flags", [(True, False, False), (False, True, True), (True, True, False), (False, True, False)]
)
def test_a_call_may_be_dynamic_first_and_static_later(flags):
    begun, whole, done = ({"dynamic": True} if flag else {} for flag in flags)
    start = {"type": "tool-input-start", "toolCallId": "c1", "toolName": "weather"}
    got = run(*step({**start, **begun}, {**CALL, **whole}, {**OUTPUT, **done}), STOP)
    assert said(got) == [[{"city": "Paris"}], [{"t": 7}]]
    (part,) = [part for part in got.export("vercel-ai")[0]["parts"] if part.get("toolCallId")]
    assert (part["type"], part["state"]) == ("dynamic-tool" if flags[1] else "tool-weather", "output-available")


def test_integers_beyond_those_of_javascript_are_exact():
    got = run(*step({**CALL, "input": {"n": 2**53 + 1}}, {**OUTPUT, "output": 2**64 + 1}), STOP)
    assert said(got) == [[{"n": 2**53 + 1}], [2**64 + 1]]


# ---- the request


def user(*parts, **rest):
    return {"role": "user", "parts": list(parts), **rest}


def test_the_user_turn_comes_from_the_request():
    words = user(
        {"type": "text", "text": "Look:"},
        {"type": "file", "mediaType": "image/png", "url": "https://e.x/i.png", "filename": "i.png"},
        {"type": "data-pick", "data": 1},
        id="u1",
    )
    before = [user({"type": "text", "text": "old"}), {"role": "assistant", "parts": []}]
    got = run(
        *step(*text(["ok"])), STOP, run={"request": {"messages": [*before, words, user({"type": "text", "text": "?"})]}}
    )
    (turn,) = got.user_turns
    assert [part["content"] for part in turn["parts"]] == [
        ["Look:", {"kind": "image-url", "url": "https://e.x/i.png", "media_type": "image/png", "identifier": "00ba7a"}],
        "?",
    ]
    assert got.export("vercel-ai")[0] == words


@pytest.mark.parametrize(
    "body",
    [
        {"message": user({"type": "text", "text": "Hi"})},
        [user({"type": "text", "text": "Hi"})],
        {"messages": [{"role": "user", "content": "Hi"}]},
    ],
)
def test_other_forms_of_the_request(body):
    assert run(STOP, run={"request": body}).user_turns[0]["parts"][0]["content"] == "Hi"


@pytest.mark.parametrize(
    "body", ["text", 5, {"messages": "no"}, {"messages": [5]}, {"messages": [{"role": "user"}]}, [user(5)], []]
)
def test_a_request_of_another_shape_says_nothing(body):
    got = run(*step(*text(["ok"])), STOP, run={"request": body})
    assert said(got) == [["ok"]]
    assert not got.refused


def test_words_are_not_stored_again_for_another_answer():
    body = {"trigger": "regenerate-message", "messages": [user({"type": "text", "text": "Hi"})]}
    assert not run(STOP, run={"request": body}).user_turns


EARLIER = {
    "type": "tool-weather",
    "toolCallId": "c1",
    "state": "approval-responded",
    "input": {"city": "Paris"},
    "approval": {"id": "a1", "approved": False, "reason": "no"},
}


@pytest.mark.parametrize(
    ("part", "event", "status", "content"),
    [
        (EARLIER, [OUTPUT], "success", {"t": 7}),
        (EARLIER, [{"type": "tool-output-denied", "toolCallId": "c1"}], "error", "no"),
        ({**EARLIER, "state": "output-available", "output": "Paris"}, [], "success", "Paris"),
        ({**EARLIER, "state": "output-error", "errorText": "died"}, [], "error", "died"),
    ],
)
def test_a_message_over_two_streams_opens_with_the_results(part, event, status, content):
    assistant = {"id": "m1", "role": "assistant", "metadata": {"n": 1}, "parts": [{"type": "step-start"}, part]}
    got = run(*event, *step(*text(["so"])), STOP, run={"request": {"messages": [user(), assistant]}})
    request, response = got.agent_turns[0]["messages"]
    assert [request["message_type"], response["message_type"]] == ["request", "response"]
    answer = request["parts"][0]
    assert (answer["tool_name"], answer["status"], answer["content"]) == ("weather", status, content)
    assert got.agent_turns[0][META]["metadata"] == {"n": 1}
    tool = got.export("vercel-ai")[0]["parts"][0]
    assert (tool["toolCallId"], tool["input"]) == ("c1", {"city": "Paris"})


def test_results_of_an_earlier_stream_without_its_request():
    got = run(OUTPUT, *step(*text(["so"])), STOP)
    assert said(got) == [[{"t": 7}], ["so"]]


def test_pydantic_ai_tells_when_its_response_came():
    metadata = {
        "type": "message-metadata",
        "messageMetadata": {"pydantic_ai": {"timestamp": "2026-01-20T16:59:02.045Z"}},
    }
    got = run(*step(*text(["x"]), metadata), STOP, ts=START)
    assert got.messages("response")[0]["timestamp"] == "2026-01-20T16:59:02.045Z"


def test_two_texts_in_a_row_of_pydantic_ai_are_two_responses():
    metadata = {"type": "message-metadata", "messageMetadata": {"pydantic_ai": {}}}
    note = {"type": "data-note", "data": 1}
    got = run(*step(*text(["a"], "1"), *text(["b"], "2"), note, CALL, OUTPUT, metadata), STOP)
    assert said(got) == [["a"], ["b", {"city": "Paris"}], [{"t": 7}]]
    kinds = [part["type"] for part in got.export("vercel-ai")[0]["parts"]]
    assert kinds == ["step-start", "text", "text", "data-note", "tool-weather"]


def test_what_pydantic_ai_sends_as_data():
    summary = {"type": "data-compaction", "data": {"content": "summary", "id": "cmp_1"}}
    queued = {
        "type": "data-enqueued-messages",
        "id": "q",
        "data": {"messages": [user({"type": "text", "text": "Cats?"})]},
    }
    got = run(*step(summary, CALL, OUTPUT, queued), *step(*text(["x"])), STOP)
    assert got.parts("response")[0] == {"part_kind": "compaction", "content": "summary", "id": "cmp_1"}
    assert said(got)[1] == [{"t": 7}, "Cats?"]
    parts = got.export("vercel-ai")[0]["parts"]
    assert parts[1] == summary
    assert parts[3] == queued


def test_calls_that_an_output_tool_made_needless():
    calls = [{**CALL, "toolCallId": key, "toolName": name} for key, name in (("f", "log"), ("o", "final_result"))]
    output = {"type": "tool-output-available", "toolCallId": "o", "output": "Final result processed."}
    got = run(*step(*calls, output), STOP)
    assert [part["tool_call_id"] for part in got.parts("request")] == ["o", "f"]
    assert [part.get("state") for part in got.export("vercel-ai")[0]["parts"][1:]] == [
        "input-available",
        "output-available",
    ]


def test_a_call_that_is_made_again_in_a_step_lost_its_first_answer():
    for call in (CALL, {**CALL, "providerExecuted": True}):
        got = run(*step(call, OUTPUT, {"type": "data-note", "data": 1}, call), STOP)
        assert [part["part_kind"] for part in got.parts("response")] == [got.parts("response")[0]["part_kind"]]
        assert not got.messages("request")
        kinds = [part["type"] for part in got.export("vercel-ai")[0]["parts"]]
        assert kinds == ["step-start", "tool-weather", "data-note"]


def test_an_event_may_have_fields_of_any_name():
    got = run({"type": "data-x", "data": 1, "fields": 2, "self": 3}, STOP)
    assert got.messages("system")[0][META] == {"fields": 2, "self": 3}
    assert not got.refused


@pytest.mark.parametrize(
    "part",
    [
        {"type": ["tool-x"]},
        {"type": "tool-x", "toolCallId": 5},
        {"type": "tool-x", "toolCallId": "c1", "state": ["output-available"]},
        {"type": "dynamic-tool", "toolCallId": "c1", "toolName": {"a": 1}, "state": "output-available"},
        "no part",
    ],
)
def test_a_message_of_another_shape_does_not_stop_its_stream(part):
    request = {"messages": [{"role": "assistant", "parts": [part]}]}
    got = run(OUTPUT, *step(*text(["so"])), STOP, run={"request": request})
    assert said(got)[-1] == ["so"]
    assert not got.refused


def test_thousands_of_texts_and_calls_are_no_trouble():
    metadata = {"type": "message-metadata", "messageMetadata": {"pydantic_ai": {}}}
    calls = [{**CALL, "toolCallId": f"c{n}"} for n in range(3000)]
    texts = [event for n in range(3000) for event in text(["x"], str(n))]
    got = run(*step(*texts), *step(*calls), metadata, STOP)
    assert len(got.messages("response")) == 3001


def test_a_number_past_all_floats_does_not_stop_the_turn():
    got = run(*step({**CALL, "input": '{"a": 1e400}'}, OUTPUT), STOP)
    assert got.parts("response")[0]["args"] == {"a": None}
    assert got.records[-1]["hash"]


@pytest.mark.parametrize("reason", ["policy: no deletions", None])
def test_an_automatic_denial_is_the_result_of_the_call(reason):
    """ai 7.0.173: `convertToModelMessages` makes a denied execution of it, though no tool-output-denied comes."""
    ask = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1", "isAutomatic": True}
    deny = {"type": "tool-approval-response", "approvalId": "a1", "approved": False}
    told = deny | ({"reason": reason} if reason else {})
    first = [CALL, CALL | {"toolCallId": "c2"}, ask, told, OUTPUT | {"toolCallId": "c2"}]
    got = run(*step(*first), *step(*text(["No."])), STOP)
    denied, other = got.parts("request")
    content = reason or DENIED
    assert (denied["tool_call_id"], denied["status"], denied["outcome"]) == ("c1", "error", "denied")
    assert (denied["content"], other["tool_call_id"]) == (content, "c2")
    (message,) = [message for message in got.export("vercel-ai") if message["role"] == "assistant"]
    states = [part["state"] for part in message["parts"] if part["type"].startswith("tool-")]
    assert states == ["approval-responded", "output-available"]
    for name in ("anthropic", "openai-chat", "openai-responses", "langchain", "ag-ui", "google-adk", "gemini"):
        assert content in str(got.export(name)), name
    requests = [m["parts"] for m in got.export("pydantic-ai") if m["kind"] == "request"]
    returned = requests[-1][0]
    assert (returned["outcome"], returned["content"]) == ("denied", content)


@pytest.mark.parametrize("provider", ["google", "vertex"])
def test_googles_signatures_are_in_the_export_for_gemini(provider):
    """Gemini 3 refuses a call without the signature of its thought."""
    signed = {"providerMetadata": {provider: {"thoughtSignature": "c2ln"}}}
    got = run(*step(*text(["Hm."], **signed), CALL | signed, OUTPUT), STOP)
    (said, called), *_ = [content["parts"] for content in got.export("gemini") if content["role"] == "model"]
    assert (said["thoughtSignature"], called["thoughtSignature"]) == ("c2ln", "c2ln")
    (message,) = got.export("vercel-ai")
    assert message["parts"][-1]["callProviderMetadata"] == {provider: {"thoughtSignature": "c2ln"}}

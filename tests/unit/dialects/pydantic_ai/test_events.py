"""The rules of Pydantic AI's event stream, one by one."""

from typing import Any

import pytest

from pipeline.dialects.pydantic_ai.keys import EXACT
from pipeline.dialects.pydantic_ai.messages import usage
from pipeline.turns import tokens
from tests.corpus.compare_pydantic import assembled, assembled_with_refusals

Event = dict[str, Any]


def start(index: int, part: Event, before: str | None = None) -> Event:
    return {"event_kind": "part_start", "index": index, "part": part, "previous_part_kind": before}


def delta(index: int, **fields: Any) -> Event:
    return {"event_kind": "part_delta", "index": index, "delta": fields}


def end(index: int, part: Event, following: str | None = None) -> Event:
    return {"event_kind": "part_end", "index": index, "part": part, "next_part_kind": following}


def called(part: Event, kind: str = "function") -> Event:
    return {"event_kind": f"{kind}_tool_call", "part": part}


def answered(call_id: str, value: Any, kind: str = "function", **fields: Any) -> Event:
    return {"event_kind": f"{kind}_tool_result", "part": answer(call_id, value), **fields}


def answer(call_id: str, content: Any) -> Event:
    return {"part_kind": "tool-return", "tool_name": "f", "tool_call_id": call_id, "content": content}


def text(content: str) -> Event:
    return {"part_kind": "text", "content": content}


def call(call_id: str, args: Any = None, name: str = "f") -> Event:
    return {"part_kind": "tool-call", "tool_name": name, "tool_call_id": call_id, "args": args}


def said(*contents: str) -> list[Event]:
    """A whole response for each text."""
    return [event for content in contents for event in (start(0, text(content)), end(0, text(content)))]


def calling(*calls: Event) -> list[Event]:
    """A response of calls, and their execution."""
    events = []
    for index, part in enumerate(calls):
        last = index + 1 == len(calls)
        events.append(start(index, part, "tool-call" if index else None))
        events.append(end(index, part, None if last else "tool-call"))
    return [*events, *map(called, calls)]


def result(messages: list[Event], index: int = 0, **fields: Any) -> Event:
    return {"event_kind": "agent_run_result", "result": {"messages": messages, "new_message_index": index, **fields}}


def request(*parts: Event, **fields: Any) -> Event:
    return {"kind": "request", "parts": list(parts), "timestamp": "2026-01-20T10:00:00.500000Z", **fields}


def response(*parts: Event, **fields: Any) -> Event:
    return {"kind": "response", "parts": list(parts), "timestamp": "2026-01-20T10:00:01.250001Z", **fields}


def prompt(content: Any) -> Event:
    return {"part_kind": "user-prompt", "content": content, "timestamp": "2026-01-20T10:00:00.250000Z"}


def turn(events: list[Event], how: str | None = "complete", **envelope: Any) -> Event:
    """The agent turn of a run."""
    document = assembled(events, end=how, **envelope)
    turns = [found for found in document["turns"] if found["turn_type"] == "agent"]
    assert len(turns) == 1
    return turns[0]


def parts(of: Event, kind: str | None = None) -> list[list[Event]]:
    """The parts of each message, of one type or of all."""
    return [message["parts"] for message in of["messages"] if kind in (None, message["message_type"])]


# ---- responses


def test_index_0_without_a_part_before_starts_a_response() -> None:
    assert parts(turn(said("one", "two"))) == [[text("one")], [text("two")]]


def test_index_0_with_a_part_before_replaces() -> None:
    events = [start(0, text("dra")), start(0, text("final"), "text"), end(0, text("final"))]
    assert parts(turn(events)) == [[text("final")]]


def test_deltas_may_follow_a_premature_end() -> None:
    events = [
        start(0, call("a", '{"x"')),
        end(0, call("a", '{"x"'), "tool-call"),
        start(1, call("b", '{"y"'), "tool-call"),
        delta(0, part_delta_kind="tool_call", args_delta=":1}"),
        delta(1, part_delta_kind="tool_call", args_delta=":2}"),
        end(1, call("b", '{"y":2}')),
    ]
    assert [part["args"] for part in parts(turn(events))[0]] == [{"x": 1}, {"y": 2}]


def test_the_execution_knows_the_whole_call() -> None:
    events = [start(0, call("a", '{"x"')), end(0, call("a", '{"x"')), called(call("a", '{"x":1}'))]
    assert parts(turn(events))[0][0]["args"] == {"x": 1}


def test_a_part_end_of_another_part_is_not_believed() -> None:
    events = [start(0, call("a", "{}")), end(0, text("wrong")), called(call("a", "{}")), answered("a", 1)]
    assert parts(turn(events), "response")[0][0]["part_kind"] == "tool-call"


def test_a_late_name_puts_a_part_in_its_place() -> None:
    first = start(1, text("b"))
    events = [first, start(0, text("a"), "text"), end(0, text("a"), "text"), end(1, text("b"))]
    assert parts(turn(events)) == [[text("a"), text("b")]]


def test_deltas_of_dicts_signatures_and_provider_details() -> None:
    thought = {"part_kind": "thinking", "content": "a", "id": "rs_1"}
    events = [
        start(0, thought),
        delta(0, part_delta_kind="thinking", content_delta="b", provider_name="acme"),
        delta(0, part_delta_kind="thinking", signature_delta="s1", provider_details={"x": 1}),
        delta(0, part_delta_kind="thinking", signature_delta="s2", provider_details={"y": 2}),
        start(1, call("c"), "thinking"),
        delta(1, part_delta_kind="tool_call", args_delta={"p": 1}, tool_name_delta="oo"),
        delta(1, part_delta_kind="tool_call", args_delta={"q": 2}),
        end(1, text("another part")),
    ]
    events.insert(4, end(0, text("another part"), "tool-call"))
    thinking, tool = parts(turn(events))[0]
    assert thinking == {
        "part_kind": "thinking",
        "content": "ab",
        "thinking_id": "rs_1",
        "signature": "s2",
        "provider_name": "acme",
        "provider_details": {"x": 1, "y": 2},
    }
    assert (tool["tool_name"], tool["args"]) == ("foo", {"p": 1, "q": 2})


def test_a_response_that_was_tried_again_is_left_out() -> None:
    events = [start(0, text("Once up")), delta(0, part_delta_kind="text", content_delta="on"), *said("Again.")]
    assert parts(turn(events)) == [[text("Again.")]]


def test_parts_without_an_end_of_their_own() -> None:
    file = {"part_kind": "file", "content": {"kind": "binary", "data": "_-8=", "media_type": "image/png"}}
    compaction = {"part_kind": "compaction", "content": "so far", "provider_details": None}
    found = parts(turn([start(0, compaction), start(1, file, "compaction")]))[0]
    assert found == [compaction, {**file, "content": {**file["content"], "data": "/+8="}}]


def test_speech_is_what_its_newest_transcript_says() -> None:
    speech = {"part_kind": "speech", "speaker": "assistant"}
    events = [
        start(0, speech),
        delta(0, part_delta_kind="speech", transcript_delta="Hallo"),
        delta(0, part_delta_kind="speech", transcript="Hello", transcript_delta=""),
        delta(0, part_delta_kind="speech", transcript_delta=" you"),
    ]
    assert parts(turn(events)) == [[{**speech, "transcript": "Hello you"}]]


# ---- arguments


@pytest.mark.parametrize(
    ("raw", "args", "style"),
    [
        (None, {}, {"meta:args": "none"}),
        ("", {}, {"meta:args": "empty"}),
        ({"a": 1}, {"a": 1}, {}),
        ('{"a":1}', {"a": 1}, {"meta:args": "compact"}),
        ('{"a": 1}', {"a": 1}, {"meta:args": "spaced"}),
        ('{"a":"\\u00e9"}', {"a": "é"}, {"meta:args": "compact-ascii"}),
        ('{"a": "\\u00e9"}', {"a": "é"}, {"meta:args": "spaced-ascii"}),
        ('{ "a":1}', {"a": 1}, {"meta:args": "text", "meta:args_text": '{ "a":1}'}),
        ('{"a":1,"a":2}', {"a": 2}, {"meta:args": "text", "meta:args_text": '{"a":1,"a":2}'}),
        ("[1,2]", [1, 2], {"meta:args": "compact"}),
        ('{"a"', {"INVALID_JSON": '{"a"'}, {}),
        ('"text"', {"INVALID_JSON": '"text"'}, {}),
        ('{"a":NaN}', {"INVALID_JSON": '{"a":NaN}'}, {}),
        ("[" * 100_000, {"INVALID_JSON": "[" * 100_000}, {}),
    ],
)
def test_arguments_are_data(raw: Any, args: Any, style: Event) -> None:
    found = parts(turn(calling(call("a", raw))))[0][0]
    assert found["args"] == args
    assert {key: value for key, value in found.items() if key.startswith("meta:")} == style


# ---- tools


def test_results_stand_in_the_order_of_the_calls() -> None:
    events = [*calling(call("a"), call("b")), answered("b", 2), answered("a", 1), *said("done")]
    _, returns, _ = parts(turn(events))
    assert [part["tool_call_id"] for part in returns] == ["a", "b"]


def test_results_stand_in_the_order_in_which_calls_were_begun() -> None:
    """1.x begins a tool that nobody has behind the others; a call that was not begun keeps its place."""
    unknown, known, silent = call("a", name="unknown"), call("b"), call("c")
    streamed = [e for e in calling(unknown, known, silent) if e["event_kind"] != "function_tool_call"]
    ran = [called(known), called(unknown), answered("a", "no such tool"), answered("b", 1), answered("c", 2)]
    _, returns, _ = parts(turn([*streamed, *ran, *said("done")]))
    assert [part["tool_call_id"] for part in returns] == ["b", "a", "c"]


def test_ids_may_be_used_again() -> None:
    events = [*calling(call("a")), answered("a", 1), *calling(call("a")), answered("a", 2), *said("done")]
    assert [part["content"] for found in parts(turn(events), "request") for part in found] == [1, 2]


def test_calls_of_one_step_may_share_an_id() -> None:
    events = [*calling(call("a", {"x": 1}), call("a", {"x": 2})), answered("a", 1), answered("a", 2)]
    calls, returns = parts(turn(events))
    assert [part["args"] for part in calls] == [{"x": 1}, {"x": 2}]
    assert [part["content"] for part in returns] == [1, 2]


def test_a_result_that_comes_twice_counts_once() -> None:
    content = {"content": "beside it"}
    twice = [answered("a", 1, "output"), answered("a", 1, "function", **content)]
    first = [answered("a", 1, **content)] * 2
    assert [len(found) for found in parts(turn([*calling(call("a")), *twice]), "request")] == [1]
    assert [len(found) for found in parts(turn([*calling(call("a")), *first]), "request")] == [2]


def test_what_tools_give_beside_their_results_follows_them() -> None:
    events = [
        *calling(call("a"), call("b")),
        answered("b", 2, content="of b"),
        answered("a", 1, content=["of a"]),
        *said("done"),
    ]
    contents = [part["content"] for part in parts(turn(events), "request")[0]]
    assert contents == [1, 2, ["of a"], "of b"]


@pytest.mark.parametrize(("first", "order"), [("output", ["o", "f"]), ("function", ["f", "o"])])
def test_results_of_output_tools_come_first_where_they_ran_first(first: str, order: list[str]) -> None:
    function, output = call("f", name="log"), call("o", name="final_result")
    ran = {
        "function": [called(function), answered("f", 1)],
        "output": [called(output, "output"), answered("o", "Final result processed.", "output")],
    }
    other = "function" if first == "output" else "output"
    streamed = [event for event in calling(function, output) if event["event_kind"] != "function_tool_call"]
    found = parts(turn([*streamed, *ran[first], *ran[other]]), "request")[0]
    assert [part["tool_call_id"] for part in found] == order


def test_results_that_1_20_does_not_tell_are_added_to_a_complete_run() -> None:
    function, output = call("f", name="log"), call("o", name="final_result")
    streamed = [event for event in calling(function, output) if event["event_kind"] != "function_tool_call"]
    final = {"event_kind": "final_result", "tool_name": "final_result", "tool_call_id": "o"}
    complete = parts(turn([*streamed, final]), "request")[0]
    assert [(part["tool_call_id"], part["content"], part["meta:implied"]) for part in complete] == [
        ("o", "Final result processed.", True),
        ("f", "Tool not executed - a final result was already processed.", True),
    ]
    assert parts(turn([*streamed, final], "aborted")) == []


def test_deferred_calls_of_a_complete_run_stay_open() -> None:
    assert [len(found) for found in parts(turn(calling(call("a"))))] == [1]
    assert parts(turn(calling(call("a")), "disconnected")) == []


def test_a_run_may_start_with_the_results_of_an_earlier_one() -> None:
    events = [called(call("a")), called(call("b")), answered("b", 2), answered("a", 1), *said("done")]
    returns, last = parts(turn(events))
    assert [part["content"] for part in returns] == [1, 2]
    assert last == [text("done")]


def test_failures_keep_their_exact_outcome() -> None:
    outcomes = {"a": {"outcome": "denied"}, "b": {"outcome": "retried", "retry": {"cause": "validation_error"}}}
    results = [
        {"event_kind": "function_tool_result", "part": {**answer(each, "no"), **fields}}
        for each, fields in outcomes.items()
    ]
    found = parts(turn([*calling(call("a"), call("b")), *results, *said("sorry")]), "request")[0]
    assert [(part["status"], part["outcome"]) for part in found] == [
        ("error", "denied"),
        ("validation_error", "retried"),
    ]


# ---- how a run ends


def test_an_interrupted_run_keeps_complete_cycles() -> None:
    cycle = [*calling(call("a")), answered("a", 1)]
    assert [len(found) for found in parts(turn([*cycle, start(0, text("cut o"))], "error"))] == [1, 1]
    assert parts(turn([*cycle, *said("closed")], "error"))[-1] == [text("closed")]
    assert parts(turn([*calling(call("a"), call("b")), answered("a", 1)], "error")) == []


def test_final_result_is_not_the_end() -> None:
    events = [*said("done"), {"event_kind": "final_result", "tool_name": None, "tool_call_id": None}]
    assert turn(events, None)["completion_status"] == "interrupted"


# ---- the result


def test_the_result_is_the_truth() -> None:
    before = [request(prompt("earlier")), response(text("yes"))]
    new = [request(prompt("hi"), instructions="Be brief.", run_id="r1"), response(text("new"), finish_reason=None)]
    document = assembled([*said("old"), result([*before, *new], 2)])
    user, agent = document["turns"]
    assert user["parts"] == [prompt("hi")]
    assert user["submitted_at"] == "2026-01-20T10:00:00.250Z"
    assert user[EXACT] == {"instructions": "Be brief.", "run_id": "r1", "timestamp": "2026-01-20T10:00:00.500000Z"}
    assert parts(agent) == [[text("new")]]
    assert agent["completion_status"] == "complete"
    assert agent["messages"][0][EXACT]["timestamp"] == "2026-01-20T10:00:01.250001Z"
    assert agent["messages"][0][EXACT]["finish_reason"] is None


@pytest.mark.parametrize("summary", ["Summary.", None])
@pytest.mark.parametrize("kept", [True, False])
def test_what_a_processor_of_the_history_removed_was_said(summary: str | None, *, kept: bool) -> None:
    """Pydantic AI 2.68: the result lacks it; `ProcessHistory` may put a summary in its place, or keep the prompt."""
    first, second = ([*calling(call(f"c{n}", {"n": n})), answered(f"c{n}", n)] for n in (1, 2))
    made = [request(prompt(summary))] if summary else []
    asked = [request(prompt("hi"))] if kept else []
    history = [*made, *asked, response(call("c2", {"n": 2})), request(answer("c2", 2)), response(text("done"))]
    events = [*first, *second, *said("done"), result(history, 0)]
    document = assembled(events, run={"request": {"prompt": "hi"}})
    user, agent = document["turns"]
    assert [part["content"] for part in user["parts"]] == ["hi"]
    spoken = [part for message in parts(agent, "response") + parts(agent, "request") for part in message]
    assert [part.get("args", part.get("content")) for part in spoken] == [{"n": 1}, {"n": 2}, "done", 1, 2]
    beside = [message["event_data"] for message in agent["messages"] if message["message_type"] == "system"]
    assert beside == ([{"content": "Summary."}] if summary else [])


def test_the_result_of_1_x() -> None:
    history = [request(prompt("a"), run_id="r1"), response(text("b")), request(prompt("c"), run_id="r2")]
    state = {"message_history": [*history, response(text("d"), run_id="r2")], "run_id": "r2"}
    for index in ({"_new_message_index": 2}, {}):  # without an index, the run's id tells
        document = assembled([{"event_kind": "agent_run_result", "result": {"_state": state, **index}}])
        assert [found["parts"][0]["content"] for found in document["turns"] if "parts" in found] == ["c"]


def test_a_prompt_beside_results_is_the_users_and_keeps_its_place() -> None:
    new = [request(answer("a", 1), prompt("and now?")), response(text("done"))]
    user, agent = assembled([result(new)])["turns"]
    assert user["parts"] == [prompt("and now?")]
    assert agent["messages"][0]["meta:user_prompt_at"] == [1]
    assert [part["part_kind"] for part in agent["messages"][0]["parts"]] == ["tool-return"]


def test_the_user_spoke_before_the_run_began() -> None:
    began = "2026-01-20T10:00:00.100Z"
    document = assembled([result([request(prompt("hi")), response(text("yo"))])], run={"started_at": began})
    assert [found.get("submitted_at", found.get("started_at")) for found in document["turns"]] == [began, began]


def test_events_beside_the_conversation_stay_where_they_were() -> None:
    custom = {"event_kind": "custom", "name": "progress", "pct": 50, "tool_call_id": "a"}
    new = [response(call("a")), request(answer("a", 1)), response(text("done"))]
    events = [*calling(call("a")), custom, answered("a", 1), *said("done"), result(new)]
    kinds = [message["message_type"] for message in turn(events)["messages"]]
    assert kinds == ["response", "system", "request", "response"]


def test_system_prompts_are_not_stored() -> None:
    system = {"part_kind": "system-prompt", "content": "You are."}
    document = assembled([result([request(system, prompt("hi")), request(system), response(text("yo"))])])
    assert "You are." not in str(document)


def test_tokens() -> None:
    usage = {"input_tokens": 9, "output_tokens": 3, "cache_read_tokens": 0, "details": {"reasoning_tokens": 2}}
    run = {"input_tokens": 9, "output_tokens": 3, "requests": 1, "tool_calls": 0}
    found = turn([result([response(text("a"), usage=usage)], usage=run)])
    assert found["messages"][0]["usage"] == {
        "input_tokens": 9,
        "output_tokens": 3,
        "thinking_tokens": 2,
        "details": {"reasoning_tokens": 2},
    }
    assert found["total_usage"] == {"input_tokens": 9, "output_tokens": 3, "requests": 1}


def test_tokens_shared_with_another_run_are_not_this_turns() -> None:
    own = {"input_tokens": 9, "output_tokens": 3}
    shared = {"input_tokens": 20, "output_tokens": 6, "requests": 2}
    found = turn([result([response(text("a"), usage=own)], usage=shared)])
    assert found["total_usage"] == own
    assert found["meta:run_usage"] == shared


def test_a_result_without_messages_ends_the_run() -> None:
    found = turn([*said("done"), {"event_kind": "agent_run_result", "result": {"output": "done"}}], None)
    assert (found["completion_status"], parts(found)) == ("complete", [[text("done")]])


# ---- beside the conversation


def test_steering_joins_the_request_or_stands_alone() -> None:
    steering = {"event_kind": "enqueued_messages", "messages": [request(prompt("also"))], "parts": [prompt("also")]}
    later = {"event_kind": "enqueued_messages", "messages": [request(prompt("more"))]}
    events = [*calling(call("a")), answered("a", 1), steering, *said("one"), later, *said("two")]
    kinds = [[part["part_kind"] for part in found] for found in parts(turn(events))]
    assert kinds == [["tool-call"], ["tool-return", "user-prompt"], ["text"], ["user-prompt"], ["text"]]


def test_parts_that_the_sdk_adds_to_a_request() -> None:
    part = {"part_kind": "tool-availability-delta", "added": ["f"]}
    events = [{"event_kind": "tool_availability_delta", "part": part}, *said("done")]
    assert parts(turn(events)) == [[part], [text("done")]]


def test_custom_events_are_data_events() -> None:
    events = [
        {"event_kind": "custom", "name": "progress", "pct": 50, "tool_call_id": "a", "tool_name": "f"},
        {"event_kind": "custom", "name": "ping"},
        {"event_kind": "custom", "name": "sys-latency", "ms": 3},
        {"event_kind": "custom", "name": "tp-thread_merge", "merged_thread_id": "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e12"},
        *said("done"),
    ]
    document = assembled(events, end="complete")
    found = [message for message in document["turns"][0]["messages"] if message["message_type"] == "system"]
    assert [(message["event_type"], message["event_data"]) for message in found[:2]] == [
        ("data-progress", {"pct": 50}),
        ("data-ping", None),
    ]
    assert found[0]["meta:tool_call_id"] == "a"
    assert [message["event_type"] for message in found[2:]] == ["data-tp-thread_merge"]
    assert document["relationships"]["links"][0]["relation"] == "merged_from"


def test_other_events_are_kept_as_they_are() -> None:
    event = {"event_kind": "realtime_session_error", "error": {"code": 7}}
    found = turn([event, *said("done")])["messages"][0]
    assert (found["event_type"], found["event_data"]) == ("pydantic-ai.realtime_session_error", {"error": {"code": 7}})


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ("hi", "hi"),
        ({"user_prompt": "hi"}, "hi"),
        ({"prompt": ["look", {"kind": "image-url", "url": "https://x.test/a"}]}, None),
        ([request(prompt("old")), response(text("yes")), request(prompt("hi"))], "hi"),
        ({"messages": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]}, "hi"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "hi"),
    ],
)
def test_the_prompt_may_be_in_the_servers_request(body: Any, content: str | None) -> None:
    user, _ = assembled(said("yo"), end="complete", run={"request": body})["turns"]
    assert user["parts"][0]["content"] == (content if content is not None else body["prompt"])


@pytest.mark.parametrize(
    "body", [{}, [], 7, {"messages": "no"}, {"messages": [{"role": "assistant", "parts": []}]}, {"messages": [3]}]
)
def test_other_requests_say_nothing_of_the_user(body: Any) -> None:
    document = assembled(said("yo"), end="complete", run={"request": body})
    assert [found["turn_type"] for found in document["turns"]] == ["agent"]


# ---- bad events


@pytest.mark.parametrize(
    "event",
    [
        {"event_kind": "part_start", "index": 0},
        {"event_kind": "part_start", "index": "x", "part": text("a")},
        {"event_kind": "part_start", "index": 0, "part": {"content": "a"}},
        delta(5, part_delta_kind="text", content_delta="a"),
        delta(0, part_delta_kind="text", content_delta=None),
        delta(0, part_delta_kind="smell", content_delta="a"),
        end(5, text("a")),
        answered("nobody", 1),
        {"event_kind": "function_tool_result"},
        {"event_kind": "agent_run_result", "result": None},
        {"event_kind": "agent_run_result", "result": {"messages": [{"kind": "response"}]}},
        {"event_kind": "agent_run_result", "result": {"messages": [7]}},
        {"event_kind": "enqueued_messages"},
        {"event_kind": "custom"},
        {"event_kind": 7},
        {},
    ],
)
def test_a_bad_event_is_refused_and_leaves_no_trace(event: Event) -> None:
    events = [start(0, text("a")), delta(0, part_delta_kind="text", content_delta="b"), end(0, text("ab"))]
    document, refused = assembled_with_refusals([*events[:2], event, events[2]], end="complete")
    assert len(refused) == 1
    assert document["turns"] == assembled(events, end="complete")["turns"]


def test_every_count_of_a_request_is_known() -> None:
    """As pydantic-ai 2.68 writes a RequestUsage."""
    counts = {
        "input_tokens": 1_000,
        "cache_write_tokens": 300,
        "cache_write_1h_tokens": 200,
        "cache_read_tokens": 400,
        "output_tokens": 90,
        "input_audio_tokens": 50,
        "cache_audio_read_tokens": 20,
        "output_audio_tokens": 30,
        "web_searches": 2,
    }
    told = {**counts, "output_reasoning_tokens": 40, "audio_seconds": 0.0, "details": {}, "cost": "0.0123"}
    known = tokens.counts(usage(told))
    assert known == counts | {"thinking_tokens": 40, "total_tokens": 1_090, "cost_nano_usd": 12_300_000}


def test_tokens_that_the_provider_did_not_tell_are_not_zero() -> None:
    zeros = {"input_tokens": 0, "output_tokens": 0, "cost": None, "details": {}}
    assert usage({**zeros, "unmeasured_requests": 1}) == {"unmeasured_requests": 1}
    told = usage({**zeros, "input_tokens": 5, "unmeasured_requests": 1})
    assert told == {"input_tokens": 5, "output_tokens": 0, "unmeasured_requests": 1}


def test_a_call_without_an_id_is_refused() -> None:
    """Pydantic AI makes one up, so its dumps always have it."""
    nameless = {"part_kind": "tool-call", "tool_name": "f", "args": {}}
    _, refused = assembled_with_refusals([start(0, nameless)])
    assert [event.reason for event in refused] == ["invalid_event"]

"""The Agents SDK's events -> turns: the model's own events are the content, run items bring what tools returned."""

import pytest

from tests.support.assembled import assembled
from topics.thread_rules import check

USAGE = {"input_tokens": 10, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}}


def raw(kind, **told):
    return {"type": "raw_response_event", "data": {"type": kind, **told}}


def message(said, number=1, **rest):
    content = [{"type": "output_text", "text": said, "annotations": [], **rest}]
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}


def call(call_id="c1", name="get", arguments="{}", **rest):
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        **rest,
    }


def created(number=1):
    return raw("response.created", response={"id": f"resp_{number}", "output": []})


def completed(*output, number=1, **rest):
    response = {"id": f"resp_{number}", "model": "m1", "status": "completed", "output": list(output), "usage": USAGE}
    return raw("response.completed", response={**response, **rest})


def done(item, index=0):
    return raw("response.output_item.done", output_index=index, item=item)


def delta(text, index=0, **rest):
    return raw("response.output_text.delta", output_index=index, content_index=0, delta=text, **rest)


def said(item, name="message_output_created", kind="message_output_item", agent="Pilot", **rest):
    item = {"type": kind, "raw_item": item, "agent": {"name": agent}, **rest}
    return {"type": "run_item_stream_event", "name": name, "item": item}


def called(item, **rest):
    return said(item, "tool_called", "tool_call_item", **rest)


def returned(output, call_id="c1", kind="tool_call_output_item", **rest):
    told = {"type": "function_call_output", "call_id": call_id, "output": output}
    return said(told, "tool_output", kind, output=output, **rest)


def agent(name):
    return {"type": "agent_updated_stream_event", "new_agent": {"name": name, "tools": []}}


def run(*events, end="complete", **rest):
    got = assembled("openai-agents", list(events), end=end, **rest)
    assert not [finding for finding in check(got.document) if finding.severity == "error"]
    return got


def contents(got, kind="response"):
    return [part.get("content", part.get("args")) for part in got.parts(kind)]


def test_what_is_told_three_times_is_said_once():
    item = message("Hello")
    got = run(agent("Pilot"), created(), delta("Hel"), delta("lo"), done(item), completed(item), said(item))
    (response,) = got.messages("response")
    assert contents(got) == ["Hello"]
    assert (response["model_name"], response["provider_response_id"], response["agent_id"]) == ("m1", "resp_1", "Pilot")
    assert (response["usage"]["input_tokens"], response["usage"]["thinking_tokens"]) == (10, 2)
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert not got.refused


def test_only_the_publisher_says_that_a_run_is_complete():
    got = run(created(), completed(message("Hi")), end="disconnected")
    assert got.agent_turns[0]["completion_status"] == "interrupted"
    assert contents(got) == ["Hi"]


@pytest.mark.parametrize("early", [False, True])
def test_results_are_the_request_behind_the_response(early):
    """Old SDKs tell of a call before the response is over."""
    item = call(arguments='{"n": 12345678901234567890123}')
    order = [called(item), completed(item)] if early else [completed(item), called(item)]
    got = run(created(), done(item), *order, returned("sunny"), created(2), completed(message("Sunny."), number=2))
    assert [m["message_type"] for m in got.agent_turns[0]["messages"]] == ["response", "request", "response"]
    assert contents(got, "request") == ["sunny"]
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 20


def test_items_alone_are_the_content():
    got = run(
        said(message("I'll look.")),
        called(call()),
        returned([{"type": "input_text", "text": "sunny"}]),
        said(message("Sunny.")),
    )
    assert [m["message_type"] for m in got.agent_turns[0]["messages"]] == ["response", "request", "response"]
    assert contents(got) == ["I'll look.", {}, "Sunny."]


def test_an_id_that_is_used_again_belongs_to_the_newest_response():
    steps = [
        event
        for number in (1, 2)
        for event in (created(number), completed(call(), number=number), returned(f"r{number}"))
    ]
    got = run(*steps)
    assert [m["parts"][0]["content"] for m in got.messages("request")] == ["r1", "r2"]


def test_made_up_ids_tell_nothing_apart():
    one, two = ({**message(text), "id": "__fake_id__"} for text in ("One", "Two"))
    fake = raw("response.created", response={"id": "__fake_id__"})
    got = run(
        fake, done(one), completed(one, id="__fake_id__"),
        fake, delta("Tw"), done(two), completed(two, id="__fake_id__"),
    )  # fmt: skip
    assert contents(got) == ["One", "Two"]
    assert "__fake_id__" not in str(got.document)


def test_without_output_in_the_terminal_event_the_items_count():
    got = run(created(), done(message("B", 2), 1), done(message("A"), 0), completed())
    assert contents(got) == ["A", "B"]


def test_without_items_what_the_deltas_built_counts():
    opened = raw("response.output_item.added", output_index=1, item=call(arguments=""))
    got = run(
        created(), delta("Hi"), opened,
        raw("response.function_call_arguments.delta", output_index=1, delta='{"a"'),
        raw("response.function_call_arguments.delta", output_index=1, delta=":1}"),
        completed(),
    )  # fmt: skip
    assert contents(got) == ["Hi", {"a": 1}]


def test_servers_that_give_all_items_one_index():
    first, second = (raw("response.output_item.added", output_index=0, item={**message("", n)}) for n in (1, 2))
    got = run(
        created(), first, delta("One", item_id="msg_1"), second, delta("Two", item_id="msg_2"),
        done(message("One"), 0), completed(),
    )  # fmt: skip
    assert contents(got) == ["One", "Two"]


def test_a_call_that_broke_off_has_its_id_and_model():
    begun = raw("response.created", response={"id": "resp_1", "model": "m1", "output": []})
    (shown,) = run(begun, delta("Hal"), end=None).agent_turns[0]["meta:partial"]["messages"]
    assert (shown["provider_response_id"], shown["model_name"]) == ("resp_1", "m1")


def test_a_call_that_broke_off_and_was_made_again_is_not_said():
    got = run(created(), done(message("Hel")), created(2), completed(message("Hello", 2), number=2))
    assert contents(got) == ["Hello"]
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 10


@pytest.mark.parametrize(
    "event",
    [
        raw("error", code="rate_limit_exceeded", message="Slow down"),
        raw("error", error={"code": "rate_limit_exceeded", "message": "Slow down"}),
        raw("response.failed", response={"error": {"code": "rate_limit_exceeded", "message": "Slow down"}}),
    ],
)
def test_an_error_in_the_stream_is_an_error(event):
    got = run(created(), delta("Hi"), event)
    assert got.agent_turns[0]["interruption"] | {"interrupted_at": ""} == {
        "reason": "error", "detail": "Slow down", "interrupted_at": ""
    }  # fmt: skip
    assert contents(got) == []
    assert got.messages("system")[0]["event_data"] == {"code": "rate_limit_exceeded", "message": "Slow down"}


def test_an_error_behind_the_end_of_a_response_is_kept_beside_it():
    got = run(created(), completed(message("Hi")), raw("error", message="late"))
    assert contents(got) == ["Hi"]
    assert got.messages("system")[0]["event_data"] == {"message": "late"}


def test_progress_of_the_model_is_dropped_and_what_nobody_knows_is_kept():
    known = [raw("response.content_part.added"), raw("response.web_search_call.searching"), raw("keepalive")]
    got = run(created(), *known, raw("response.mood.changed", x=1), raw("vendor.note", y=1), completed(message("Hi")))
    assert [(m["event_type"], m["event_data"]) for m in got.messages("system")] == [
        ("custom:openai-agents.response.mood.changed", {"x": 1}),
        ("custom:openai-agents.vendor.note", {"y": 1}),
    ]


def test_an_answer_that_was_cut_short_is_complete():
    cut = completed(message("Hel"), call(status="incomplete", arguments='{"a'), status="incomplete")
    cut["data"]["type"] = "response.incomplete"
    cut["data"]["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
    got = run(created(), cut)
    assert got.messages("response")[0]["finish_reason"] == "length"
    assert contents(got) == ["Hel"]


def test_a_hand_off_stays_in_the_turn():
    item = call(name="transfer_to_clerk")
    moved = returned('{"assistant": "Clerk"}', kind="handoff_output_item")
    moved["item"] |= {"source_agent": {"name": "Pilot"}, "target_agent": {"name": "Clerk"}}
    got = run(
        agent("Pilot"), created(), completed(item), moved, agent("Clerk"),
        created(2), completed(message("Hi"), number=2),
    )  # fmt: skip
    assert len(got.agent_turns) == 1
    assert [m["agent_id"] for m in got.messages("response")] == ["Pilot", "Clerk"]
    (handoff,) = got.messages("system")
    assert (handoff["event_type"], handoff["event_data"]) == ("handoff", {"from": "Pilot", "to": "Clerk"})


def test_a_resumed_run_begins_with_a_result():
    events = [agent("Pilot"), returned("booked", "c0"), created(), completed(message("Done"))]
    got = assembled("openai-agents", events, end="complete")  # the call is in an earlier turn of the thread
    assert [m["message_type"] for m in got.agent_turns[0]["messages"]] == ["request", "response"]


def test_reasoning_keeps_its_summary_and_goes_back_signed():
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "encrypted_content": "c2ln",
        "summary": [{"type": "summary_text", "text": "Hm"}],
    }
    item["content"] = [{"type": "reasoning_text", "text": "Hmm, well"}]
    got = run(created(), completed(item))
    assert got.parts("response") == [
        {
            "part_kind": "thinking", "content": "Hm", "signature": "c2ln", "thinking_id": "rs_1",
            "meta:openai_responses": {"item": True, "raw_content": ["Hmm, well"], "summarized": True},
        }
    ]  # fmt: skip


def test_a_refusal_is_text_with_a_mark():
    item = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    (part,) = run(created(), completed(item)).parts("response")
    assert (part["content"], part["meta:refusal"]) == ("No.", True)


def test_tools_of_the_server_answer_in_the_response():
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    image = {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": "aGk=",
        "output_format": "webp",
    }
    mcp = {
        "type": "mcp_call",
        "id": "mcp_1",
        "name": "find",
        "arguments": '{"q":1}',
        "error": "down",
        "server_label": "s",
    }
    got = run(created(), completed(search, image, mcp))
    kinds = [(part["part_kind"], part.get("tool_name")) for part in got.parts("response")]
    assert kinds == [
        ("builtin-tool-call", "web_search"), ("builtin-tool-return", "web_search"),
        ("builtin-tool-call", "image_generation"), ("builtin-tool-return", "image_generation"), ("file", None),
        ("builtin-tool-call", "find"), ("builtin-tool-return", "find"),
    ]  # fmt: skip
    assert got.parts("response")[4]["content"]["media_type"] == "image/webp"
    assert got.parts("response")[6]["status"] == "error"


def test_a_shell_of_the_servers_is_answered_once():
    hosted = {"environment": {"type": "container_reference"}}
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}, **hosted}
    output = {"type": "shell_call_output", "id": "so_1", "call_id": "c1", "output": [{"stdout": "a"}]}
    item = said(output, "tool_output", "tool_call_output_item", output="a")
    got = run(created(), completed(shell, output), called(shell), item, created(2), completed(message("a"), number=2))
    kinds = [part["part_kind"] for part in got.parts("response")]
    assert kinds == ["builtin-tool-call", "builtin-tool-return", "text"]
    assert got.messages("request") == []


def test_a_search_for_tools_is_a_call_where_the_client_makes_it():
    search = {"type": "tool_search_call", "id": "ts_1", "call_id": "c1", "execution": "client", "arguments": {"q": "x"}}
    output = {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": [{"name": "get"}]}
    listed = said(output, "tool_search_output_created", "tool_search_output_item")
    hosted = {**search, "id": "ts_2", "call_id": None, "execution": "server"}
    got = run(created(), completed(search, hosted), listed, created(2), completed(message("a"), number=2))
    assert contents(got, "request") == [[{"name": "get"}]]
    assert [m["event_type"] for m in got.messages("system")] == ["custom:tool_search_call"]


def test_sources_and_what_is_not_known_are_kept():
    note = {"type": "url_citation", "url": "https://example.org/a", "title": "A", "start_index": 0, "end_index": 1}
    program = {"type": "program", "id": "p1", "code": "x"}
    got = run(created(), completed(message("Hi", annotations=[note]), program), {"type": "brand_new", "a": 1})
    assert [(m["event_type"], m["event_data"]) for m in got.messages("system")] == [
        ("source.url", {"source_id": "https://example.org/a", "url": "https://example.org/a", "title": "A"}),
        ("custom:program", program),
        ("custom:openai-agents.brand_new", {"a": 1}),
    ]


def test_what_comes_behind_the_terminal_event_is_in_no_response():
    got = run(created(), completed(message("Hi")), delta("!"), completed(message("Other")), created())
    assert contents(got) == ["Hi"]
    assert got.refused == ["protocol_violation: seq 0+: response.output_text.delta: the response is over"]


def test_the_end_of_a_response_that_comes_again_behind_results_is_no_call():
    used = {"input_tokens": 7, "output_tokens": 3}
    end = completed(call(), usage=used)
    got = run(created(), end, called(call()), returned("ok"), end)
    assert got.agent_turns[0]["total_usage"] == used


def test_the_users_words_are_in_the_arguments_of_the_run():
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    asked = {"role": "user", "content": [{"type": "input_text", "text": "Rain?"}]}
    got = run(created(), completed(message("No")), run={"request": {"input": [*history, asked]}})
    assert [turn["parts"][0]["content"] for turn in got.user_turns] == ["Rain?"]


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "raw_response_event", "data": 5},
        {"type": "raw_response_event", "data": {"type": None}},
        done({"type": "function_call", "name": 5}),
        {"type": "run_item_stream_event", "item": {"raw_item": None}},
        returned("x", call_id=7),
        {"type": "agent_updated_stream_event"},
        {"type": 7},
    ],
)
def test_what_is_no_event_is_refused_and_leaves_nothing(bad):
    got = run(created(), bad, completed(message("Hi")))
    assert len(got.refused) == 1
    assert contents(got) == ["Hi"]
    assert not got.messages("system")

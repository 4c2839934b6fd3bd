"""The Responses API: what its events become, and what is authoritative."""

from typing import Any

import pytest

from pipeline.dialects import DIALECTS, FORMATS
from pipeline.dialects.history import Origin, thread
from tests.support.assembled import START, THREAD_ID, Assembled, assembled

Fields = dict[str, Any]
USER: Fields = {"role": "user", "content": "Weather?"}
CALL: Fields = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}"}
RESULT: Fields = {"type": "function_call_output", "call_id": "a", "output": "72F"}


def message(text: str) -> Fields:
    content = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [content]}


def delta(text: str, index: int = 0) -> Fields:
    return {"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": text}


def done(item: Fields, index: int = 0) -> Fields:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def end(*output: Fields, kind: str = "completed", **more: Any) -> Fields:
    response = {"id": "resp_1", "object": "response", "model": "m", "status": kind, "output": list(output)}
    return {
        "type": f"response.{kind}",
        "response": {**response, "usage": {"input_tokens": 3, "output_tokens": 2}, **more},
    }


def request(*items: Fields, **body: Any) -> Fields:
    return {"type": "turnmill.request", "request": {"model": "m", "input": list(items), **body}}


def run(*events: Fields, **rest: Any) -> Assembled:
    return assembled("openai-responses", list(events), **rest)


def said(got: Assembled) -> list[Any]:
    messages = [m for turn in got.agent_turns for m in turn["messages"] if m["message_type"] != "system"]
    return [[part.get("args", part.get("content")) for part in m["parts"]] for m in messages]


def status(got: Assembled) -> str:
    return str(got.agent_turns[-1]["completion_status"])


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([delta("a"), delta("b"), end()], "ab"),
        ([delta("a"), {**delta(""), "type": "response.output_text.done", "text": "told"}, end()], "told"),
        ([delta("a"), done(message("item")), end()], "item"),
        ([delta("a"), done(message("item")), end(message("final"))], "final"),
    ],
    ids=["deltas", "done-text", "done-item", "terminal"],
)
def test_the_whole_overrules_its_fragments(events: list[Fields], text: str) -> None:
    got = run(request(USER), *events, delta("behind the end"))
    assert (status(got), said(got)) == ("complete", [[text]])
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 3
    assert got.refused == ["protocol_violation: seq 0+: response.output_text.delta: the call is over"]


def test_items_stand_in_the_order_of_their_indices() -> None:
    assert said(run(delta("two", 1), delta("one", 0), end())) == [["one", "two"]]


def test_a_run_of_calls() -> None:
    for more in ([USER, CALL, RESULT], [RESULT]):
        body = {"previous_response_id": "resp_1"} if len(more) == 1 else {}
        got = run(request(USER), end(CALL), request(*more, **body), end(message("72F.")))
        assert said(got) == [[{}], ["72F"], ["72F."]]
        assert [part["content"] for turn in got.user_turns for part in turn["parts"]] == ["Weather?"]


def test_a_retry_drops_what_broke_off() -> None:
    got = run(request(USER), delta("half"), request(USER), end(message("whole")))
    assert (status(got), said(got)) == ("complete", [["whole"]])


@pytest.mark.parametrize(
    "failed",
    [
        {"type": "error", "message": "gone", "code": "x"},
        {"error": {"message": "gone"}},
        end(kind="failed", error={"message": "gone"}, usage=None),
    ],
)
def test_an_error_breaks_the_run_off(failed: Fields) -> None:
    got = run(request(USER), delta("half"), failed)
    assert got.agent_turns[0]["interruption"]["detail"] == "gone"
    (shown,) = got.agent_turns[0]["meta:partial"]["messages"]
    assert [part["content"] for part in shown["parts"]] == ["half"]


def test_an_error_behind_the_end_is_kept_beside_the_answer() -> None:
    got = run(request(USER), end(message("x")), {"type": "error", "message": "late"})
    assert (status(got), said(got)) == ("complete", [["x"]])
    (error,) = got.messages("system")
    assert (error["event_type"], error["event_data"]) == ("error", {"error": {"message": "late"}})


@pytest.mark.parametrize("now", ["queued", "in_progress"])
def test_an_answer_in_the_background_is_none_until_it_is_there(now: str) -> None:
    body = {"object": "response", "id": "resp_1", "status": now, "output": []}
    assert status(run(request(USER), body, end="complete")) == "interrupted"
    got = run(request(USER), body, {**body, "status": "completed", "output": [message("x")]})
    assert (status(got), said(got)) == ("complete", [["x"]])


def test_progress_is_dropped_and_what_nobody_knows_is_kept() -> None:
    known = ["response.web_search_call.searching", "response.content_part.added", "response.reasoning_part.done",
             "response.shell_call_command.added", "response.output_text.annotation.added", "keepalive"]  # fmt: skip
    new = ["response.mood.changed", "vendor.note"]
    got = run(request(USER), *({"type": kind, "x": 1} for kind in (*known, *new)), end(message("x")))
    assert [(m["event_type"], m["event_data"]) for m in got.messages("system")] == [
        (f"data-app-{kind}", {"x": 1}) for kind in new
    ]


def test_commands_and_a_patch_that_broke_off_are_kept_as_far_as_they_came() -> None:
    """The events of openai 3.57: those of a shell's commands name their item by its index alone."""
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": [], "timeout_ms": 9}}
    patch = {"type": "apply_patch_call", "id": "ap_1", "call_id": "c2", "operation": {"type": "delete", "path": "a"}}
    kind, of_patch = "response.shell_call_command", {"item_id": "ap_1", "output_index": 1}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": shell},
        {"type": f"{kind}.added", "output_index": 0, "command_index": 0, "command": ""},
        {"type": f"{kind}.delta", "output_index": 0, "command_index": 0, "delta": "l"},
        {"type": f"{kind}.done", "output_index": 0, "command_index": 0, "command": "ls"},
        {"type": f"{kind}.delta", "output_index": 0, "command_index": 1, "delta": "rm -"},
        {"type": f"{kind}.delta", "output_index": 0, "command_index": 1, "delta": "r x"},
        {"type": "response.output_item.added", "output_index": 1, "item": patch},
        {"type": "response.apply_patch_call_operation_diff.delta", **of_patch, "delta": "@@ -"},
        {"type": "response.apply_patch_call_operation_diff.delta", **of_patch, "delta": "1"},
    ]
    (shown,) = run(request(USER), *events).agent_turns[0]["meta:partial"]["messages"]
    assert [(part["tool_name"], part["args"]) for part in shown["parts"]] == [
        ("shell", {"commands": ["ls", "rm -r x"], "timeout_ms": 9}),
        ("apply_patch", {"type": "delete", "path": "a", "diff": "@@ -1"}),
    ]


def test_an_answer_that_broke_off_has_its_id() -> None:
    begun = {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5-mini"}}
    (shown,) = run(request(USER), begun, delta("half")).agent_turns[0]["meta:partial"]["messages"]
    assert (shown["provider_response_id"], shown["model_name"]) == ("resp_1", "gpt-5-mini"), "a client can go on by it"


@pytest.mark.parametrize("how", ["complete", "disconnected", None])
def test_without_a_terminal_event_it_broke_off(how: str | None) -> None:
    assert status(run(request(USER), done(message("x")), end=how)) == "interrupted"


def test_an_answer_that_was_cut_short() -> None:
    cut = {**CALL, "arguments": '{"x', "status": "incomplete"}
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    got = run(end(message("x"), cut, kind="incomplete", **details))
    assert (status(got), got.messages("response")[0]["finish_reason"]) == ("complete", "length")
    call = got.parts("response")[1]
    assert (call["part_kind"], call["tool_call_id"], call["args"]) == ("tool-call", "a", {"INVALID_JSON": '{"x'})
    assert got.export("openai-responses")[-1]["arguments"] == '{"x'


def test_reasoning_refusals_and_the_servers_own_tools_come_back() -> None:
    output: list[Fields] = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
            "encrypted_content": "secret",
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {**message(""), "content": [{"type": "refusal", "refusal": "No."}]},
    ]
    got = run(request(USER), end(*output))
    kinds = ["thinking", "thinking", "builtin-tool-call", "builtin-tool-return", "text"]
    assert [part["part_kind"] for part in got.parts("response")] == kinds
    *exported, refused = got.export("openai-responses")
    assert exported == [USER, *output[:-1]]
    assert refused.pop("id").startswith("msg_")  # the SDK's type asks for one, and for a status
    assert refused.pop("status") == "completed"
    assert refused == {key: value for key, value in output[-1].items() if key != "id"}


def test_a_history_comes_back_as_it_was() -> None:
    answer = {"role": "assistant", "content": "72F."}
    called = {key: value for key, value in CALL.items() if key != "id"}
    history = [USER, called, RESULT, answer, {"role": "user", "content": "Thanks."}]
    form = FORMATS["openai-responses"]
    assert form.reader is not None
    document = thread(form.reader, history, Origin(THREAD_ID, "agent", START))
    assert form.write(document) == history
    assert [turn["turn_type"] for turn in document["turns"]] == ["user", "agent", "user"]


def test_a_whole_answer() -> None:
    got = run(request(USER), end(message("x"))["response"])
    assert (status(got), said(got)) == ("complete", [["x"]])


def test_progress_is_known_and_what_is_new_is_not() -> None:
    progress = ("response.content_part.added", "response.web_search_call.searching", "response.output_text.delta")
    assert all(DIALECTS["openai-responses"].knows({"type": kind}) for kind in progress)
    assert not DIALECTS["openai-responses"].knows({"type": "response.brand_new.thing"})


def test_unknown_fields_of_items_and_logprobs_are_kept() -> None:
    words = {"type": "output_text", "text": "Hi", "logprobs": [{"token": "Hi", "logprob": -0.1}], "later": 1}
    spoken = {"type": "message", "role": "assistant", "mood": "calm", "content": [words]}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}], "effort": 2}
    got = run(end(thought, spoken))
    reasoning, text = (part["meta:openai_responses"] for part in got.parts("response"))
    assert reasoning["fields"] == {"effort": 2}
    assert text == {"logprobs": words["logprobs"], "fields": {"mood": "calm", "later": 1}}
    assert got.export("openai-responses")[-1] == {"role": "assistant", "content": "Hi"}


@pytest.mark.parametrize("listed", [["reasoning", "image_generation_call"], ["image_generation_call"]])
def test_a_final_output_that_lacks_a_finished_text(listed: list[str]) -> None:
    """LiteLLM 1.108 lists the picture alone, which it had not streamed."""
    text = {"id": "msg_1", "type": "message", "content": [{"type": "output_text", "text": "Here is the picture."}]}
    thought = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Draw."}]}
    picture = {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": "iVBORw0KGgo="}
    final = [item for item in (thought, picture) if item["type"] in listed]
    done = [{"type": "response.output_item.done", "output_index": n, "item": i} for n, i in enumerate((thought, text))]
    got = assembled(
        "openai-responses", [*done, {"type": "response.completed", "response": {"id": "r", "output": final}}]
    )
    kinds = [part["part_kind"] for part in got.parts("response")]
    assert kinds == ["thinking", "text", "builtin-tool-call", "builtin-tool-return", "file"]

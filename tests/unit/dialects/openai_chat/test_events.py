"""Chat Completions: what chunks become, as the servers that speak it write them."""

from typing import Any

import pytest

from tests.support.assembled import Assembled
from tests.support.chat_chunks import DONE, USER, calls, chunk, fragment, request, run, status

USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


def made(got: Assembled) -> list[tuple[str, str, Any]]:
    parts = [part for part in got.parts("response") if part["part_kind"] == "tool-call"]
    return [(part["tool_name"], part["tool_call_id"], part["args"]) for part in parts]


def test_a_text_with_its_usage_behind_it() -> None:
    usage = {**chunk(), "choices": [], "usage": USAGE}
    got = run(request(USER), chunk({"content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop"), usage, DONE)
    (response,) = got.messages("response")
    assert [part["content"] for part in response["parts"]] == ["Hello"]
    assert (response["model_name"], response["provider_response_id"], response["finish_reason"]) == (
        "m",
        "chatcmpl-1",
        "stop",
    )
    assert response["usage"]["input_tokens"] == 7
    assert [part["content"] for turn in got.user_turns for part in turn["parts"]] == ["Weather?"]
    assert status(got) == "complete"


@pytest.mark.parametrize(
    "fragments",
    [
        [fragment(index=0, id="a", name="f"), fragment('{"x":', index=0), fragment("1}", index=0)],
        [fragment('{"x":', index=0, id="a", name="f"), fragment("1}", index=0, id="a", name="f")],
        [fragment('{"x":', index=1, id="a", name="f"), fragment("1}", index=1, id="")],
        [fragment('{"x":', id="a", name="f"), fragment("1}")],
        [fragment('{"x":1}', id="a", name="f")],
    ],
    ids=["index", "repeated", "from-one", "no-index", "whole"],
)
def test_fragments_of_one_call(fragments: list[dict[str, Any]]) -> None:
    apart = run(*(calls(each) for each in fragments), chunk({}, "tool_calls"))
    together = run(calls(*fragments), chunk({}, "tool_calls"))
    assert made(apart) == made(together) == [("f", "a", {"x": 1})]
    assert apart.messages("response")[0]["finish_reason"] == "tool_call"


@pytest.mark.parametrize(
    "fragments",
    [
        [fragment("{}", index=0, id="a", name="f"), fragment("{}", index=1, id="b", name="g")],
        [fragment("{}", index=0, id="a", name="f"), fragment("{}", index=0, id="b", name="g")],
        [fragment("{}", id="a", name="f"), fragment("{}", id="b", name="g")],
    ],
    ids=["index", "index-again", "no-index"],
)
def test_another_id_is_another_call(fragments: list[dict[str, Any]]) -> None:
    assert made(run(calls(*fragments), chunk({}, "stop"))) == [("f", "a", {}), ("g", "b", {})]


@pytest.mark.parametrize(
    ("text", "args"),
    [
        (None, {}),
        ("", {}),
        ('{"a"', {"INVALID_JSON": '{"a"'}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ('{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_arguments(text: Any, args: Any) -> None:
    one = {"index": 0, "id": "a", "function": {"name": "f", "arguments": text}}
    assert made(run(calls(one), chunk({}, "tool_calls"))) == [("f", "a", args)]


def test_the_order_of_parts_is_that_of_their_kinds() -> None:
    got = run(
        calls(fragment("{}", index=0, id="a", name="f")),
        chunk({"content": "text"}),
        chunk({"reasoning_content": "thought", "reasoning": "thought"}),
        chunk({"refusal": "no"}),
        chunk({}, "stop"),
    )
    kinds = [(part["part_kind"], part.get("content")) for part in got.parts("response")]
    assert kinds == [("thinking", "thought"), ("text", "text"), ("text", "no"), ("tool-call", None)]
    assert got.parts("response")[2]["meta:refusal"] is True


def test_details_of_a_thought_are_kept_with_their_signature() -> None:
    text = {"type": "reasoning.text", "index": 0}
    got = run(
        chunk({"reasoning": "a", "reasoning_details": [{**text, "text": "a"}]}),
        chunk({"reasoning": "b", "reasoning_details": [{**text, "text": "b"}]}),
        chunk({"reasoning_details": [{**text, "signature": "s"}]}),
        chunk({"content": "x"}, "stop"),
    )
    thought = got.parts("response")[0]
    assert (thought["content"], thought["signature"]) == ("ab", "s")
    assert thought["meta:openai_chat"]["reasoning_details"] == [{**text, "text": "ab", "signature": "s"}]
    (answer,) = got.export("openai-chat")
    assert answer["reasoning_details"] == thought["meta:openai_chat"]["reasoning_details"]


@pytest.mark.parametrize(
    ("reason", "kept"), [("length", "length"), ("content_filter", "content_filter"), ("eos_token", "stop")]
)
def test_an_answer_that_was_cut_short_is_complete_with_the_reason(reason: str, kept: str) -> None:
    got = run(chunk({"content": "x"}), chunk({}, reason))
    assert (status(got), got.messages("response")[0]["finish_reason"]) == ("complete", kept)


@pytest.mark.parametrize("end", ["complete", "disconnected", None])
def test_without_a_finish_reason_it_broke_off(end: str | None) -> None:
    got = run(request(USER), chunk({"content": "half"}), chunk({}, ""), end=end)
    assert status(got) == "interrupted"
    assert got.messages("response") == []
    (message,) = got.agent_turns[0]["meta:partial"]["messages"]
    assert [part["content"] for part in message["parts"]] == ["half"]


def test_done_without_a_finish_reason_keeps_the_content() -> None:
    got = run(chunk({"content": "x"}), DONE)
    assert [part["content"] for part in got.parts("response")] == ["x"]


def test_an_answer_behind_the_end_is_refused() -> None:
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "nobody's"}}]}
    got = run(chunk({"content": "x"}, "stop"), DONE, chunk({"content": "nobody's"}), whole, DONE)
    assert (status(got), [part["content"] for part in got.parts("response")]) == ("complete", ["x"])
    kinds = ("chat.completion.chunk", "chat.completion")
    assert got.refused == [f"protocol_violation: seq 0+: {kind}: the call is over" for kind in kinds]


def test_an_error_behind_the_end_is_kept_beside_the_answer() -> None:
    got = run(chunk({"content": "x"}, "stop"), DONE, {"error": {"message": "late"}})
    assert (status(got), got.refused) == ("complete", [])
    assert [m["event_data"] for m in got.messages("system")] == [{"error": {"message": "late"}}]


@pytest.mark.parametrize("error", [{"message": "gone", "code": 502}, "gone"])
@pytest.mark.parametrize("beside", [True, False])
def test_an_error_in_the_stream(error: Any, *, beside: bool) -> None:
    failed = {**chunk({"content": ""}, "error"), "error": error} if beside else {"error": error}
    got = run(chunk({"content": "half"}), failed, DONE)
    assert got.agent_turns[0]["interruption"]["reason"] == "error"
    assert got.agent_turns[0]["interruption"]["detail"] == "gone"
    assert not got.refused


def test_no_finish_reason_makes_an_error_good_again() -> None:
    got = run(request(USER), chunk({"content": "half"}), {"error": {"message": "gone"}}, chunk({}, "stop"), DONE)
    assert got.agent_turns[0]["interruption"]["detail"] == "gone"
    assert got.parts("response") == []


def test_null_is_no_error() -> None:
    assert status(run(chunk({"content": "x"}, error=None), chunk({}, "stop"))) == "complete"


def test_the_last_usage_counts() -> None:
    usages = [{"prompt_tokens": 7, "completion_tokens": n, "total_tokens": 7 + n} for n in (1, 2)]
    running = [chunk({"content": "x"}, usage=usage) for usage in usages]
    got = run(*running, chunk({}, "stop"), {**chunk(), "choices": [], "usage": None})
    assert got.agent_turns[0]["total_usage"]["output_tokens"] == 2


def test_thoughts_that_a_server_counts_beside_the_answer() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 15}
    got = run(chunk({"content": "x"}, "stop", usage={**usage, "completion_tokens_details": {"reasoning_tokens": 3}}))
    assert got.agent_turns[0]["total_usage"]["output_tokens"] == 8


def test_other_choices_are_alternatives() -> None:
    got = run(chunk({"content": "other"}, index=1), chunk({"content": "x"}), chunk({}, "stop", 1), chunk({}, "stop"))
    assert [part["content"] for part in got.parts("response")] == ["x"]
    (choice,) = [m for m in got.messages("system") if m["event_type"] == "custom:choice"]
    assert choice["event_data"]["parts"] == [{"part_kind": "text", "content": "other"}]


def test_an_answer_that_was_not_streamed() -> None:
    message = {"role": "assistant", "content": "x", "tool_calls": [{"id": "a", **fragment("{}", name="f")}]}
    body = {"id": "1", "object": "chat.completion", "model": "m", "usage": USAGE}
    got = run({**body, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    assert [part["part_kind"] for part in got.parts("response")] == ["text", "tool-call"]
    assert status(got) == "complete"


def test_an_http_error_in_place_of_a_stream() -> None:
    refused = {"object": "turnmill.error", "status": 429, "body": {"error": {"message": "slow down"}}}
    got = run(request(USER), refused)
    assert got.agent_turns[0]["interruption"]["detail"] == "slow down"
    again = run(request(USER), refused, request(USER), chunk({"content": "x"}), chunk({}, "stop"))
    assert status(again) == "complete"
    assert len(again.user_turns) == 1


def test_images_citations_and_what_nobody_knows() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    citation = {"type": "url_citation", "url_citation": {"url": "https://x.test", "title": "X"}}
    got = run(
        chunk({"content": "x", "images": [image], "annotations": [citation], "mood": "good"}, system_fingerprint="fp"),
        chunk({}, "stop"),
        {"object": "new.thing", "a": 1},
    )
    assert [part["part_kind"] for part in got.parts("response")] == ["text", "file"]
    other, source = sorted(got.messages("system"), key=lambda message: str(message["event_type"]))
    assert (source["event_type"], source["event_data"]["url"]) == ("source.url", "https://x.test")
    assert (other["event_type"], other["event_data"]) == ("data-app-new.thing", {"a": 1})
    assert got.messages("response")[0]["meta:openai_chat"] == {"system_fingerprint": "fp", "mood": "good"}

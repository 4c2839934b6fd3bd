"""What servers other than OpenAI's write, as recorded in 2026."""

from typing import Any

import pytest

from tests.support.assembled import Assembled
from tests.support.chat_chunks import DONE, USER, calls, chunk, fragment, request, run, status

Fields = dict[str, Any]


def both(delta: Fields, message: Fields, finish: str | None = None) -> Fields:
    """Perplexity's form: beside each delta the message so far."""
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "message": {"role": "assistant", **message}}
    return {"id": "p", "object": "chat.completion", "model": "sonar", "choices": [{**choice, "finish_reason": finish}]}


def texts(got: Assembled) -> list[Any]:
    return [part["content"] for part in got.parts("response")]


def test_a_whole_answer_of_perplexity_is_its_message() -> None:
    got = run(both({"content": ""}, {"content": "Russia."}, "stop"))
    assert (texts(got), status(got), got.refused) == (["Russia."], "complete", [])
    late = chunk({"content": "More"})
    assert run(both({"content": ""}, {"content": "Russia."}, "stop"), late).refused != []


@pytest.mark.parametrize("first", [[], [both({"content": ""}, {"content": ""})]], ids=["text", "role"])
def test_chunks_of_perplexity_are_called_whole_answers(first: list[Fields]) -> None:
    pieces = [both({"content": "Rus"}, {"content": "Rus"}), both({"content": "sia."}, {"content": "Russia."})]
    end = both({"content": ""}, {"content": "Russia."}, "stop")
    usage = {"object": "chat.completion", "choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}}
    got = run(*first, *pieces, end, usage, DONE)
    assert (texts(got), status(got), got.refused) == (["Russia."], "complete", [])
    assert got.messages("response")[0]["usage"]["input_tokens"] == 4
    assert status(run(*first, *pieces)) == "interrupted"


def test_a_whole_call_beside_an_empty_delta() -> None:
    message = {"content": None, "tool_calls": [{"id": "a", **fragment('{"x":1}', name="f")}]}
    got = run(both({}, message, "tool_calls"))
    assert [(part["tool_call_id"], part["args"]) for part in got.parts("response")] == [("a", {"x": 1})]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"title": "Apples", "tags": ["a"]}, '{"title":"Apples","tags":["a"]}'),  # Cloudflare's JSON mode
        (["a", "b"], '["a","b"]'),
        ([{"title": "Apples"}], '[{"title":"Apples"}]'),
        (5, "5"),
        ([{"type": "text", "text": "Apples"}], "Apples"),
    ],
)
def test_content_that_is_json_is_a_text(content: Any, text: str) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    assert texts(run({"object": "chat.completion", "model": "m", "choices": [choice]})) == [text]
    assert texts(run(chunk({"content": content}), chunk({}, "stop"))) == [text]


def test_texts_of_one_message_stay_apart() -> None:
    blocks = [{"type": "text", "text": "What is it?"}, {"type": "text", "text": "Two words."}]
    got = run(request({"role": "user", "content": blocks}), chunk({"content": "It is."}), chunk({}, "stop"))
    assert got.user_turns[0]["parts"] == [{"part_kind": "user-prompt", "content": ["What is it?", "Two words."]}]
    assert got.export("openai-chat")[0] == {"role": "user", "content": blocks}
    cached = [blocks[0], {**blocks[1], "cache_control": {"type": "ephemeral"}}]
    got = run(request({"role": "user", "content": cached}), chunk({"content": "It is."}), chunk({}, "stop"))
    assert got.export("openai-chat")[0] == {"role": "user", "content": cached}


def test_what_a_failed_call_had_shown_stays_beside_the_turn() -> None:
    """Groq's `tool_use_failed`, after which the program goes on with a history of its own."""
    failed = {"error": {"message": "Tool call validation failed", "code": "tool_use_failed"}}
    history = [USER, {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **fragment("{}", name="f")}]}]
    again = request(*history, {"role": "tool", "tool_call_id": "a", "content": "Fix it."})
    began = [
        request(USER),
        chunk({"reasoning": "Hm."}),
        chunk({"content": "Trying."}),
        calls(fragment('{"x', index=0, name="f")),
    ]
    got = run(*began, failed, again, chunk({"content": "Done."}), chunk({}, "stop"))
    (turn,) = got.agent_turns
    assert (texts(got), turn["completion_status"]) == (["Done."], "complete")
    (shown,) = turn["meta:partial"]["messages"]
    assert [part.get("content", part.get("args")) for part in shown["parts"]] == [
        "Hm.", "Trying.", {"INVALID_JSON": '{"x'},
    ]  # fmt: skip
    assert {part["meta:unfinished"] for part in shown["parts"]} == {True}
    assert (
        "meta:partial" not in run(*began, failed, *began[:1], chunk({"content": "Done."}), chunk({}, "stop")).turns[-1]
    )
    (turn,) = run(*began, failed, again, chunk({"content": "Do"})).agent_turns
    shown = [message for message in turn["meta:partial"]["messages"] if message["message_type"] == "response"]
    assert [message["parts"][-1].get("content") for message in shown] == [None, "Do"]

"""Answers that Claude Code 2.1.332 takes back, as the types of its Agent SDK 0.3.332 say of `supersedes`."""

from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.claude_code.transcript import Session
from pipeline.dialects.transcript import Homes
from pipeline.turns.partial_turns import with_partial
from tests.support.assembled import Assembled, assembled
from tests.support.read_sessions import read
from tests.support.sessions import Claude
from topics.json_text import Fields

INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "fable", "tools": ["Read"], "uuid": "u1"}
USAGE = {"input_tokens": 400, "output_tokens": 40}


def line(kind: str, uuid: str, *blocks: Fields, name: str = "m1", stop: str | None = None, **rest: Any) -> Fields:
    message: Fields = {"role": kind, "content": list(blocks)}
    if kind == "assistant":
        message |= {"id": name, "model": "opus" if stop == "end_turn" else "fable", "stop_reason": stop, "usage": USAGE}
    return {"type": kind, "message": message, "parent_tool_use_id": None, "uuid": uuid, **rest}


def text(words: str) -> Fields:
    return {"type": "text", "text": words}


CALL = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "plan.md"}}
REFUSED = [
    line("user", "u2", text("Which valves?")),
    line("assistant", "u3", text("Let me look.")),
    line("assistant", "u4", CALL, stop="refusal"),
    line("user", "u5", {"type": "tool_result", "tool_use_id": "t1", "content": "V1, V2"}),
]
GONE = ["u3", "u4", "u5"]
NOTICE = {"type": "system", "subtype": "model_refusal_fallback", "retracted_message_uuids": GONE, "uuid": "u7"}
RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "Two valves.",
    "usage": USAGE,
    "uuid": "u8",
}


def answer(**rest: Any) -> Fields:
    return line("assistant", "u6", text("Two valves."), name="m2", stop="end_turn", **rest)


def kept(got: Assembled) -> list[Any]:
    return [part.get("content") for kind in ("response", "request") for part in got.parts(kind)]


@pytest.mark.parametrize(
    "end",
    [
        [answer(), NOTICE],
        [answer(supersedes=GONE)],
        [answer(supersedes=GONE), NOTICE],  # the notice repeats what is done
        [answer(supersedes=[*GONE, "unknown", 5])],
        [NOTICE, answer()],
    ],
)
def test_an_answer_that_was_taken_back_is_beside_the_turn(end: list[Fields]) -> None:
    got = assembled("claude-code", [INIT, *REFUSED, *end, RESULT], step=0)
    (turn,) = got.agent_turns
    assert (kept(got), turn["completion_status"], got.refused) == (["Two valves."], "complete", [])
    response, request = turn["meta:retracted"]["messages"]
    assert [part.get("content", part.get("args")) for part in response["parts"]] == [
        "Let me look.", {"file_path": "plan.md"},
    ]  # fmt: skip
    assert (response["model_name"], request["parts"][0]["content"]) == ("fable", "V1, V2")
    assert turn["total_usage"] == USAGE, "as the result says"
    assert [message["content"] for message in got.export("anthropic")] == [
        "Which valves?", [text("Two valves.")],
    ]  # fmt: skip


def test_a_part_of_a_message_may_be_taken_back() -> None:
    got = assembled("claude-code", [INIT, *REFUSED[:3], answer(supersedes=["u4"]), RESULT])
    assert kept(got) == ["Let me look.", "Two valves."]


def test_other_lines_take_nothing_back() -> None:
    got = assembled(
        "claude-code", [INIT, *REFUSED, answer(supersedes=None), {**NOTICE, "retracted_message_uuids": 5}, RESULT]
    )
    assert "meta:retracted" not in got.agent_turns[0]
    assert kept(got) == ["Let me look.", None, "Two valves.", "V1, V2"]


def test_tokens_of_a_transcript_stay_counted() -> None:
    claude = Claude("one")
    claude.ask("Which valves?")
    first = claude.say("Let me look.")
    claude.add("system", subtype="model_refusal_fallback", retractedMessageUuids=[first["uuid"]])
    claude.say("Two valves.")
    (thread,) = read([(Session(claude.file, claude.session, Homes()), claude.lines)]).threads.values()
    agent = thread["turns"][-1]
    answers = [message for message in agent["messages"] if message["message_type"] == "response"]
    assert [part["content"] for message in answers for part in message["parts"]] == ["Two valves."]
    assert [message.get("meta:purpose") for message in answers] == [None, "retracted"]
    assert agent["total_usage"]["output_tokens"] == sum(message["usage"]["output_tokens"] for message in answers) == 40


def test_what_was_taken_back_is_shown_on_request() -> None:
    got = assembled("claude-code", [INIT, *REFUSED, answer(supersedes=GONE), RESULT], step=0)
    printed = FORMATS["thread"].printed(got.document, partial=True)
    marked = [message.get("meta:retracted") for message in printed["turns"][1]["messages"] if "parts" in message]
    assert marked.count(True) == 2
    assert "meta:retracted" not in printed["turns"][1]
    seen = FORMATS["anthropic"].printed(got.document, partial=True)
    assert "Let me look." in str([seen["messages"][index] for index in seen["partial"]])
    assert with_partial(got.agent_turns[0], billed=True) == got.agent_turns[0]

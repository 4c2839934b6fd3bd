"""The dialect that docs/add-a-dialect.md writes works as the page says: its code is taken from the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pipeline.assembly.dialect import Dialect
from pipeline.dialects import DIALECTS
from tests.support.assembled import Assembled, assembled
from threadmill.framing import decode
from topics.thread_rules import check

PAGE = (Path(__file__).parents[3] / "docs" / "add-a-dialect.md").read_text(encoding="utf-8")
QUESTION = {"request": {"question": "Weather in Paris?"}}


def block(before: str, language: str) -> str:
    """The first block of code behind these words of the page."""
    found = re.search(rf"{re.escape(before)}.*?```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


STREAM = block("`t` is the type", "json")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Dialect:
    module = ModuleType("toy")
    exec(compile(block("<!-- tested: toy.py -->", "python"), "docs/add-a-dialect.md", "exec"), module.__dict__)
    dialect: Dialect = module.TOY
    monkeypatch.setitem(DIALECTS, dialect.name, dialect)
    return dialect


def events(toy: Dialect, stream: str = STREAM) -> list[dict[str, Any]]:
    return [item.event for item in decode(stream.encode(), toy.wire) if item.event is not None]


def run(toy: Dialect, *more: dict[str, Any], **rest: Any) -> Assembled:
    return assembled("toy", [*events(toy)[:-1], *more, events(toy)[-1]], **rest)


def test_the_page_is_a_whole_conversation(toy: Dialect) -> None:
    got = run(toy, run=QUESTION)
    assert not got.refused
    assert not check(got.document)
    assert [part["content"] for turn in got.user_turns for part in turn["parts"]] == ["Weather in Paris?"]
    (turn,) = got.agent_turns
    assert turn["completion_status"] == "complete"
    first, answer, last = turn["messages"]
    assert [part.get("content", part.get("args")) for part in first["parts"]] == ["Let me look.", {"city": "Paris"}]
    assert [(part["status"], part["content"]) for part in answer["parts"]] == [("success", {"temp": "72F"})]
    assert [part["content"] for part in last["parts"]] == ["72F."]
    assert last["usage"] == {"input_tokens": 130, "output_tokens": 35}
    (ui,) = [message for message in got.export("vercel-ai") if message["role"] == "assistant"]
    assert [part["type"] for part in ui["parts"]] == ["step-start", "text", "tool-get_weather", "step-start", "text"]


def test_text_between_a_call_and_its_result_stays(toy: Dialect) -> None:
    said = events(toy)
    got = assembled("toy", [*said[:3], {"t": "say", "text": "One moment."}, *said[3:]])
    texts = [part["content"] for part in got.parts("response") if part["part_kind"] == "text"]
    assert texts == ["Let me look.", "One moment.", "72F."]


def test_sse_reads_like_lines(toy: Dialect) -> None:
    stream = "".join(f"data: {line}\n\n" for line in STREAM.splitlines())
    assert events(toy, stream) == events(toy) == [json.loads(line) for line in STREAM.splitlines()]


def test_any_batches_give_the_same_turn(toy: Dialect) -> None:
    whole = events(toy)
    one_by_one = assembled("toy", *([event] for event in whole))
    assert [record["hash"] for record in one_by_one.records] == [record["hash"] for record in run(toy).records]


@pytest.mark.parametrize(
    ("event", "refusal"),
    [
        ({"t": "result", "id": "c9", "value": 1}, "protocol_violation: result: no call has the id 'c9'"),
        ({"t": "say"}, "invalid_event: say: 'text' is missing"),
        ({"t": "say", "text": 5}, "invalid_event: say: TypeError"),
        ({"t": "call", "id": "c2"}, "invalid_event: call: 'tool' is missing"),
        ({"t": 5}, "invalid_event: an event needs a string 't'"),
    ],
)
def test_a_bad_event_is_refused_and_leaves_no_trace(toy: Dialect, event: dict[str, Any], refusal: str) -> None:
    got = run(toy, event)
    (refused,) = got.refused
    reason, detail = refused.split(": seq 0+: ")
    assert f"{reason}: {detail}".startswith(refusal)
    assert [record["hash"] for record in got.records] == [record["hash"] for record in run(toy).records]


def test_what_is_not_known_is_kept(toy: Dialect) -> None:
    got = run(toy, {"t": "wave", "hands": 2})
    assert [(m["event_type"], m["event_data"]) for m in got.messages("system")] == [("data-app-wave", {"hands": 2})]


def test_a_stream_that_breaks_off_keeps_complete_cycles(toy: Dialect) -> None:
    got = assembled("toy", events(toy)[:3], end="disconnected")
    assert got.agent_turns[0]["completion_status"] == "interrupted"
    assert got.agent_turns[0]["messages"] == []

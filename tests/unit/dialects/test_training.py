"""Lines of data sets: what led to each turn, what the model was asked, and where a line comes from."""

from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.cli.files.recordings import Stream
from pipeline.dialects import DIALECTS
from pipeline.dialects.training import needed, sft, system_prompts, tools_of
from pipeline.turns.canonical import turn_hash
from pipeline.turns.thread_document import thread_document
from tests.browser import forks
from tests.support.chat_chunks import chunk
from tests.support.datasets import check_openai

THREAD = "0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11"
BASE = {"v": 1, "thread_id": THREAD, "agent_id": "a", "seq": 0, "ts": 1, "dialect": "openai-chat"}
SYSTEM = {"role": "system", "content": "be brief"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "description": "by city", "parameters": SCHEMA},
}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
FIRST = {"role": "user", "content": "Weather in Paris?"}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "72F"}


def run(name: str, *events: Any, ts: int = 1, end: str = "complete") -> list[Any]:
    envelope = {**BASE, "run_id": name, "ts": ts, "events": list(events), "run": {"started_at": ts}, "end": end}
    return assemble(DIALECTS["openai-chat"], [envelope], keep_requests=True)[0]


def asking(*messages: Any) -> Any:
    return {"object": "turnmill.request", "request": {"model": "m", "messages": [SYSTEM, *messages], "tools": [TOOL]}}


def conversation() -> tuple[dict[str, Any], dict[str, Any]]:
    """A turn with a call, one that broke off, and one more; and what was asked."""
    calls = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    records = [
        *run("r1", asking(FIRST), chunk({"tool_calls": [{"index": 0, **CALL}]}), chunk({}, "tool_calls"),
             asking(FIRST, calls, RESULT), chunk({"content": "Warm."}), chunk({}, "stop")),
        *run("r2", asking({"role": "user", "content": "And Rome?"}), chunk({"content": "H"}), ts=2000, end="error"),
        *run("r3", asking({"role": "user", "content": "Rome, please."}), chunk({"content": "Hot."}),
             chunk({}, "stop"), ts=3000),
    ]  # fmt: skip
    bodies = {name: body for record in records for name, body in record.get("requests", {}).items()}
    return thread_document(THREAD, records), bodies


def test_each_complete_turn_is_a_line_with_what_led_to_it() -> None:
    document, bodies = conversation()
    first, last = sft(document, bodies)
    calls = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert first["messages"] == [SYSTEM, FIRST, calls, RESULT, {"role": "assistant", "content": "Warm."}]
    assert first["tools"] == [TOOL]
    assert last["messages"][: len(first["messages"])] == first["messages"]
    assert last["messages"][-1] == {"role": "assistant", "content": "Hot."}
    for line in (first, last):
        check_openai(line)
    turns = [turn for turn in document["turns"] if turn.get("completion_status") == "complete"]
    assert [line["metadata"] for line in (first, last)] == [
        {"thread_id": THREAD, "turn_id": turn["meta:turn_id"], "hash": turn_hash(turn)} for turn in turns
    ]
    assert needed(document)
    assert set(needed(document)) <= set(bodies)


def test_a_line_ends_with_the_model_s_own_words() -> None:
    document, bodies = conversation()
    agent = next(turn for turn in document["turns"] if turn["turn_type"] == "agent")
    del agent["messages"][2]  # so that the result is the last that was said
    first = next(sft(document, bodies))
    assert first["messages"] == [SYSTEM, FIRST, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
    agent["messages"].clear()
    assert len(list(sft(document, bodies))) == 1


def test_the_validator_refuses_what_openai_refuses() -> None:
    line = {"messages": [FIRST, {"role": "assistant", "content": "Warm."}], "tools": []}
    check_openai(line)
    for wrong in ([FIRST], [FIRST, {"role": "assistant", "content": None}], [RESULT, *line["messages"]],
                  [*line["messages"], {"role": "assistant", "content": "x", "weight": 1}]):  # fmt: skip
        with pytest.raises((AssertionError, ValueError)):
            check_openai({**line, "messages": wrong})


def test_a_thread_that_forks_gives_each_version_its_own_branch() -> None:
    records = []
    for one in forks.forked():
        assert isinstance(one, Stream)
        envelope = {**BASE, "dialect": one.dialect, "run_id": one.run_id, "ts": one.started, "events": list(one.events),
                    "run": {**one.info, "started_at": one.started}, "end": "complete"}  # fmt: skip
        records += assemble(DIALECTS[one.dialect], [envelope])[0]
    said = [[message["content"] for message in line["messages"]] for line in sft(thread_document(THREAD, records), {})]
    lisbon, crete = "Lisbon: mild, and by the sea.", "Crete: warm already, and quiet."
    assert said == [
        [forks.ASKED, lisbon],
        [forks.ASKED, crete],
        [forks.ASKED, crete, forks.MORE, "Crete has shallow bays."],
        [forks.ASKED, crete, forks.OTHER, "Then rather the Alps, by train."],
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [SYSTEM], "tools": [TOOL]},
        {"instructions": "be brief", "tools": [{"type": "function", **TOOL["function"]}, {"type": "web_search"}]},
        {"system": [{"type": "text", "text": "be brief"}],
         "tools": [{"name": "weather", "description": "by city", "input_schema": SCHEMA}]},
        {"systemInstruction": {"parts": [{"text": "be brief"}]},
         "tools": [{"functionDeclarations": [TOOL["function"]]}]},
        {"request": {"systemInstruction": {"parts": [{"text": "be brief"}]},
                     "tools": [{"functionDeclarations": [TOOL["function"]]}]}},
        {"system": "be brief", "functions": [TOOL["function"]], "tools": ["Bash"]},
    ],
)  # fmt: skip
def test_what_was_asked_is_the_same_from_each_api(body: dict[str, Any]) -> None:
    assert system_prompts(body) == ["be brief"]
    assert tools_of(body) == [TOOL]

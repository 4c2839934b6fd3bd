"""Conversations of several runs, assembled as each wire would have sent them: what the tests of branches look at."""

from collections.abc import Sequence
from typing import Any

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.turns.thread_document import thread_document
from tests.support.assembled import START, THREAD_ID
from topics.turn_record import TurnRecord

MINUTE = 60_000


def spoken(dialect: str, text: str) -> list[dict[str, Any]]:
    """The events of an answer that is one text."""
    if dialect == "vercel-ai":
        kinds = [{"type": "text-start"}, {"type": "text-delta", "delta": text}, {"type": "text-end"}]
        return [{"type": "start"}, *({**one, "id": "t"} for one in kinds), {"type": "finish"}]
    if dialect == "ag-ui":
        kinds = [
            {"type": "TEXT_MESSAGE_START", "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", "delta": text},
            {"type": "TEXT_MESSAGE_END"},
        ]
        ids = {"threadId": "t", "runId": "r"}
        said = [{**one, "messageId": f"m-{text}"} for one in kinds]
        return [{"type": "RUN_STARTED", **ids}, *said, {"type": "RUN_FINISHED", **ids}]
    if dialect == "openai-chat":
        delta = {"role": "assistant", "content": text}
        body = {"id": f"c-{text}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        choices = [
            {"index": 0, "delta": delta, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": "stop"},
        ]
        return [{**body, "choices": [choice]} for choice in choices]
    if dialect == "langgraph":
        return [{"event": None, "data": ["updates", {"model": {"messages": [{"type": "ai", "content": text}]}}]}]
    raise KeyError(dialect)


def run(
    number: int, answer: str, dialect: str = "vercel-ai", *, agent: str = "a", before: Sequence[Any] = (), **info: Any
) -> list[TurnRecord]:
    """The records of run `number` of the thread, each a minute behind the one before. `before`: events that come
    before the answer's, its start among them or not; `info`: the envelope's `run`.
    """
    answered = [event for event in spoken(dialect, answer) if event.get("type") != "RUN_STARTED" or not before]
    envelope = {
        "v": 1,
        "thread_id": THREAD_ID,
        "run_id": f"run-{number}",
        "agent_id": agent,
        "dialect": dialect,
        "seq": 0,
        "ts": START + number * MINUTE,
        "events": [*before, *answered],
        "run": info,
        "end": "complete",
    }
    records, refused = assemble(DIALECTS[dialect], [envelope])
    assert not refused
    return records


def document(*runs: list[TurnRecord]) -> dict[str, Any]:
    """The thread of these runs."""
    return thread_document(THREAD_ID, [record for records in runs for record in records])


def said(thread: dict[str, Any]) -> list[str]:
    """The texts of a thread, users' and agents'."""
    found = []
    for turn in thread["turns"]:
        parts = [part for message in turn.get("messages", ()) for part in message.get("parts", ())]
        found += [part["content"] for part in (parts if turn["turn_type"] == "agent" else turn["parts"])]
    return found


def versions(thread: dict[str, Any], run_id: str) -> list[str]:
    """The runs of which a branch has one, that with this id among them: as a reader walks from one to the next."""
    marks = {turn["meta:branch"]["run"]: turn["meta:branch"] for turn in thread["turns"] if "meta:branch" in turn}
    version = marks.get(run_id, {}).get("version")
    at = version["first"] if version else None
    found = []
    while at is not None:
        found.append(at)
        here = marks[at]["version"]
        assert here["number"] == len(found)
        assert here["of"] == version["of"]
        assert here["first"] == version["first"]
        assert here.get("before") == (found[-2] if len(found) > 1 else None)
        at = here.get("next")
    assert len(found) == (version["of"] if version else 0)
    return found

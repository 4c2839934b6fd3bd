"""What a run has made can be copied, and closing the copy leaves the run as it is: on recordings of all wires."""

import copy
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from pipeline.assembly.offline import close, fork
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import Run
from pipeline.dialects import DIALECTS
from tests.corpus.compare_wires import recordings
from tests.support.assembled import THREAD_ID

WIRES = (
    "ag-ui",
    "anthropic",
    "claude-code",
    "google-adk",
    "langgraph",
    "openai-agents",
    "openai-chat",
    "openai-responses",
)


def half(dialect: str, events: list[Any]) -> Run:
    """A run with the first half of its events."""
    envelope = {"thread_id": THREAD_ID, "run_id": "r", "agent_id": "a", "ts": 1_768_928_342_000, "seq": 0}
    record = StoredRecord(b"", 0, 0)
    run = Run(envelope, DIALECTS[dialect], record)
    run.feed({**envelope, "events": events[: len(events) // 2]}, record)
    return run


def graph(value: Any, seen: dict[int, int], changing: list[Any]) -> Any:
    """A value as it can be compared: objects by their order, so that one that is met twice is known again. What may be
    changed is put into `changing`.
    """
    if isinstance(value, list | dict | set) or (is_dataclass(value) and not isinstance(value, type)):
        if id(value) in seen:
            return ("again", seen[id(value)])
        seen[id(value)] = len(seen)
        if not (is_dataclass(value) and value.__dataclass_params__.frozen):  # type: ignore[attr-defined]
            changing.append(value)
    if isinstance(value, dict):
        return [(graph(key, seen, changing), graph(item, seen, changing)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [graph(item, seen, changing) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        named = [(one.name, graph(getattr(value, one.name), seen, changing)) for one in fields(value)]
        return (type(value).__name__, named)
    if callable(value):  # taken as it is; the standard library can't copy a function that is compiled
        return id(value)
    return sorted(value) if isinstance(value, set) else value


@pytest.mark.parametrize("dialect", WIRES)
def test_a_fork_is_equal_and_shares_nothing_that_changes(dialect: str) -> None:
    for recording in recordings(dialect):
        run = half(dialect, recording.events())
        mine, theirs = list[Any](), list[Any]()
        before = graph(run.builder, {}, mine)
        assert graph(fork(run.builder), {}, theirs) == before
        assert not {id(value) for value in mine} & {id(value) for value in theirs}
        kept = copy.deepcopy(before)
        close(run, "disconnected")
        assert graph(run.builder, {}, []) == kept

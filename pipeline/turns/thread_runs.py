"""The runs of a thread, from their records. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.turns.lineage import MAX_ID_CHARACTERS, text_hash
from topics.json_text import Fields
from topics.turn_record import TurnRecord

BRANCH: Final = "meta:branch"
VERSION: Final = "version"  # of a mark: present only if there is another version


@dataclass(slots=True, eq=False)
class Run:
    """A run in the tree.

    `stated`: that it follows `follows` is known, not guessed. Of stated runs of the same `group` (the run that they
    follow, and the agent), a branch has one.
    """

    run_id: str
    agent_id: str
    lineage: Mapping[str, Any]
    parent_run: str | None
    turns: list[Fields] = field(default_factory=list)
    follows: Run | None = None
    replaces: Run | None = None
    stated: bool = False
    group: tuple[str | None, str] = (None, "")


def runs_of(turns: Iterable[tuple[TurnRecord, Fields]]) -> dict[str, Run]:
    """Return the runs of records with their turns, by name, in the order of their first turns."""
    runs: dict[str, Run] = {}
    for record, turn in turns:
        run_id = run_name(record, turn)
        if run_id not in runs:
            runs[run_id] = Run(run_id, record["agent_id"], {}, _parent_run(record))
        runs[run_id].lineage = {**_lineage(record, turn), **runs[run_id].lineage}
        runs[run_id].turns.append(turn)
    return runs


def run_name(record: TurnRecord, turn: Fields) -> str:
    """Return the name of a turn's run in marks."""
    mark = turn.get(BRANCH)
    name = mark.get("run") if isinstance(mark, dict) else None
    return _name(name if isinstance(name, str) else record["run_id"])


def _name(run_id: str) -> str:
    """Return the name of a run in marks.

    The marks of many other runs may repeat it, so a long one would be stored once, but returned a thousand times.
    """
    return run_id if len(run_id) <= MAX_ID_CHARACTERS else text_hash(run_id)


def _parent_run(record: TurnRecord) -> str | None:
    parent = record.get("parent") or {}
    run_id = parent.get("run_id") if parent.get("thread_id") in (None, record["thread_id"]) else None
    return _name(run_id) if isinstance(run_id, str) else None


def _lineage(record: TurnRecord, turn: Fields) -> Fields:
    """Return the record's lineage; for an imported turn, the lineage in its mark."""
    mark = turn.get(BRANCH)
    lineage: object = record.get("lineage")
    if isinstance(mark, dict):
        follows = mark.get("follows")
        lineage = {"replaces": mark.get("replaces"), "first": follows is None, "beside": VERSION not in mark}
        return lineage | {"continues": follows}
    return lineage if isinstance(lineage, dict) else {}

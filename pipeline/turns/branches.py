"""The runs of a thread, from their records, and one branch of a conversation that forks. Pure.

In a thread that forks, each turn has the position of its run:

    "meta:branch": {"run": RUN, "follows": RUN or null, "replaces"?: RUN,
                    "version"?: {"number": 2, "of": 3, "first": RUN, "before"?: RUN, "next"?: RUN}}

`follows`: the run before it; null at the beginning. `version`: its number among alternative runs, of which a branch has
one, oldest first, with the names of the oldest and of its neighbours. `replaces`: the version that it was made from; if
it has no user turn itself, it answers the user turn of that one. A run without `version` is in every branch with the
run before it. `pipeline.turns.run_tree` determines this; canonical hashes don't depend on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.turns.lineage import MAX_ID_CHARACTERS, text_hash
from topics.json_text import Fields, object_of, objects
from topics.turn_record import TurnRecord

BRANCH: Final = "meta:branch"
VERSION: Final = "version"  # of a mark: present only if there is another version


class UnknownBranch(ValueError):
    """The thread has no such run."""


def one_branch(document: Fields, run_id: str | None = None) -> Fields:
    """Return a thread document with the turns of a branch: the newest, or the newest with `run_id`.

    The id of a turn stands for its run, an empty id for none. Raises UnknownBranch.
    """
    run_id = run_id or None
    marks = _marks(document["turns"])
    if run_id is not None and run_id not in marks:
        run_id = _run_of(run_id, document["turns"])
    if not marks:
        return document
    helpers = {_run_in_marks(turn) for turn in document["turns"] if "run_id" in turn.get("meta:parent", ())}
    chosen = _reached(_path(marks, run_id, helpers), marks, others=False)
    asking = _asking(document["turns"], chosen, marks)
    return {**document, "turns": [turn for turn in document["turns"] if _is_in(turn, chosen, asking)]}


def _is_in(turn: Fields, chosen: set[str], asking: set[str]) -> bool:
    run = _run_in_marks(turn)
    return run is None or run in chosen or (run in asking and turn.get("turn_type") == "user")


def _run_of(name: str, turns: Iterable[Fields]) -> str | None:
    """Return the run of a turn with this id; None in a thread that does not fork."""
    for turn in turns:
        if name in (turn.get("meta:turn_id"), turn.get("meta:run_id")):
            return _run_in_marks(turn)
    raise UnknownBranch(f"no run or turn of this thread is called {name!r:.200}")


def _run_in_marks(turn: Fields) -> str | None:
    """Return the name of a turn's run in marks; None if the thread does not fork."""
    run = object_of(turn.get(BRANCH)).get("run")
    return run if isinstance(run, str) else None


def _marks(turns: Iterable[Fields]) -> dict[str, Fields]:
    marks: dict[str, Fields] = {}
    for turn in turns:
        run = _run_in_marks(turn)
        if run is not None:
            marks.setdefault(run, turn[BRANCH])
    return marks


def _path(marks: Mapping[str, Fields], run_id: str | None, helpers: set[str | None]) -> set[str]:
    """Return the runs from the newest one, of those that follow `run_id`, back to the beginning.

    `helpers` don't count as newest runs.
    """
    behind = [run for run in marks if run not in helpers]
    if run_id is not None:
        reached = _reached([run_id], marks, others=True)
        behind = [run for run in behind if run in reached] or [run_id]
    path: set[str] = set()
    at = (behind or list(marks))[-1]
    while at in marks and at not in path:
        path.add(at)
        at = str(marks[at].get("follows"))
    return path


def _reached(runs: Iterable[str], marks: Mapping[str, Fields], *, others: bool) -> set[str]:
    """Return these runs, and all that follow them.

    `others`: include runs that are one of several versions.
    """
    behind: dict[object, list[str]] = defaultdict(list)
    for run, mark in marks.items():
        if others or VERSION not in mark:
            behind[mark.get("follows")].append(run)
    waiting = list(runs)
    reached = set(waiting)
    while waiting:
        new = [run for run in behind[waiting.pop()] if run not in reached]
        reached.update(new)
        waiting += new
    return reached


def _asking(turns: Iterable[Fields], chosen: set[str], marks: Mapping[str, Fields]) -> set[str]:
    """Return the runs whose user turns are answered by chosen runs without user turns."""
    with_words = {_run_in_marks(turn) for turn in turns if turn.get("turn_type") == "user"}
    asking: set[str] = set()
    seen: set[str] = set()  # shared by all runs, so that each is visited once
    for run in chosen:
        at = run
        while at in marks and at not in with_words and at not in seen:
            seen.add(at)
            at = str(marks[at].get("replaces"))
        if at in with_words and at not in chosen:
            asking.add(at)
    return asking


@dataclass(slots=True, eq=False)
class Run:
    """A run in the tree.

    `responses`: their ids at the provider. `answer`: the hash of its last text. `stated`: that it follows `follows` is
    known, not guessed. Of stated runs of the same `group` (the run that they follow, and the agent), a branch has one.
    """

    run_id: str
    agent_id: str
    lineage: Mapping[str, Any]
    parent_run: str | None
    responses: list[str] = field(default_factory=list)
    answer: str = ""
    follows: Run | None = None
    replaces: Run | None = None
    stated: bool = False
    group: tuple[str | None, str] = (None, "")


def add_turn(runs: dict[str, Run], record: TurnRecord, turn: Fields) -> None:
    """Add a record's turn, which follows those before it in time, to the runs by name; the turn itself isn't kept."""
    run_id = run_name(record, turn)
    if run_id not in runs:
        runs[run_id] = Run(run_id, record["agent_id"], {}, _parent_run(record))
    run = runs[run_id]
    run.lineage = {**_lineage(record, turn), **run.lineage}
    for message in objects(turn.get("messages")):
        response = message.get("provider_response_id")
        if response and isinstance(response, str):
            run.responses.append(response)
    run.answer = _answer_hash(turn) or run.answer


def _answer_hash(turn: Fields) -> str:
    for message in reversed(objects(turn.get("messages"))):
        for part in reversed(objects(message.get("parts"))) if message.get("message_type") == "response" else ():
            if part.get("part_kind") == "text" and isinstance(part.get("content"), str):
                return text_hash(part["content"])
    return ""


def run_name(record: TurnRecord, turn: Fields) -> str:
    """Return the name of a turn's run in marks."""
    name = object_of(turn.get(BRANCH)).get("run")
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
    return object_of(lineage)

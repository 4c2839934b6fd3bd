"""Read turn records to tell how long each step of a turn took, and which tools the newest turns called."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select

from pipeline.stores.database.ids import first_id
from pipeline.stores.database.keys import LARGEST
from pipeline.stores.database.packing import size_of
from pipeline.stores.database.schema import threads, turns
from pipeline.stores.database.sending import certain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.list_statements import ListQuery, conditions
from pipeline.stores.threads.pages import derived_of
from pipeline.stores.threads.reading import spawned_threads
from pipeline.stores.threads.rows import AGENT, record_of
from pipeline.turns.steps import OPEN, Answer, late_answers, nested, settle, spawned_by, steps_of
from pipeline.turns.times import passed
from topics.json_text import Fields
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord

READ: Final = 10_000  # turns, the newest, in which calls of tools are counted
READ_BYTES: Final = 67_108_864  # or so many of their records: those of usual turns are a third of that
LISTED: Final = 1_000  # tools
PIECE: Final = 200  # records that are read at once
Timed = tuple[str, str | None, list[Fields], dict[str, Answer]]  # a turn, the call that began its thread, its steps
GOOD: Final = ("complete", "success")


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The calls of a tool, and those of them that failed, or that nothing answered.

    `took_p95_ms`: of those whose time is known, by nearest rank; None of none.
    """

    tool: str
    calls: int
    failed: int
    unanswered: int
    took_p95_ms: int | None


@dataclass(frozen=True, slots=True)
class ToolsUsed:
    """Tools, those with most failures first; `turns`: how many of agents were read."""

    tools: list[ToolUse]
    turns: int


async def thread_steps(store: ThreadStore, key: ThreadKey) -> dict[str, list[Fields]]:
    """Return the steps of each agent's turn by its id, with a sub-agent's steps below the call that began it."""
    spawned: dict[str, list[Fields]] = {}
    for child in await spawned_threads(store, key):
        for _, name, steps, _ in await _timed(store, child.key):
            if name is not None:
                spawned.setdefault(name, []).extend(steps)
    return {turn_id: nested(steps, spawned) for turn_id, _, steps, _ in await _timed(store, key) if steps}


async def _timed(store: ThreadStore, key: ThreadKey) -> list[Timed]:
    timed = [each async for each in derived_of(store, key, _derived)]
    waiting: dict[str, Fields] = {}  # calls that no turn so far answers
    for _, _, steps, answers in timed:
        for call_id in waiting.keys() & answers.keys():
            settle(waiting.pop(call_id), answers[call_id])
        waiting |= {str(step["tool_call_id"]): step for step in steps if step["status"] == OPEN}
    return timed


def _derived(record: TurnRecord) -> Timed:
    return record["turn_id"], spawned_by(record), steps_of(record), late_answers(record)


async def tools_called(store: ThreadStore, wanted: ListQuery) -> ToolsUsed:
    """Return the tools that the newest READ turns call, or fewer large ones; `wanted`: which threads, `since` when."""
    calls = defaultdict[str, list[tuple[str, int | None]]](list)  # by tool, the status of each and its time
    query = select(turns.c.id, turns.c.thread, turns.c.record).join(threads, turns.c.thread == threads.c.id)
    query = query.where(turns.c.role == AGENT, turns.c.id >= first_id(wanted.since or 0), *conditions(wanted))
    answers: dict[tuple[int, str], Answer] = {}  # by thread and call, of turns later than those that are still read
    last, count, size = first_id(LARGEST), 0, 0

    def add(rows: Iterable[Any]) -> None:
        for thread, record in ((row.thread, record_of(row.record)) for row in rows):
            for step in (step for step in steps_of(record) if step["kind"] == "tool"):
                if step["status"] == OPEN:
                    settle(step, answers.pop((thread, str(step["tool_call_id"])), None))
                calls[str(step["name"] or "")].append((step["status"], passed(step["start"], step["end"])))
            answers.update({(thread, call_id): answer for call_id, answer in late_answers(record).items()})

    while count < READ and size < READ_BYTES:
        async with store.reading() as connection:
            await certain(connection)
            piece = query.where(turns.c.id < last).order_by(turns.c.id.desc()).limit(min(PIECE, READ - count))
            rows = (await connection.execute(piece)).all()
        if not rows:
            break
        await asyncio.to_thread(add, rows)
        last, count, size = rows[-1].id, count + len(rows), size + sum(size_of(row.record) for row in rows)
    used = [_used(tool, some) for tool, some in calls.items()]
    return ToolsUsed(sorted(used, key=lambda use: (-use.failed, -use.calls, use.tool))[:LISTED], count)


def _used(tool: str, calls: Sequence[tuple[str, int | None]]) -> ToolUse:
    took = sorted(time for _, time in calls if time is not None)
    p95 = took[(len(took) * 95 + 99) // 100 - 1] if took else None
    statuses = [status for status, _ in calls]
    failed = sum(status not in (*GOOD, OPEN) for status in statuses)
    return ToolUse(tool, len(calls), failed, statuses.count(OPEN), p95)

"""The real thread store on SQLite, for a share of the schedules.

Its driver has threads of its own, so its calls run in a real event loop beside the simulated one, which waits for them:
a call is one step, with faults before and after it. One store serves all schedules of a process, as to open one takes
as long as a schedule; each of them begins with an empty database in its place.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import select

from pipeline.policies.retention import FOREVER, Retention
from pipeline.stores.database.errors import UnstorableData
from pipeline.stores.database.packing import unpacked
from pipeline.stores.database.schema import threads
from pipeline.stores.database.sending import send
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.write import index_some
from pipeline.stores.threads import statements
from pipeline.stores.threads.rows import record_of
from pipeline.stores.threads.summaries import WriteResult
from pipeline.stores.threads.write import LATEST, NAMED
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import cost_since
from pipeline.stores.usage.summing import compare_sums, keep_sums, sum_up
from tests.simulation.stores import BREAKS, REFUSED, Database
from tests.simulation.wire import marks
from tests.support.places import temporary
from topics.turn_record import TurnRecord

T = TypeVar("T")
Said = frozenset[tuple[str, str, int]]


@dataclass(slots=True)
class Sqlite(Database):
    """Beside what the store itself refuses: the titles that schedules have for it."""

    opened: bool = False
    known: dict[Any, Said] = field(default_factory=dict)

    async def open(self, url: str, **_: Any) -> Sqlite:
        await self.faults.before("the store")
        if not self.opened:
            self.opened = True
            own_files().begin_anew()
        return self

    async def write_turns(
        self,
        records: Sequence[TurnRecord],
        retention: Retention = FOREVER,
        now: int = 0,
        values: Sequence[bytes | None] = (),
    ) -> WriteResult:
        self._look_at_haste(records)
        await self.faults.before("the store")
        titles = {(record.get("thread") or {}).get("title") for record in records}
        if REFUSED in titles:
            raise UnstorableData(REFUSED)
        if BREAKS in titles:
            raise RuntimeError(BREAKS)
        result = result_of(write_turns(own_files().store, records, retention, now, values))
        for key, said in self._said().items():
            lost = self.known.get(key, frozenset()) - said
            if lost:
                self.problems.append(f"turn {key} held {sorted(lost)} and does not any more")
            self.known[key] = said
        await self.faults.after("the store")
        return result

    async def keep_sums(self, *, wanted: bool) -> None:
        await self.faults.before("the store")
        result_of(keep_sums(own_files().store, wanted=wanted))
        await self.faults.after("the store")

    async def sum_up(self) -> bool:
        await self.faults.before("the store")
        more = result_of(sum_up(own_files().store))
        await self.faults.after("the store")
        return more

    async def cost_since(self, since: int) -> int:
        return result_of(cost_since(own_files().store, since))

    async def index_some(self) -> int:
        await self.faults.before("the store")
        done = result_of(index_some(own_files().store))
        await self.faults.after("the store")
        return done

    def wrong_sums(self) -> list[Any]:
        """The sums of usage that are not what all rows say, once all that was noted is taken up."""
        if not self.opened:
            return []
        store = own_files().store
        while result_of(sum_up(store)):
            pass
        return [*result_of(compare_sums(store)).wrong]

    def wrong_threads(self) -> list[Any]:
        """Each thread's row that is not what its turns say, beside what they say."""
        return result_of(_wrong_threads(own_files().store)) if self.opened else []

    def records(self) -> list[TurnRecord]:
        """All stored turn records."""
        return [record_of(record.encode()) for *_, record in self._rows()]

    def _said(self) -> dict[Any, Said]:
        return {(thread, turn): marks(record) for thread, turn, record in self._rows()}

    def _rows(self) -> list[Any]:
        if not self.opened:
            return []
        rows = own_files().used.execute("SELECT thread, turn_id, record FROM turns")
        return [(thread, turn, unpacked(record).decode()) for thread, turn, record in rows]


async def _wrong_threads(store: ThreadStore) -> list[Any]:
    query = select(threads).order_by(threads.c.id)
    async with store.reading() as connection:  # what is changed here is rolled back
        stored = (await connection.execute(query)).all()
        ids = [row.id for row in stored]
        await connection.execute(statements.refresh_threads(ids))
        await send(connection, [statements.latest_values("sqlite", id_, (*LATEST, *NAMED)) for id_ in ids])
        derived = (await connection.execute(query)).all()
    return [pair for pair in zip(stored, derived, strict=True) if pair[0] != pair[1]]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def result_of(work: Coroutine[Any, Any, T]) -> T:
    """The result of work in the real loop."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


@dataclass(frozen=True)
class _Files:
    """The store, a view of its database, and an empty one with all tables."""

    folder: tempfile.TemporaryDirectory[str]
    store: ThreadStore
    used: sqlite3.Connection
    empty: sqlite3.Connection

    def begin_anew(self) -> None:
        """Nothing is stored."""
        self.empty.backup(self.used)


@cache
def own_files() -> _Files:
    folder = tempfile.TemporaryDirectory(prefix="simulated-store-", dir=temporary())
    file, empty = Path(folder.name) / "threads.db", sqlite3.connect(":memory:")
    store = result_of(ThreadStore.open(f"sqlite:///{file}"))
    used = sqlite3.connect(file, isolation_level=None)
    used.backup(empty)
    return _Files(folder, store, used, empty)

"""The real thread store on SQLite, for a share of the schedules.

Its driver has threads of its own, so its calls run in a real event loop beside the simulated one, which waits for them:
a call is one step, with faults before and after it.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pipeline.errors import UnstorableData
from pipeline.stores.rows import record_of
from pipeline.stores.sql import ThreadStore
from pipeline.stores.summaries import WriteResult
from tests.simulation.stores import BREAKS, REFUSED, Database
from tests.simulation.wire import marks
from topics import json_text
from topics.turn_record import TurnRecord

T = TypeVar("T")
Said = frozenset[tuple[str, str, int]]


@dataclass(slots=True)
class Sqlite(Database):
    """Beside what the store itself refuses: the titles that schedules have for it."""

    store: ThreadStore | None = None
    held: dict[Any, Said] = field(default_factory=dict)

    async def open(self, url: str) -> Sqlite:
        await self.faults.before("the store")
        if self.store is None:
            shutil.copyfile(_empty(), self.file)
            self.store = ThreadStore(f"sqlite:///{self.file}")
        return self

    @property
    def file(self) -> Path:
        """Of the database."""
        return self.folder / "threads.db"

    async def write(self, records: Sequence[TurnRecord]) -> WriteResult:
        self._look_at_haste(records)
        await self.faults.before("the store")
        titles = {(record.get("thread") or {}).get("title") for record in records}
        if REFUSED in titles:
            raise UnstorableData(REFUSED)
        if BREAKS in titles:
            raise RuntimeError(BREAKS)
        assert self.store is not None
        result = _done(self.store.write(records))
        for key, said in self._said().items():
            lost = self.held.get(key, frozenset()) - said
            if lost:
                self.problems.append(f"turn {key} held {sorted(lost)} and does not any more")
            self.held[key] = said
        await self.faults.after("the store")
        return result

    def records(self) -> list[TurnRecord]:
        """All stored turn records."""
        return [record_of(json_text.loads(facts), json_text.loads(document)) for *_, facts, document in self._rows()]

    def close(self) -> None:
        """Let its file go."""
        if self.store is not None:
            _done(self.store.close())

    def _said(self) -> dict[Any, Said]:
        return {(thread, turn): marks(facts + document) for thread, turn, facts, document in self._rows()}

    def _rows(self) -> list[Any]:
        if self.store is None:
            return []
        connection = sqlite3.connect(self.file)
        try:
            found = connection.execute("SELECT thread_id, turn_id, facts, coalesce(document, 'null') FROM turns")
            return found.fetchall()
        finally:
            connection.close()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _done(work: Coroutine[Any, Any, T]) -> T:
    """The result of work in the real loop."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


@cache
def _empty() -> Path:
    """A store with all tables and no rows: to make one takes as long as some schedules."""
    file = Path(tempfile.mkdtemp(prefix="simulated-store-")) / "empty.db"

    async def made() -> None:
        await (await ThreadStore.open(f"sqlite:///{file}")).close()

    _done(made())
    return file

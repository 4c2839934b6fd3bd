"""The archive as tables of Apache Iceberg: `turns` and `usage`, each turn's newest revision once.

A segment of the turns topic is a commit to each table. The snapshot records its offsets, so a segment that comes
again, after a crash or by a replay, is recognized. Correctness doesn't depend on that: rows are compared by the rank of
their records, so workers may write the same turns at the same time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import date
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from obstore.exceptions import BaseError
from pyiceberg.exceptions import RESTError
from pyiceberg.expressions import And
from sqlalchemy.exc import SQLAlchemyError

from pipeline.policies.prices import NONE, Prices
from pipeline.stores.archive import lake_merge, lake_rows, lake_upkeep, segments
from pipeline.stores.archive import turn_archive as archive_records
from pipeline.stores.archive.lake_catalog import LakeLocation, TableState
from pipeline.stores.archive.lake_read import Source, of_tenant, of_threads, on_days, standing
from pipeline.stores.archive.lake_table import Committed, LakeTable
from pipeline.stores.archive.lake_upkeep import Compacted, Expired
from pipeline.stores.archive.turn_archive import Entry, Erased, Held, Removed, Written, never
from pipeline.stores.database.errors import StoreError
from topics.thread_key import ThreadKey
from turnmill.errors import TurnmillError

log = logging.getLogger(__name__)

COLUMNS: Final = {"turns": lake_rows.TURNS, "usage": lake_rows.USAGE}
ENDED: Final = ("thread_id", "tenant", "ended_at")

P = ParamSpec("P")
T = TypeVar("T")


def _in_thread(call: Callable[Concatenate[Lake, P], T]) -> Callable[Concatenate[Lake, P], Coroutine[Any, Any, T]]:
    """Return a coroutine function that runs the method in a thread, one at a time, and raises StoreError."""

    def checked(lake: Lake, args: tuple[Any, ...], options: dict[str, Any]) -> T:
        try:
            return call(lake, *args, **options)
        except TurnmillError:
            raise
        except (OSError, BaseError, SQLAlchemyError, RESTError) as error:
            raise StoreError(f"{lake.location.root}: {_line(error)}", transient=True) from error
        except Exception as error:  # of pyiceberg, pyarrow and what they call
            raise StoreError(f"{lake.location.root}: {_line(error)}") from error

    @wraps(call)
    async def run(lake: Lake, /, *args: P.args, **options: P.kwargs) -> T:
        async with lake.writing:
            return await asyncio.to_thread(checked, lake, args, options)

    return run


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


class Lake:
    """Writes segments as `Archive` does. `erased` returns which of some threads must not be in it."""

    def __init__(self, location: LakeLocation, erased: Erased, prices: Prices = NONE) -> None:
        self.location = location
        self.erased = erased
        self.prices = prices
        self.writing = asyncio.Lock()  # so that our own commits don't conflict with each other
        self.opened: dict[str, LakeTable] = {}

    async def write(
        self,
        topic: str,
        partition: int,
        begin: int,
        end: int,
        entries: Sequence[Entry],
        expired: archive_records.Expired = never,
        held: Held | None = None,
    ) -> Written:
        """Write a segment durably, without expired turns of threads that are not held. Raises StoreError."""
        batch = await asyncio.to_thread(lake_rows.batch, partition, entries, expired, self.prices)
        if (rule := await segments.sparing(expired, batch.expired, held)) is not None:
            batch = await asyncio.to_thread(lake_rows.batch, partition, entries, rule, self.prices)
        threads = segments.threads(batch.turns)
        erased = await self.erased(threads)
        kept = batch.without(erased)
        source = Source(topic, partition, begin, end, max((entry.at for entry in entries), default=0))
        merged = await self._merge(kept, source, erases=bool(erased))
        # An erasure first marks the thread, then reads the tables: either it finds these rows, or we find its mark.
        if meanwhile := await self.erased(threads) - erased:
            await self.delete_threads(meanwhile)
        try:
            await self._tidy(kept.days)
        except StoreError as error:  # the segment is safe; the next call tidies up
            log.warning("files and snapshots are left as they are: %s", error)
        return Written(merged[0].rows, sum(commit.bytes for commit in merged), batch.refused, len(batch.expired))

    @_in_thread
    def delete_threads(self, keys: Collection[ThreadKey]) -> int:
        """Remove erased threads' rows, and older snapshots; return how many files had such rows. Raises StoreError."""
        files = 0
        for name in COLUMNS:
            kept = partial(segments.without, erased=keys)
            files += self._table(name).remove(of_threads(keys), lake_merge.KEY, kept, erases=True)
            lake_upkeep.expire(self._table(name), time.time() + 1, erased=True)
        return files

    @_in_thread
    def expire(self, days: Collection[date], before: Mapping[ThreadKey, int]) -> Removed:
        """Remove these threads' rows that ended before their time (epoch ms), and old snapshots. Raises StoreError."""
        threads: set[ThreadKey] = set()
        rows = files = 0
        where = And(of_threads(before), on_days(days))
        for rows_of in self._table("turns").look(where, ENDED):
            places, keys = segments.of_expired(rows_of, before)
            rows, threads = rows + len(places), threads | keys
        for name in COLUMNS:
            kept = partial(segments.without_expired, before=before)
            if count := self._table(name).remove(where, ENDED, kept):
                files += count
                lake_upkeep.expire(self._table(name), time.time() - lake_upkeep.RECENT)
        return Removed(rows, files, frozenset(threads))

    @_in_thread
    def counted(self, days: Collection[date], before: Mapping[ThreadKey, int]) -> int:
        """Return how many rows of turns `expire` would remove. Raises StoreError."""
        tables = self._table("turns").look(And(of_threads(before), on_days(days)), ENDED)
        return sum(len(segments.of_expired(rows, before)[0]) for rows in tables)

    @_in_thread
    def holding(self, tenant: str) -> int:
        """Return how many files of the current snapshots contain data of a tenant. Raises StoreError."""
        tables = [rows for name in COLUMNS for rows in self._table(name).look(of_tenant(tenant), ["tenant"])]
        return sum(segments.holds_tenant(rows, tenant) for rows in tables)

    @_in_thread
    def threads_of(self, tenant: str) -> set[ThreadKey]:
        """Return the threads of a tenant. Raises StoreError."""
        tables = self._table("turns").look(of_tenant(tenant), ["thread_id", "tenant"])
        return {key for rows in tables for key in segments.threads_of(rows, tenant)}

    @_in_thread
    def compact(self) -> dict[str, Compacted]:
        """Join small files; return the result by table. Raises StoreError."""
        return {name: lake_upkeep.compact(self._table(name)) for name in COLUMNS}

    @_in_thread
    def expire_snapshots(self, older_than: float) -> dict[str, Expired]:
        """Remove snapshots older than `older_than` seconds, and unreferenced files, by table. Raises StoreError."""
        before = time.time() - older_than
        return {name: lake_upkeep.expire(self._table(name), before) for name in COLUMNS}

    @_in_thread
    def state(self) -> dict[str, TableState]:
        """Return the state of each table; creates none. Raises StoreError."""
        return self.location.state(COLUMNS)

    @_in_thread
    def _merge(self, batch: lake_rows.Batch, source: Source, *, erases: bool) -> list[Committed]:
        turns, usage = (self._table(name) for name in COLUMNS)
        first = turns.merge(batch.turns, lambda: batch.ranks, batch.days, source, erases=erases)
        standing = TurnRanks(turns, batch, first)
        second = usage.merge(batch.usage, standing.ranks, batch.days, source, erases=erases)
        if erases:
            for table in (turns, usage):
                if lake_upkeep.owes(table):
                    lake_upkeep.expire(table, time.time() + 1, erased=True)
        return [first, second]

    @_in_thread
    def _tidy(self, days: Collection[date | None]) -> None:
        for name in COLUMNS:
            lake_upkeep.tidy(self._table(name), days)

    def _table(self, name: str) -> LakeTable:
        if name not in self.opened:
            catalog = self.location.open()
            for table, columns in COLUMNS.items():
                self.opened[table] = LakeTable(catalog, table, columns, f"{self.location.root}/{table}")
        return self.opened[name]


class TurnRanks:
    """The ranks by which a batch's usage rows are merged; taken from `turns`, since a turn may have no usage row."""

    def __init__(self, turns: LakeTable, batch: lake_rows.Batch, merged: Committed) -> None:
        self.turns = turns
        self.batch = batch
        self.snapshot = merged.snapshot
        self.known = merged.best

    def ranks(self) -> Mapping[lake_merge.Key, lake_merge.Rank]:
        """Return the ranks in the table of turns; read again if another commit came since."""
        table = self.turns.load()
        if self.snapshot is None or table.metadata.current_snapshot_id != self.snapshot:
            self.known = standing(table, self.batch.days, self.batch.ranks)
            self.snapshot = table.metadata.current_snapshot_id
        return self.known

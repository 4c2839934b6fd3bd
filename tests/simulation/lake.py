"""The real tables of the archive, for a share of the schedules: each write is one step, with faults before, within and
after it. Every worker has a `Lake` of its own over the same files.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from pipeline.settings import Settings, load
from pipeline.stores.archive import lake_table, lake_upkeep
from pipeline.stores.archive.lake import Lake
from pipeline.stores.archive.parquet import Written
from pipeline.stores.archive.turn_archive import Entry, lake_of
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.keys import key_of
from pipeline.turns.thread_document import newest
from tests.simulation.broker import Entry as BrokerEntry
from tests.simulation.sqlite import result_of
from tests.simulation.stores import Archive
from tests.support.lake import digests, expected, usage_rows
from topics import turn_record
from topics.thread_key import ThreadKey

MOST: Final = 0.3  # highest odds that a commit fails, before or after it took place


@dataclass(slots=True)
class Tables(Archive):
    """`folder`: of the schedule."""

    folder: Path = field(default_factory=Path)
    gone: Callable[[], Collection[ThreadKey]] = tuple  # the threads that were erased

    @property
    def settings(self) -> Settings:
        """Where the tables are."""
        return load({}, home=self.folder, archive=f"iceberg+{self.folder.as_uri()}/lake")

    def of(self, settings: Any, erased: object) -> WorkersTables:
        return WorkersTables(self, lake_of(self.settings, self.marked))

    async def marked(self, threads: Sequence[ThreadKey]) -> set[ThreadKey]:
        return {*self.gone()} & {*threads}

    def erase(self, thread: ThreadKey) -> None:
        result_of(lake_of(self.settings, self.marked).delete_threads([thread]))

    def wrong(self, records: Sequence[BrokerEntry]) -> Iterator[str]:
        """Where the tables are not what these records of the turns topic make."""
        if not self.offsets:
            return
        gone = self.gone()
        made = [record for entry in records if (record := _record(entry)) is not None]
        rows, usage = expected([record for record in made if key_of(record) not in gone])
        for name, right, there in (
            ("turns", rows, digests(self.settings)),
            ("usage", usage, usage_rows(self.settings)),
        ):
            missing, more = Counter(right) - Counter(there), Counter(there) - Counter(right)
            if missing or more:
                yield f"the table of {name} lacks {sorted(missing)[:3]} and has {sorted(more)[:3]} beside what is right"


@dataclass(slots=True)
class WorkersTables:
    """One worker's."""

    tables: Tables
    lake: Lake

    async def write(
        self, topic: str, partition: int, begin: int, end: int, entries: Sequence[Entry], *_: object
    ) -> Written:
        """Nothing expires here."""
        faults = self.tables.faults
        await faults.before("the archive")
        dies = faults.rng.random() < min(faults.fail, MOST), faults.rng.random() < min(faults.doubt, MOST)
        with pytest.MonkeyPatch.context() as patch:
            _failing(patch, faults.rng.randrange(3), *dies)
            # What is many here would be few elsewhere.
            patch.setattr(lake_upkeep, "MIN_JOINED_FILES", 4)
            patch.setattr(lake_upkeep, "MAX_SNAPSHOTS", 4)
            patch.setattr(lake_upkeep, "RECENT", -1.0)
            written = result_of(self.lake.write(topic, partition, begin, end, entries))
        self.tables.offsets.setdefault(partition, set()).update(entry.offset for entry in entries)
        await faults.after("the archive")
        return written


def _failing(patch: pytest.MonkeyPatch, number: int, before: bool, after: bool) -> None:  # noqa: FBT001  # drawn together
    """The commit of this number fails before or after it takes place."""
    swap, commits = lake_table.swap, itertools.count()

    def swapped(*args: Any) -> int | None:
        fails = next(commits) == number
        if fails and before:
            raise StoreError("the archive has died", transient=True)
        found = swap(*args)
        if fails and after:
            raise StoreError("the archive has died", transient=True)
        return found

    patch.setattr(lake_table, "swap", swapped)


def _record(entry: BrokerEntry) -> Any:
    try:
        record = turn_record.decode(entry.value)
        newest([record])
        expected([record])
    except Exception:  # what no table takes
        return None
    return record

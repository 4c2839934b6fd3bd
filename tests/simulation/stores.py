"""Stores that fail: a thread store, objects and an archive in memory, which outlive every worker.

The thread store keeps what the pure rules of `pipeline.stores` choose, refuses what a database would refuse, and looks
at each turn that replaces another: none may ever hold less than before.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from itertools import repeat
from typing import Any, Final

from pipeline.policies.retention import FOREVER, Retention
from pipeline.stores.archive.parquet import Written
from pipeline.stores.archive.turn_archive import Entry
from pipeline.stores.content.objects import Found, NotThere
from pipeline.stores.database.errors import StoreError, UnstorableData
from pipeline.stores.database.packing import unpacked
from pipeline.stores.database.schema import links, usage
from pipeline.stores.threads.rows import RecordRows, agents_of, record_rows
from pipeline.stores.threads.summaries import WriteResult
from pipeline.stores.threads.write import taken
from tests.simulation.wire import marks
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord

HASTY: Final = 12  # equal writes within a second, where those of three workers are at most some
HANGS: Final = (6.0, 12.0, 20.0)  # seconds
LARGEST: Final = 2**63 - 1
REFUSED: Final = "no store takes this"  # a title that the simulated store refuses, as a database would a bad value
BREAKS: Final = "this breaks the store's code"  # one that raises what nobody has foreseen
SURROGATE: Final = re.compile("[\ud800-\udfff]")
CHILDREN: Final = (links, usage)


Tried = tuple[tuple[str | None, str, int | None], ...]


@dataclass(slots=True)
class Faults:
    """How likely a call fails, before or after it has had its effect."""

    rng: random.Random
    delay: Callable[[], float]
    fail: float = 0.0
    doubt: float = 0.0
    hang: float = 0.0

    def mend(self) -> None:
        """All is well again."""
        self.fail = self.doubt = self.hang = 0.0

    async def before(self, what: str) -> None:
        hangs = self.hang and self.rng.random() < self.hang
        await asyncio.sleep(self.rng.choice(HANGS) if hangs else self.delay())
        if self.rng.random() < self.fail:
            raise StoreError(f"{what} is away", transient=True)

    async def after(self, what: str) -> None:
        await asyncio.sleep(self.delay())
        if self.rng.random() < self.doubt:
            raise StoreError(f"{what} has not answered", transient=True)


@dataclass(slots=True)
class Disk:
    """Where workers keep the records of a run that they build, in memory; `full`: it takes no more."""

    full: bool = False

    def mend(self) -> None:
        """There is room again."""
        self.full = False

    def file(self, **_: object) -> DiskFile:
        """In place of `TemporaryFile`."""
        return DiskFile(self)


class DiskFile(BytesIO):
    """A file on that disk."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self.disk = disk

    def write(self, value: Any, /) -> int:
        if self.disk.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(value)


@dataclass(slots=True)
class Database:
    """What `ThreadStore` is to the store role. `problems`: where a turn came to hold less than it did."""

    faults: Faults
    problems: list[str]
    clock: Callable[[], float]
    turns: dict[Any, RecordRows] = field(default_factory=dict)
    tries: deque[tuple[float, Tried]] = field(default_factory=deque)
    gone: set[ThreadKey] = field(default_factory=set)  # threads that were erased

    async def open(self, url: str, **_: Any) -> Database:
        await self.faults.before("the store")
        return self

    async def write_turns(
        self,
        records: Sequence[TurnRecord],
        retention: Retention = FOREVER,
        now: int = 0,
        values: Sequence[bytes | None] = (),
    ) -> WriteResult:
        """Nothing expires here."""
        self._look_at_haste(records)
        batch = dict(enumerate(map(record_rows, records, values or repeat(None))))
        await self.faults.before("the store")
        for rows in batch.values():
            _look_at(rows)
        family = {key for rows in batch.values() for key in rows.family}
        kept = {place: rows for place, rows in batch.items() if rows.thread not in self.gone}
        erased = {rows.thread for rows in batch.values()} & self.gone
        winners, late = taken(kept, {key: self.turns[key].version for key in family if key in self.turns})
        for key, rows in winners.items():
            self._put(key, rows)
        await self.faults.after("the store")
        return WriteResult(len(winners), late=tuple(late), erased=tuple(sorted(erased, key=str)))

    def erase(self, thread: ThreadKey) -> None:
        """What is stored of a thread is gone, and so is what comes of it later."""
        self.gone.add(thread)
        self.turns = {key: rows for key, rows in self.turns.items() if rows.thread != thread}

    async def erased_among(self, thread_ids: Any) -> set[Any]:
        return set()

    async def keep_sums(self, *, wanted: bool) -> None:
        """It has none."""

    async def sum_up(self) -> bool:
        return False

    async def index_some(self) -> int:
        """It has no words, either."""
        return 0

    async def cost_since(self, since: int) -> int:
        return 0

    async def states(self, budgets: Any, now: int) -> list[Any]:
        """It has no budgets."""
        return []

    async def due_notices(self, now: int) -> list[Any]:
        """Nothing here leaves one."""
        return []

    def wrong_sums(self) -> list[Any]:
        return []

    def wrong_threads(self) -> list[Any]:
        return []

    def _look_at_haste(self, records: Sequence[TurnRecord]) -> None:
        """Note where the same records are written again and again without a pause."""
        tried = tuple((record.get("tenant"), record["turn_id"], record.get("events")) for record in records)
        now = self.clock()
        self.tries.append((now, tried))
        while now - self.tries[0][0] > 1:
            self.tries.popleft()
        if sum(some == tried for _, some in self.tries) >= HASTY:
            self.problems.append(f"the same {len(records)} records are written {HASTY} times within a second")
            self.tries.clear()

    def _put(self, key: Any, rows: RecordRows) -> None:
        known = self.turns.get(key)
        if known is not None:
            lost = said(known) - said(rows)
            if lost:
                self.problems.append(f"turn {key} held {sorted(lost)} and does not any more")
        self.turns[key] = rows

    def records(self) -> list[TurnRecord]:
        """All stored turn records."""
        return [rows.record for rows in self.turns.values()]


def said(rows: RecordRows) -> frozenset[tuple[str, str, int]]:
    """What a stored turn holds, by the marks of its events."""
    return marks(unpacked(rows.turn["record"]).decode())


def _look_at(rows: RecordRows) -> None:
    """Raises what a database, or a driver, would raise."""
    if rows.turn["title"] == REFUSED:
        raise UnstorableData(REFUSED)
    if rows.turn["title"] == BREAKS:
        raise RuntimeError(BREAKS)
    found = [rows.turn, *(agent._asdict() for agent in agents_of(rows.record)), *rows.links, *rows.usage]
    for value in (value for row in found for value in row.values()):
        if isinstance(value, int) and not -LARGEST - 1 <= value <= LARGEST:
            raise UnstorableData("integer overflow")
        if isinstance(value, str) and ("\0" in value or SURROGATE.search(value)):
            raise UnstorableData("invalid byte sequence")
    for table in CHILDREN:
        keys = [row["position"] for row in getattr(rows, table.name)]
        if len(set(keys)) < len(keys):
            raise UnstorableData("UNIQUE constraint failed")


@dataclass(slots=True)
class Objects:
    """What `pipeline.stores.content.objects.Objects` is to content store and archive; `written`: when, in epoch ms."""

    faults: Faults
    held: dict[str, bytes] = field(default_factory=dict)
    clock: Callable[[], int] = int
    written: dict[str, int] = field(default_factory=dict)

    def open(self, uri: str) -> None:
        """There always is a bucket."""

    async def write(self, uri: str, data: bytes, media_type: str) -> None:
        await self.faults.before("the content store")
        self.held[uri] = data
        self.written[uri] = self.clock()
        await self.faults.after("the content store")

    async def add(self, uri: str, data: bytes, media_type: str) -> None:
        await self.write(uri, data, media_type)

    async def read(self, uri: str, most: int | None = None) -> bytes:
        await self.faults.before("the content store")
        if uri not in self.held:
            raise NotThere(uri)
        return self.held[uri]

    @asynccontextmanager
    async def reading(self, uri: str) -> AsyncIterator[BytesIO]:
        yield BytesIO(await self.read(uri))

    async def names_under(self, uri: str) -> AsyncIterator[str]:
        async for found in self.found_under(uri):
            yield found.uri

    async def found_under(self, uri: str) -> AsyncIterator[Found]:
        await self.faults.before("the content store")
        for name in sorted(name for name in self.held if name.startswith(f"{uri}/")):
            if name in self.held:  # nobody has deleted it meanwhile
                yield Found(name, len(self.held[name]), self.written[name])

    async def delete(self, uri: str) -> None:
        await self.faults.before("the content store")
        self.held.pop(uri, None)
        await self.faults.after("the content store")

    async def delete_under(self, uri: str) -> int:
        await self.faults.before("the content store")
        names = [name for name in self.held if name.startswith(f"{uri}/")]
        for name in names:
            del self.held[name]
        await self.faults.after("the content store")
        return len(names)


@dataclass(slots=True)
class Archive:
    """What `stores.archive.parquet.Archive` is to the archive role; `offsets`: what was written of each partition."""

    faults: Faults
    offsets: dict[int, set[int]] = field(default_factory=dict)

    def of(self, settings: Any, erased: Any) -> Any:
        return self

    def erase(self, thread: ThreadKey) -> None:
        """It knows offsets alone."""

    def wrong(self, records: Sequence[Any]) -> Iterator[str]:
        """Where it is not what the records of the turns topic make."""
        return iter(())

    async def write(
        self, topic: str, partition: int, begin: int, end: int, entries: Sequence[Entry], *_: object
    ) -> Written:
        """Nothing expires here."""
        await self.faults.before("the archive")
        self.offsets.setdefault(partition, set()).update(entry.offset for entry in entries)
        await self.faults.after("the archive")
        return Written(len(entries), 1, ())

"""The archive: segments of the turns topic as Parquet objects, in a bucket or a folder; feedback beside them.

A segment is a range of offsets of a partition. Each day on which a turn of it began has a separate object:
ROOT/day=2026-01-20/TOPIC-PARTITION-BEGIN-END.parquet, END exclusive. Turns that were recorded far from their day have
one for each tenant, …-END-OWNER.parquet. Writing a segment again gives the same objects.
Segments may overlap after a crash, and hold a turn in several revisions: readers take the highest rank of each turn.
A name stands for its offsets for ever, so that a late writer can't overwrite what another worker has written.

ROOT/feedback/day=2026-01-20/TOPIC-PARTITION-BEGIN-END.parquet contains the day's feedback records, by the broker's
time, as on the topic: of each id, readers take the last record, unless it retracts the feedback.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, Final, Self, TypeVar

import pyarrow as pa

from pipeline.policies.prices import NONE, Prices
from pipeline.settings import LAKE, Settings
from pipeline.stores.archive import segments
from pipeline.stores.archive.segments import TIME, Part, day_of, time_or_none
from pipeline.stores.archive.turn_archive import EPOCH, Entry, Erased, Expired, Held, Refusal, Removed, Written, never
from pipeline.stores.content.objects import NotThere, Objects
from pipeline.stores.database.errors import StoreError
from pipeline.stores.threads.feedback import thread_of
from pipeline.turns.column_text import column_text
from topics import feedback, json_text
from topics.feedback import FeedbackRecord
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError, InvalidRecord

log = logging.getLogger(__name__)

CONCURRENCY: Final = 8  # objects that are read or written at the same time
SUFFIX: Final = ".parquet"
FEEDBACK: Final = "feedback"  # the folder of the feedback archive
Item = TypeVar("Item")
Result = TypeVar("Result")
OWNED: Final = re.compile(r"-\d{20}-([0-9a-f]{16})\.parquet$")


class Archive:
    """Parquet objects below `root` (file:, s3:, gs: or azure:); `erased` returns which threads must not be in it."""

    folder = ""  # below the archive's place
    schema = segments.SCHEMA
    ends = "ended_at"  # the column that says whether a row has expired
    tables = staticmethod(segments.tables)

    def __init__(self, root: str, erased: Erased, prices: Prices = NONE) -> None:
        """Open the archive under `root`. Raises CallerError where the cloud's variables are missing or wrong."""
        self.root = root.rstrip("/")
        self.erased = erased
        self.prices = prices
        self.objects = Objects()
        self.objects.open(self.root)

    @classmethod
    def of(cls, settings: Settings, erased: Erased) -> Self:
        """Return the archive of TURNMILL_ARCHIVE. Raises CallerError where that is not set."""
        if settings.archive is None:
            raise CallerError("TURNMILL_ARCHIVE is not set: say where the archive is to be, as s3://bucket/prefix")
        return cls(settings.archive.removeprefix(LAKE).rstrip("/") + cls.folder, erased, settings.price_list)

    async def write(
        self,
        topic: str,
        partition: int,
        begin: int,
        end: int,
        entries: Sequence[Entry],
        expired: Expired = never,
        held: Held | None = None,
    ) -> Written:
        """Write a segment durably, without expired turns of threads that are not held. Raises StoreError."""
        parts, refused, old = await asyncio.to_thread(self.tables, partition, entries, expired, self.prices)
        if (rule := await segments.sparing(expired, old, held)) is not None:
            parts, refused, old = await asyncio.to_thread(self.tables, partition, entries, rule, self.prices)

        async def written(part: segments.Part) -> tuple[int, int]:
            name = f"{topic}-{partition:05d}-{begin:020d}-{end:020d}" + (f"-{part.owner}" if part.owner else "")
            return await self._write_kept(f"{self.root}/day={part.day.isoformat()}/{name}{SUFFIX}", parts[part])

        done = await _all(written, sorted(parts))
        return Written(sum(rows for rows, _ in done), sum(size for _, size in done), tuple(refused), len(old))

    async def delete_threads(self, keys: Collection[ThreadKey]) -> int:
        """Rewrite all objects that contain threads marked as erased; return how many objects did. Raises StoreError."""

        async def rewritten(uri: str) -> bool:
            return await self._rewrite(uri, keys)

        return sum(await _all(rewritten, await self._names({key.tenant for key in keys})))

    async def expire(self, days: Collection[date], before: Mapping[ThreadKey, int]) -> Removed:
        """Remove these threads' rows of these days that ended before the thread's time, epoch ms. Raises StoreError."""
        rows, objects, threads = 0, 0, set[ThreadKey]()
        for uri in await self.names_of(days):
            gone, keys = await self._of_expired(uri, before)
            if gone:
                with suppress(NotThere):
                    table = await asyncio.to_thread(segments.decode, await self.objects.read(uri))
                    await self._write_kept(uri, segments.without_expired(table, before, self.ends))
            rows, objects, threads = rows + len(gone), objects + bool(gone), threads | keys
        return Removed(rows, objects, frozenset(threads))

    async def counted(self, days: Collection[date], before: Mapping[ThreadKey, int]) -> int:
        """Return how many rows `expire` would remove. Raises StoreError."""
        return sum([len((await self._of_expired(uri, before))[0]) for uri in await self.names_of(days)])

    async def holding(self, tenant: str) -> int:
        """Return how many objects contain data of a tenant. Raises StoreError."""

        async def holds(uri: str) -> bool:
            return segments.holds_tenant(await self._columns(uri, ["tenant"]), tenant)

        return sum(await _all(holds, await self._names({tenant})))

    async def threads_of(self, tenant: str) -> set[ThreadKey]:
        """Return the threads of a tenant. Raises StoreError."""

        async def threads(uri: str) -> set[ThreadKey]:
            return segments.threads_of(await self._columns(uri, ["thread_id", "tenant"]), tenant)

        return set[ThreadKey]().union(*await _all(threads, await self._names({tenant})))

    async def names_of(self, days: Collection[date]) -> list[str]:
        """Return the objects that may contain rows about turns of these days. Raises StoreError."""
        below = [self.objects.names_under(f"{self.root}/day={day.isoformat()}") for day in sorted(days)]
        return [uri for names in below async for uri in names if uri.endswith(SUFFIX)]

    async def _names(self, tenants: Collection[str | None]) -> list[str]:
        """Return the objects that may contain data of these tenants."""
        owners = set(map(segments.owner_of, tenants))
        names = [uri async for uri in self.objects.names_under(self.root) if uri.endswith(SUFFIX)]
        names = [
            uri for uri in names if not uri.startswith(f"{self.root}/{FEEDBACK}/")
        ]  # the feedback has an archive of its own
        return [uri for uri in names if (owned := OWNED.search(uri)) is None or owned[1] in owners]

    async def _of_expired(self, uri: str, before: Mapping[ThreadKey, int]) -> tuple[list[int], set[ThreadKey]]:
        """Return the indexes of an object's expired rows, and the threads of these rows."""
        return segments.of_expired(await self._columns(uri, ["thread_id", "tenant", self.ends]), before, self.ends)

    async def _columns(self, uri: str, names: list[str]) -> pa.Table:
        """Return some columns of an object; no rows where another process has deleted it meanwhile."""
        try:
            async with self.objects.reading(uri) as file:
                return await asyncio.to_thread(segments.decode, file, names)
        except NotThere:
            return self.schema.empty_table().select(names)
        except (pa.ArrowInvalid, KeyError) as error:
            raise StoreError(f"{uri} is no segment of ours ({error}): move it out of the archive") from None

    async def _rewrite(self, uri: str, keys: Collection[ThreadKey]) -> bool:
        try:
            async with self.objects.reading(uri) as file:
                names = await asyncio.to_thread(segments.decode, file, ["thread_id", "tenant"])
            if (await asyncio.to_thread(segments.without, names, keys)).num_rows == names.num_rows:  # it loads pandas
                return False
            table = await asyncio.to_thread(segments.decode, await self.objects.read(uri))
        except NotThere:  # another process has erased it meanwhile
            return False
        except (pa.ArrowInvalid, KeyError) as error:
            raise StoreError(f"{uri} is no segment of ours ({error}): move it out of the archive") from None
        await self._write_kept(uri, table)
        return True

    async def _write_kept(self, uri: str, table: pa.Table) -> tuple[int, int]:
        """Write the rows of threads that are not erased, again if a thread is erased meanwhile; return rows, bytes."""
        # An erasure first marks the thread, then reads the objects: either it finds this object, or we find its mark.
        threads = segments.threads(table)
        erased: set[ThreadKey] | None = None
        while (now := await self.erased(threads)) != erased:
            erased = now
            kept = await asyncio.to_thread(segments.without, table, erased)
            data = await asyncio.to_thread(segments.encode, kept) if kept.num_rows else b""
            if data:
                await self.objects.write(uri, data, segments.MEDIA_TYPE)
            else:
                await self.objects.delete(uri)
        return kept.num_rows, len(data)


async def _all(call: Callable[[Item], Awaitable[Result]], items: Collection[Item]) -> list[Result]:
    """Return the results of a call for each of these, a few at the same time."""
    slots = asyncio.Semaphore(CONCURRENCY)

    async def limited(item: Item) -> Result:
        async with slots:
            return await call(item)

    return await asyncio.gather(*map(limited, items))


TEXTS: Final = ("thread_id", "tenant", "id", "name", "turn_id", "run_id", "comment", "by")
SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in TEXTS),
        pa.field("message", pa.int64()),
        pa.field("value", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("said_at", TIME),
        pa.field("facts", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("recorded_at", TIME),
    ]
)


class FeedbackArchive(Archive):
    """See `TurnArchive`; a row expires by the time at which it was recorded."""

    folder = f"/{FEEDBACK}"
    schema = SCHEMA
    ends = "recorded_at"

    @staticmethod
    def tables(
        partition: int, entries: Iterable[Entry], expired: Expired = never, _: Prices = NONE
    ) -> tuple[dict[Part, pa.Table], list[Refusal], list[ThreadKey]]:
        """Return the tables of a segment's days, the refused records, and the thread of each expired record."""
        rows: dict[Part, list[dict[str, Any]]] = {}
        refused: list[Refusal] = []
        old: list[ThreadKey] = []
        for entry in entries:
            try:
                record = feedback.decode(entry.value)
            except InvalidRecord as error:
                refused.append(Refusal(entry.offset, error.detail))
                continue
            if expired(thread_of(record), entry.at):
                old.append(thread_of(record))
                continue
            row = _row(record) | {"partition": partition, "offset": entry.offset, "recorded_at": time_or_none(entry.at)}
            rows.setdefault(Part(day_of(entry.at)), []).append(row)
        return {part: pa.Table.from_pylist(some, schema=SCHEMA) for part, some in rows.items()}, refused, old

    async def names_of(self, days: Collection[date]) -> list[str]:
        """Return the objects that may contain feedback on turns of these days, which may be given at any later time."""
        first = f"{self.root}/day={min({*days} - {EPOCH}, default=EPOCH).isoformat()}"
        return [uri async for uri in self.objects.names_under(self.root) if uri >= first and uri.endswith(SUFFIX)]


def _row(record: FeedbackRecord) -> dict[str, Any]:
    value = record["value"]
    return {
        **{name: column_text(record.get(name)) for name in TEXTS},
        "message": record.get("message"),
        "value": None if value is None else json_text.dumps(value),
        "number": float(value) if isinstance(value, bool | int | float) else None,
        "said_at": time_or_none(record["at"]),
        "facts": json_text.dumps(record),
    }

"""The archive roles: write turns as Parquet segments on object storage, or to tables, and feedback as segments.

A segment closes when it is large or old enough, by the broker's times, so the same records give the same segments.
Offsets are committed up to its end; the records of an open segment are read again after a restart.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.policies.retention import Retention
from pipeline.stores.archive.turn_archive import Entry, Erased, TurnArchive
from pipeline.stores.database.opened import Opened
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.holding import held_threads
from pipeline.stores.threads.reading import erased_among
from pipeline.worker.host.work import Records, Retry, Work
from pipeline.worker.sinks.store import now_of
from topics.thread_key import ThreadKey

log = logging.getLogger(__name__)

ArchiveOf = Callable[[Erased], TurnArchive]


@dataclass(slots=True)
class Segment:
    """An open segment: the records of a partition from `begin` on."""

    begin: int
    entries: list[Entry] = field(default_factory=list)
    size: int = 0
    idle_ms: int = 0  # since the last record

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.entries[-1].offset + 1 if self.entries else self.begin

    def add(self, entry: Entry) -> None:
        """Add the next record."""
        self.entries.append(entry)
        self.size += len(entry.value or b"")
        self.idle_ms = 0

    def age_ms(self, now: int) -> int:
        """Return its age by the broker's time; 0 while it is empty."""
        return now - self.entries[0].at if self.entries else 0


class ArchiveWork(Work):
    """See `Work`; keeps at most `most_bytes` and one record of each partition in memory."""

    def __init__(
        self,
        topic: str,
        archive: ArchiveOf,
        store: Opened[ThreadStore],
        retention: Retention,
        metrics: Metrics,
        *,
        longest_ms: int,
        most_bytes: int,
    ) -> None:
        """Prepare the work: from this topic to this archive.

        A segment is written after `longest_ms`, or with `most_bytes`. Raises the errors of `archive`.
        """
        self.topic = topic
        self.store = store
        self.archive = archive(self._erased)
        self.retention = retention
        self.metrics = metrics
        self.longest_ms = longest_ms
        self.most_bytes = most_bytes
        self.open: dict[int, Segment] = {}
        self.retry = Retry("archive", partial(metrics.add, m.ARCHIVE_FAILURES))

    @property
    def trouble(self) -> str | None:
        """See `Work.trouble`."""
        return self.retry.trouble

    async def assign(self, starts: Mapping[int, int]) -> None:
        """Begin an empty segment for each partition."""
        self.open = {partition: Segment(start) for partition, start in starts.items()}
        self.retry.given_up.clear()

    def drop(self) -> None:
        """Forget unwritten records: the next owner reads them again."""
        self.open = {}
        self.retry.trouble = None

    async def interrupt(self) -> None:
        """Stop waiting for a bucket that is away."""
        self.retry.given_up.set()

    async def handle(self, partition: int, records: Records) -> None:
        """Add records to the open segment; write it when it is large, or old."""
        for record in records:
            segment = self.open.get(partition)
            if segment is None or record.offset < segment.end:
                continue
            if segment.age_ms(record.timestamp) >= self.longest_ms:
                if not await self._close(partition, segment):
                    return
                segment = self.open[partition]
            segment.add(Entry(record.offset, record.timestamp, record.value))
            if segment.size >= self.most_bytes and not await self._close(partition, segment):
                return
        self.metrics.add(m.RECORDS_READ, len(records), topic=self.topic)

    def floor(self, partition: int) -> int | None:
        """Return the beginning of the open segment: all records before it are written."""
        segment = self.open.get(partition)
        return segment.begin if segment is not None else None

    async def tick(self, partition: int, idle_ms: int) -> None:
        """Write a segment that is old, even if no records follow."""
        segment = self.open.get(partition)
        if segment is None or not segment.entries:
            return
        segment.idle_ms += idle_ms
        if segment.age_ms(segment.entries[-1].at + segment.idle_ms) >= self.longest_ms:
            await self._close(partition, segment)

    async def _close(self, partition: int, segment: Segment) -> bool:
        """Write a segment, however long it takes; return False if the partition is about to be revoked."""
        done = await self.retry.until_done(partial(self._write, partition, segment))
        if done and self.open.get(partition) is segment:
            self.open[partition] = Segment(segment.end)
        return done and partition in self.open

    async def _write(self, partition: int, segment: Segment) -> None:
        kept_for, now = self.retention, now_of(entry.at for entry in segment.entries)

        def expired(thread: ThreadKey, ended_at: int) -> bool:
            return kept_for.expired(thread.tenant, ended_at, now)

        begin, end, entries = segment.begin, segment.end, segment.entries
        written = await self.archive.write(self.topic, partition, begin, end, entries, expired, self._held)
        for refusal in written.refused:
            log.warning("%s/%d@%d is not archived: %s", self.topic, partition, refusal.offset, refusal.why)
        self.metrics.add(m.ARCHIVE_SEGMENTS)
        self.metrics.add(m.ARCHIVE_ROWS, written.rows)
        self.metrics.add(m.ARCHIVE_BYTES, written.bytes)
        self.metrics.add(m.STORE_EXPIRED, written.expired, role="archive")
        self.metrics.add(m.ARCHIVE_REFUSED, len(written.refused))

    async def _erased(self, threads: Sequence[ThreadKey]) -> set[ThreadKey]:
        return await erased_among(await self.store.get(), threads)

    async def _held(self, threads: Collection[ThreadKey]) -> set[ThreadKey]:
        return await held_threads(await self.store.get(), threads)

"""Makes records of a partition's results: turns, telemetry, feedback, dead letters, entries of the state topic.

Large values of turns are moved to the content store before; without one, it is checked whether they fit.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pipeline.assembly.records import Refused, StoredRecord
from pipeline.assembly.results import Out
from pipeline.kafka.dead_letters import outgoing_letter, without_value
from pipeline.kafka.outbox import MAX_REQUEST_BYTES, Outgoing
from pipeline.stores.content.offload import Offload
from pipeline.stores.database.errors import StoreError
from pipeline.worker.host.work import Retry
from topics import catalog, json_text, telemetry, turn_record
from topics.turn_record import TurnRecord
from turnmill.errors import Reason
from turnmill.wire.envelope import encode

log = logging.getLogger(__name__)
OVERHEAD: Final = 200  # bytes of a record in addition to its value


class OutgoingResults:
    """Makes records of results, for the same partition number of the topics under one prefix."""

    def __init__(self, prefix: str, count_refused: Callable[[int, Sequence[Refused]], None]) -> None:
        """`count_refused` is called with the dead letters made here, and the number of their partition."""
        self.prefix = prefix
        self.count_refused = count_refused
        self.events_topic = catalog.EVENTS.full_name(prefix)
        self.turns_topic = catalog.TURNS.full_name(prefix)
        self.telemetry_topic = catalog.TELEMETRY.full_name(prefix)
        self.feedback_topic = catalog.FEEDBACK.full_name(prefix)
        self.dead_letters_topic = catalog.DEAD_LETTERS.full_name(prefix)
        self.state_topic = catalog.STATE.full_name(prefix)

    def turns(self, number: int, out: Out) -> list[Outgoing]:
        """Return the records of turns.

        A turn that can't be encoded is left out; then `out` has the raw records of its run instead.
        """
        try:
            return self._encoded(number, out.turns)
        except Exception:
            log.exception("a turn can't be encoded: the records of its run become dead letters")
        out.leave_out(turn_record.encode)
        return self._encoded(number, out.turns)

    def _encoded(self, number: int, turns: Sequence[TurnRecord]) -> list[Outgoing]:
        return [Outgoing(self.turns_topic, t["thread_id"].encode(), turn_record.encode(t), number) for t in turns]

    def others(self, number: int, out: Out) -> list[Outgoing]:
        """Return the records of telemetry, feedback and dead letters."""
        topic = self.telemetry_topic
        return [
            *(Outgoing(topic, e["thread_id"].encode(), telemetry.encode(e), number) for e in out.telemetry),
            *(Outgoing(self.feedback_topic, e["thread_id"].encode(), encode({**e}), number) for e in out.feedback),
            *(self._letter(number, refused) for refused in out.dead),
        ]

    def state(self, number: int, name: str, value: bytes | None) -> Outgoing:
        """Return an entry of the state topic; without a value, its tombstone."""
        return Outgoing(self.state_topic, name.encode(), value, number)

    def too_large(self, record: Outgoing) -> Outgoing:
        """Return the dead letter of a record that is too large for its topic; a dead letter is cut to fit."""
        if record.topic == self.dead_letters_topic:
            return without_value(record)
        refused = Refused(StoredRecord(b"", 0, 0, record.key), Reason.TOO_LARGE, self._why_too_large(record))
        self.count_refused(record.partition, [refused])
        return self._letter(record.partition, refused)

    def _letter(self, number: int, refused: Refused) -> Outgoing:
        return outgoing_letter(self.prefix, self.events_topic, number, refused)

    def _why_too_large(self, record: Outgoing) -> str:
        detail = f"a record of {len(record.value or b''):,} bytes is more than {record.topic} takes"
        if record.topic != self.turns_topic:
            return detail
        return f"{detail}: with a content store (TURNMILL_CONTENT) large values are kept elsewhere"


@dataclass(frozen=True, slots=True)
class StateWaves:
    """Entries for the state topic, in the order in which they may be written."""

    segments: deque[Outgoing] = field(default_factory=deque)
    marks: deque[Outgoing] = field(default_factory=deque)
    tombstones: deque[Outgoing] = field(default_factory=deque)

    def __iter__(self) -> Iterator[deque[Outgoing]]:
        return iter((self.segments, self.marks, self.tombstones))

    def move_to(self, others: StateWaves) -> None:
        """Append all entries to those of `others`."""
        for mine, theirs in zip(self, others, strict=True):
            theirs.extend(mine)
            mine.clear()


def fits_inline(record: TurnRecord) -> bool:
    """Return True if the turns topic takes a record with all values in it."""
    most = MAX_REQUEST_BYTES - OVERHEAD
    return json_text.size_of(record) <= most and len(turn_record.encode(record)) <= most


async def moved(out: Out, offload: Offload, retry: Retry) -> bool:
    """Move values to the content store before their turns are encoded; return False if the partition was given up.

    Large turns are processed one after the other, to save memory; long texts of all others at once.
    """
    for record in out.turns if out.large else ():
        key = record.get("tenant"), record["turn_id"]
        if key in out.large:
            if not await retry.until_done(partial(offload.move, record)):
                return False
            out.large.discard(key)
    long = [record for record in out.turns if offload.has_long_text(record)]
    return not long or await retry.until_done(partial(_move, long, offload))


async def _move(records: Sequence[TurnRecord], offload: Offload) -> None:
    results = await asyncio.gather(*(offload.move_longest(record) for record in records), return_exceptions=True)
    for record, error in zip(records, results, strict=True):
        if isinstance(error, StoreError) or not isinstance(error, Exception | None):
            raise error
        if error is not None:  # it is sent unchanged, as below
            log.warning("turn %r keeps its large values: %r", record["turn_id"], error)


async def offloaded(records: deque[Outgoing], topic: str, offload: Offload, retry: Retry) -> bool:
    """Move large values of the turns among these records, however long it takes. Return False if given up.

    `topic`: the turns topic.
    """
    turns = [index for index, record in enumerate(records) if record.topic == topic]
    large = [index for index in turns if len(records[index].value or b"") >= offload.threshold]
    return not large or await retry.until_done(partial(_offload, records, large, offload))


async def _offload(records: deque[Outgoing], large: Sequence[int], offload: Offload) -> None:
    values = await asyncio.gather(*(offload(records[index].value or b"") for index in large), return_exceptions=True)
    for value in values:
        if isinstance(value, StoreError) or not isinstance(value, bytes | Exception):
            raise value
    for index, value in zip(large, values, strict=True):
        if isinstance(value, bytes):
            records[index] = records[index]._replace(value=value)
        else:  # it is sent unchanged: a reader that can't use it, either, makes a dead letter with all its bytes
            log.warning("%s of %r keeps its large values: %r", records[index].topic, records[index].key, value)

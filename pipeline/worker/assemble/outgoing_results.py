"""Makes records of a partition's results: turns, telemetry, feedback, dead letters, entries of the state topic."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.assembly.records import Refused, StoredRecord
from pipeline.assembly.results import Out
from pipeline.kafka.dead_letters import outgoing_letter, without_value
from pipeline.kafka.outbox import Outgoing
from topics import catalog, telemetry, turn_record
from topics.turn_record import TurnRecord
from turnmill.errors import Reason
from turnmill.wire.envelope import encode

log = logging.getLogger(__name__)


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

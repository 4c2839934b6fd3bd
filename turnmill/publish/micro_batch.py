"""Number a run's events and pack them into records of a bounded size, in the form of the envelope.

Pure: times are passed as arguments. Events are encoded once, when they are added, so that their size is known and the
caller may change the object afterwards.
"""

from typing import Any

from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import RECORD_BYTES
from turnmill.wire.envelope import VERSION, encode

PER_EVENT = 24  # bytes in a record beside the event itself: its `dt` (the longest is 20 digits) and two commas
PER_RECORD = 160  # the names and numbers of an envelope


class MicroBatch:
    """A run's events that are not in a record yet, and `seq`, the number of the next event.

    `identity` has thread_id, run_id, agent_id, dialect and perhaps tenant, which each record has; `info` (RunInfo) is
    only in the first. A record has at most `max_bytes`, and `max_events` if that is given. Raises InvalidRecord if
    `info` is too large for a record.
    """

    __slots__ = ("_events", "_fixed", "_info", "_room", "_size", "_times", "identity", "max_events", "seq")

    def __init__(
        self,
        identity: dict[str, Any],
        info: dict[str, Any] | None = None,
        *,
        max_bytes: int = RECORD_BYTES,
        max_events: int | None = None,
        first_seq: int = 0,
    ) -> None:
        self.identity = identity
        self.max_events = max_events
        self.seq = first_seq
        self._info = info or None
        self._events: list[bytes] = []
        self._times: list[int] = []
        self._size = len(_json(self._info, "the run's info")) if self._info else 0
        self._room = max_bytes - PER_RECORD - len(_json(identity, "the run's identity"))
        if self._size > self._room:
            raise InvalidRecord(
                Reason.TOO_LARGE,
                f"the run's info has {self._size:,} bytes of JSON, and a record holds {self._room:,}: "
                "leave large content out of `request`",
            )

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: dict[str, Any], at: int) -> list[bytes]:
        """Add an event, at epoch ms. Return the records that are full now, in order: none, one or two.

        Raises InvalidRecord for an event that can't be sent; it gets no number, and the run goes on.
        """
        if not isinstance(event, dict):
            raise InvalidRecord(Reason.INVALID_EVENT, f"an event is a dict, not a {type(event).__name__}")
        data = _json(event, f"event {self.seq}")
        size = len(data) + PER_EVENT
        if size > self._room:
            raise InvalidRecord(
                Reason.TOO_LARGE,
                f"event {self.seq} ({event.get('type') or event.get('event_kind') or 'of no type'}) has {len(data):,} "
                f"bytes of JSON, and a record holds {self._room:,}: send large content by reference",
            )
        full = [self.take(at=at)] if self._size + size > self._room else []
        self._events.append(data)
        self._times.append(at)
        self._size += size
        self.seq += 1
        if self.max_events is not None and len(self._events) >= self.max_events:
            full.append(self.take(at=at))
        return full

    def take(self, end: str | None = None, *, at: int) -> bytes:
        """Return a record of all waiting events, with `end` if the run is over; `at`: its time if it has no events."""
        start = self._times[0] if self._times else at
        head: dict[str, Any] = {"v": VERSION, **self.identity, "seq": self.seq - len(self._events), "ts": start}
        if self._info is not None:
            head["run"] = self._info
        if end is not None:
            head["end"] = end
        if self._times:
            head["dt"] = [time - start for time in self._times]
        record = encode(head)[:-1] + b',"events":[' + b",".join(self._events) + b"]}"
        self._info, self._events, self._times, self._size = None, [], [], 0
        return record


def _json(value: dict[str, Any] | None, what: str) -> bytes:
    try:
        return encode(value or {})
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRecord(Reason.INVALID_EVENT, f"{what} is not JSON: {error}") from error

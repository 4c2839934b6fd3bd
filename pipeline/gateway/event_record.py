"""A record of the events topic, decoded once for all of a gateway that read it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.run_list import ListedRun
from topics.thread_key import ThreadKey
from turnmill.envelope import decode
from turnmill.errors import InvalidRecord

PER_RECORD = 600  # bytes of memory that a record takes beside its value

Envelope = dict[str, Any]
Headers = Sequence[tuple[str, bytes | None]]
Said = dict[tuple[int, bool], bytes]  # (index of an event, whether with what it shows) -> its frame

NOTHING: Final[Said] = {}  # of all records that are not fresh


class EventRecord:
    """One record of the events topic.

    What is held for long is its bytes: decoded it takes six times as much memory, in objects that the garbage
    collector looks through again and again, while everybody waits.
    """

    __slots__ = ("_envelope", "_value", "at", "fresh", "headers", "offset", "partition", "run", "said")

    def __init__(self, partition: int, offset: int, at: int, value: bytes | None, headers: Headers = ()) -> None:
        """Hold a record as it was read; `at`: broker ms."""
        self.partition = partition
        self.offset = offset
        self.at = at
        self.headers = headers
        self.run: ListedRun | None = None  # while it is fresh: the run that it is of, in the index of runs
        self.fresh = True
        self.said: Said = {}  # while it is fresh: what readers were sent of it
        self._value = value
        self._envelope: Envelope | None = None  # while it is fresh

    @property
    def size(self) -> int:
        """In memory, about."""
        return PER_RECORD + len(self._value or b"")

    def holds_any(self, marks: Sequence[bytes]) -> bool:
        """Return True if one of these is somewhere in the record: a look that costs less than to decode it."""
        value = self._value or b""
        return any(mark in value for mark in marks)

    @property
    def envelope(self) -> Envelope | None:
        """None where it is none."""
        if self._envelope is not None or self._value is None:
            return self._envelope
        try:
            envelope = decode(self._value)
        except InvalidRecord:  # a dead letter, as the assembler will say
            self._value = None
            return None
        if self.fresh:
            self._envelope = envelope
        return envelope

    @property
    def thread(self) -> ThreadKey | None:
        """The thread that it names itself; None where it is no record."""
        envelope = self.envelope
        return None if envelope is None else ThreadKey.of(envelope["thread_id"], envelope.get("tenant"))

    def pack(self) -> None:
        """Keep the bytes alone from now on."""
        self.fresh = False
        self.headers = ()
        self.run = self._envelope = None
        self.said = NOTHING

"""A record of the events topic, decoded once for all its readers in a gateway. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.run_list import ListedRun
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import decode

PER_RECORD = 600  # bytes of memory that a record takes in addition to its value

Envelope = dict[str, Any]
Headers = Sequence[tuple[str, bytes | None]]
Frames = dict[tuple[int, bool], bytes]  # (index of an event, with `shows` or not) -> its frame

NOTHING: Final[Frames] = {}  # shared by all records that are not fresh


class EventRecord:
    """One record of the events topic.

    Only its bytes are kept for long: decoded, it takes six times as much memory, in objects that the garbage collector
    scans again and again, while everybody waits.
    """

    __slots__ = ("_envelope", "_value", "at", "frames", "fresh", "headers", "number", "offset", "partition", "run")

    def __init__(self, partition: int, offset: int, at: int, value: bytes | None, headers: Headers = ()) -> None:
        """Wrap a record as it was read; `at`: its time by the broker, epoch ms."""
        self.partition = partition
        self.offset = offset
        self.at = at
        self.headers = headers
        self.number = 0  # in the order in which they came into memory, from 1
        self.run: ListedRun | None = None  # while it is fresh: its run in the index of runs
        self.fresh = True
        self.frames: Frames = {}  # while it is fresh: the frames that readers were sent
        self._value = value
        self._envelope: Envelope | None = None  # while it is fresh

    @property
    def size(self) -> int:
        """Its approximate size in memory, in bytes."""
        return PER_RECORD + len(self._value or b"")

    def holds_any(self, marks: Sequence[bytes]) -> bool:
        """Return True if the record contains one of these; costs less than decoding it."""
        value = self._value or b""
        return any(mark in value for mark in marks)

    @property
    def envelope(self) -> Envelope | None:
        """The decoded record; None if it is malformed."""
        if self._envelope is not None or self._value is None:
            return self._envelope
        try:
            envelope = decode(self._value)
        except InvalidRecord:  # the assembler makes a dead letter of it
            self._value = None
            return None
        if self.fresh:
            self._envelope = envelope
        return envelope

    @property
    def thread(self) -> ThreadKey | None:
        """The thread that the record names; None if it is malformed."""
        envelope = self.envelope
        return None if envelope is None else ThreadKey.of(envelope["thread_id"], envelope.get("tenant"))

    def pack(self) -> None:
        """Drop everything but the bytes."""
        self.fresh = False
        self.headers = ()
        self.run = self._envelope = None
        self.frames = NOTHING

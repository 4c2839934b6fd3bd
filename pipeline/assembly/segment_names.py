"""Which segments each run has on the state topic, in few bytes: a worker may have a million runs."""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

import orjson

from pipeline.assembly.parking import OutlinedSegment
from pipeline.assembly.restored_state import Segments
from topics.state import RunKey, Segment, segment_name

# Of a segment: its first and its last offset, its part, the bytes of its records. A shorter form saves nothing: Python
# keeps small objects of all kinds in shared blocks, and returns no block to the system while a single name is in it.
NAME: Final = Struct("<4q")


def packed_key(key: RunKey) -> bytes:
    """Return a run's key in few bytes."""
    return b"".join((orjson.dumps([*key]), b""))  # a copy: orjson's result has 4 KB that it does not use


class SegmentNames:
    """The keys of each run's segments, in the order in which they were written, and the bytes of their records.

    `aside`: returns the NAMEs of a packed run, which are with the rest of it until it is unpacked.
    """

    def __init__(self) -> None:
        self.aside: Callable[[bytes], bytes] = lambda name: b""
        self._of: dict[bytes, bytes] = {}  # the NAMEs of each run
        self._buried: dict[RunKey, int] = {}  # number of a run's segments whose records are dead letters already

    def restore(self, key: RunKey, segments: Segments) -> None:
        """Restore the segments of a run that a restart has read."""
        for segment in segments.values():
            self.add(key, segment)

    def add(self, key: RunKey, segment: Segment | OutlinedSegment) -> None:
        """Add a segment that is written to the state topic."""
        self.give(packed_key(key), NAME.pack(segment.first_offset, segment.last_offset, segment.part, segment.size))

    def give(self, name: bytes, names: bytes) -> None:
        """Add the NAMEs of a run that is not packed."""
        self._of[name] = self._of.get(name, b"") + names

    def take(self, name: bytes) -> bytes:
        """Return and remove the NAMEs of a run, which is packed."""
        return self._of.pop(name, b"")

    def of(self, key: RunKey) -> tuple[str, ...]:
        """Return the keys of all segments of a run."""
        return tuple([segment_name(key, *numbers[:3]) for numbers in self._numbers(key)])

    def size(self, key: RunKey) -> int:
        """Return the bytes of all records in a run's segments."""
        return sum([numbers[3] for numbers in self._numbers(key)])

    def _numbers(self, key: RunKey) -> list[tuple[Any, ...]]:
        """Return the NAMEs of a run's segments, unpacked; if a segment was written twice, only the newer size."""
        name = packed_key(key)
        return list({each[:3]: each for each in NAME.iter_unpack(self._of.get(name) or self.aside(name))}.values())

    def not_buried(self, key: RunKey) -> tuple[str, ...]:
        """Return the segments whose records are not dead letters yet."""
        return self.of(key)[self._buried.get(key, 0) :]

    def bury(self, key: RunKey) -> None:
        """Note that the records of all segments of a run are dead letters."""
        self._buried[key] = len(self.of(key))

    def remove(self, key: RunKey) -> tuple[str, ...]:
        """Remove the segments of a run that is not packed, and return their keys; they are no longer needed."""
        self._buried.pop(key, None)
        names = self.of(key) if self._of else ()
        if names:
            del self._of[packed_key(key)]
        return names

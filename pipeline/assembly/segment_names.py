"""The state keys of what the state topic holds of open and reopenable runs."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.assembly.restored_state import Segments
from topics.state import RunKey


class SegmentNames:
    """The keys of each run's segments, in the order in which they were written, and the bytes of their records."""

    def __init__(self) -> None:
        self._of: dict[RunKey, dict[str, int]] = {}
        self._buried: dict[RunKey, int] = {}  # of how many of a run's segments the records are dead letters already

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, key: RunKey) -> bool:
        return key in self._of

    def restore(self, found: Mapping[RunKey, Segments]) -> None:
        """Take those that a restart has found."""
        self._of = {key: {name: segment.size for name, segment in own.items()} for key, own in found.items()}

    def add(self, key: RunKey, name: str, size: int) -> None:
        """Of a segment that goes to the state topic; `size`: bytes of its records."""
        self._of.setdefault(key, {})[name] = size

    def of(self, key: RunKey) -> tuple[str, ...]:
        """All of a run."""
        return tuple(self._of.get(key, ()))

    def size(self, key: RunKey) -> int:
        """Bytes of all records of a run that are in its segments."""
        return sum(self._of.get(key, {}).values())

    def not_buried(self, key: RunKey) -> tuple[str, ...]:
        """Those whose records are no dead letters yet."""
        return self.of(key)[self._buried.get(key, 0) :]

    def bury(self, key: RunKey) -> None:
        """The records of all segments of a run are dead letters."""
        self._buried[key] = len(self._of.get(key, ()))

    def remove(self, key: RunKey) -> tuple[str, ...]:
        """Forget the segments of a run, which has no more use for them -> their keys."""
        self._buried.pop(key, None)
        return tuple(self._of.pop(key, ()))

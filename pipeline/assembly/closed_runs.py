"""The memory of closed runs: what tells a late event from a new run, and lets it reopen an interrupted one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline.assembly.limits import Limits
from pipeline.assembly.marks import Marks
from pipeline.assembly.spilled_run import Parked
from topics.state import Closed, RunKey


class ClosedRuns:
    """Closed runs of one partition, bounded in number, and those of them that can be reopened, bounded in bytes.

    `forget` is called with each run whose records are of no more use.
    """

    def __init__(self, limits: Limits, forget: Callable[[RunKey], None]) -> None:
        self.limits = limits
        self.forget = forget
        self.marks = Marks()
        self.reopenable: dict[RunKey, Parked] = {}  # interrupted, the one that was closed first first
        self.bytes = 0  # of the records of reopenable runs

    def get(self, key: RunKey) -> Closed | None:
        """How a run was closed; None: it was not, or long ago."""
        return self.marks.get(key)

    def add(self, key: RunKey, closed: Closed, parked: Parked | None = None) -> None:
        """Remember a run; `parked` where it can be reopened."""
        self.marks.add(key, closed)
        if parked is not None:
            self.reopenable[key] = parked
            self.bytes += parked.size
        self._keep_within_limits()

    def take_over(self, marks: Marks, reopenable: Mapping[RunKey, Parked]) -> None:
        """Remember what another worker did; `reopenable` are among the `marks`, in any order."""
        self.marks = marks.by_age()
        self.reopenable = {key: reopenable[key] for key in self.marks if key in reopenable} if reopenable else {}
        self.bytes = sum(parked.size for parked in self.reopenable.values())
        self._keep_within_limits()

    def _keep_within_limits(self) -> None:
        while len(self.marks) > self.limits.closed_runs and (first := self.marks.oldest()) is not None:
            self._drop(first[0])
        while self.bytes > self.limits.reopen_bytes:
            oldest = next(iter(self.reopenable))
            self._no_more(oldest)
            self.forget(oldest)

    def reopen(self, key: RunKey) -> None:
        """A run is open again; its records are still needed."""
        self.marks.remove(key)
        self._no_more(key)

    def expire(self, now: int) -> list[tuple[RunKey, Closed]]:
        """Forget what is too old to matter at `now` (broker ms) -> the marks that are to be removed."""
        while self.reopenable:
            key = next(iter(self.reopenable))
            closed = self.marks.get(key)
            if closed is not None and now - closed.at <= self.limits.reopen_ms:
                break
            self._no_more(key)
            self.forget(key)
        expired = []
        while (oldest := self.marks.oldest()) is not None:
            key, closed = oldest
            if now - closed.at <= self.limits.dedupe_ms:
                break
            self._drop(key)
            expired.append((key, closed))
        return expired

    def _drop(self, key: RunKey) -> None:
        self.marks.remove(key)
        if self._no_more(key):
            self.forget(key)

    def _no_more(self, key: RunKey) -> bool:
        parked = self.reopenable.pop(key, None)
        if parked is not None:
            self.bytes -= parked.size
        return parked is not None

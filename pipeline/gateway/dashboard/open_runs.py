"""The runs that are open now, and the end of their text, from the records of the events topic. Pure.

Times are epoch ms. Memory is bounded: the runs that were silent for longest are forgotten first, and only the last TAIL
characters of a run's text are held.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from pipeline.dialects.live_text import text_of
from pipeline.gateway.dashboard.figures import Series, like

RUNS: Final = 10_000
TAIL: Final = 160  # characters
NAME: Final = 200  # characters of a name that are held

Key = tuple[str, str]


@dataclass(slots=True)
class OpenRun:
    """One run; `started_at` is the broker's time of the first record that was read of it."""

    thread_id: str
    run_id: str
    agent_id: str
    agent_name: str | None
    model: str | None
    tenant: str | None
    started_at: int
    last_at: int
    events: int = 0
    text: str = ""

    @property
    def series(self) -> Series:
        """The series that its figures belong to."""
        return Series(self.model, self.agent_id, self.tenant)


class OpenRuns:
    """The runs between their first record and their turn."""

    def __init__(self, idle_ms: int, runs: int = RUNS) -> None:
        self._idle = idle_ms
        self._most = runs
        self._open: OrderedDict[Key, OpenRun] = OrderedDict()  # ordered by last record, the oldest first
        self._closed: OrderedDict[Key, None] = OrderedDict()  # late records of these open no run

    def take(self, envelope: dict[str, Any], at: int) -> OpenRun:
        """Take a record of the events topic -> its run. A record with an `end` closes it."""
        key = (envelope["thread_id"], envelope["run_id"])
        info = envelope.get("run") or {}
        run = self._open.get(key)
        if run is None:
            agent = envelope["agent_id"][:NAME]
            run = OpenRun(key[0], key[1], agent, None, None, envelope.get("tenant"), at, at)
            if key in self._closed:
                return run
            self._open[key] = run
        self._open.move_to_end(key)
        run.last_at = max(at, run.last_at)
        run.events += len(envelope["events"])
        run.agent_name = _name(info.get("agent_name")) or run.agent_name
        run.model = _name(info.get("model_name")) or run.model
        if text := text_of(envelope["dialect"], envelope["events"]):
            run.text = (run.text + text)[-TAIL:]
        if envelope.get("end") is not None:
            self.close(*key)
        if len(self._open) > self._most:
            self._open.popitem(last=False)
        return run

    def close(self, thread_id: str, run_id: str) -> None:
        """Close a run."""
        key = (thread_id, run_id)
        self._open.pop(key, None)
        self._closed[key] = None
        if len(self._closed) > self._most:
            self._closed.popitem(last=False)

    def expire(self, now: int) -> None:
        """Forget runs that were silent for the assembler's idle timeout."""
        while self._open:
            key, run = next(iter(self._open.items()))
            if now - run.last_at < self._idle:
                return
            del self._open[key]

    def of(self, only: Series, limit: int) -> tuple[int, list[OpenRun]]:
        """-> the number of open runs that match `only`, and the `limit` of them that started last."""
        found = [run for run in self._open.values() if like(run.series, only)]
        return len(found), sorted(found, key=lambda run: (-run.started_at, run.thread_id, run.run_id))[:limit]


def _name(value: object) -> str | None:
    return value[:NAME] if isinstance(value, str) and value else None

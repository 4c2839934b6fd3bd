"""The runs that are open now, and the end of their text, from the records of the events topic. Pure.

A run is its tenant, its thread and its id: what another tenant sends under the same ids is another run. Times are epoch
ms. Memory is bounded: of too many runs, the one that was silent for longest is forgotten among those of the tenant that
has the most, so that nobody can push another tenant's out; only the last TAIL characters of a run's text are held.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pipeline.dialects.live_text import text_of
from pipeline.gateway.dashboard.figures import Series, like
from topics.thread_key import ThreadKey

RUNS: Final = 10_000
TAIL: Final = 160  # characters
NAME: Final = 200  # characters of a name that are held

Key = tuple[ThreadKey, str]


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
    def thread(self) -> ThreadKey:
        """The thread that it is of."""
        return ThreadKey(self.thread_id, self.tenant)

    @property
    def series(self) -> Series:
        """The series that its figures belong to."""
        return Series(self.model, self.agent_id, self.tenant)


class OpenRuns:
    """The runs between their first record and their turn."""

    def __init__(self, idle_ms: int, runs: int = RUNS) -> None:
        self._idle = idle_ms
        self._most = runs
        self._open: dict[str | None, OrderedDict[Key, OpenRun]] = {}  # by tenant, ordered by last record
        self._count = 0
        self._closed: OrderedDict[Key, None] = OrderedDict()  # late records of these open no run

    def take(self, envelope: dict[str, Any], at: int) -> OpenRun:
        """Take a record of the events topic -> its run. A record with an `end` closes it."""
        thread, run_id = ThreadKey.of(envelope["thread_id"], envelope.get("tenant")), envelope["run_id"]
        key = (thread, run_id)
        info = envelope.get("run") or {}
        run = self._of(thread.tenant).get(key)
        if run is None:
            agent = envelope["agent_id"][:NAME]
            run = OpenRun(thread.thread_id, run_id, agent, None, None, thread.tenant, at, at)
            if key in self._closed:
                return run
            self._open.setdefault(thread.tenant, OrderedDict())[key] = run
            self._count += 1
        self._open[thread.tenant].move_to_end(key)
        run.last_at = max(at, run.last_at)
        run.events += len(envelope["events"])
        run.agent_name = _name(info.get("agent_name")) or run.agent_name
        run.model = _name(info.get("model_name")) or run.model
        if text := text_of(envelope["dialect"], envelope["events"]):
            run.text = (run.text + text)[-TAIL:]
        if envelope.get("end") is not None:
            self.close(*key)
        if self._count > self._most:
            most = max(self._open.values(), key=len)
            self._forget(next(iter(most)))
        return run

    def close(self, thread: ThreadKey, run_id: str) -> None:
        """Close a run."""
        key = (thread, run_id)
        self._forget(key)
        self._closed[key] = None
        if len(self._closed) > self._most:
            self._closed.popitem(last=False)

    def expire(self, now: int) -> None:
        """Forget runs that were silent for the assembler's idle timeout."""
        for runs in list(self._open.values()):
            for key, run in list(runs.items()):
                if now - run.last_at < self._idle:
                    break
                self._forget(key)

    def of(self, only: Series, limit: int) -> tuple[int, list[OpenRun]]:
        """-> the number of open runs that match `only`, and the `limit` of them that started last."""
        found = [run for run in self._all(only.tenant) if like(run.series, only)]
        return len(found), sorted(found, key=lambda run: (-run.started_at, run.thread_id, run.run_id))[:limit]

    def _of(self, tenant: str | None) -> OrderedDict[Key, OpenRun]:
        return self._open.get(tenant, OrderedDict())

    def _all(self, tenant: str | None) -> Iterator[OpenRun]:
        some = self._open.values() if tenant is None else [self._of(tenant or None)]
        return (run for runs in some for run in runs.values())

    def _forget(self, key: Key) -> None:
        runs = self._of(key[0].tenant)
        if runs.pop(key, None) is None:
            return
        self._count -= 1
        if not runs:
            del self._open[key[0].tenant]


def _name(value: object) -> str | None:
    return value[:NAME] if isinstance(value, str) and value else None

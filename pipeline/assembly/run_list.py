"""The runs that the assembler has open, from what it reads and writes: events and state. Pure; times in broker ms.

A run is open from its first record to its `end`, or to the mark with which the assembler closes it, on its deadline or
on its dialect's own end. Records of the events topic before the committed offset are not needed: what they brought to
a run that is still open is in its segments on the state topic. Both topics may be read in any order: whether a run is
over is asked of its newest offset and of its mark, as a restarted assembler does.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pipeline.assembly.marks import Marks
from pipeline.assembly.usual_silence import UsualSilence
from topics import state
from topics.state import RunKey, Segment
from turnmill.envelope import decode
from turnmill.errors import InvalidRecord

RUNS: Final = 20_000
CLOSED: Final = 10_000  # runs that may go on, which are remembered
MARKS: Final = 500_000
NAME: Final = 200  # characters of a name that are held
SHARE: Final = 20  # of a tenant's runs, one in so many goes where there is no more room


@dataclass(slots=True, eq=False)
class ListedRun:
    """One run. `events`: up to the newest one that was seen; `offset`: of its newest record."""

    key: RunKey
    agent_id: str
    dialect: str
    started_at: int
    last_at: int
    agent_name: str | None = None
    model: str | None = None
    external_id: str | None = None
    events: int = 0
    last_event: str | None = None
    offset: int = -1
    ended: bool = False
    longest: int | None = None  # silence; None where the run was not seen from its beginning


class RunList:
    """The open runs. Where there are more than `most`, of the tenant that has most those go that spoke last: they are
    taken up again with their next record. `left_out` counts them.
    """

    def __init__(self, reopen_ms: int, usual: UsualSilence, most: int = RUNS) -> None:
        self.usual = usual
        self.left_out = 0
        self._reopen = reopen_ms
        self._most = most
        self._open: dict[RunKey, ListedRun] = {}
        self._closed: OrderedDict[RunKey, ListedRun] = OrderedDict()
        self._marks = Marks()
        self._segments: dict[bytes, RunKey] = {}  # the run of each, by their keys on the state topic
        self._spilled: Counter[RunKey] = Counter()  # how many of these each run has

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[ListedRun]:
        return iter(self._open.values())

    def take_event(self, value: bytes | None, offset: int, at: int) -> None:
        """A record of the events topic. What is malformed opens no run."""
        with suppress(InvalidRecord):
            self._take(decode(value), offset, at)

    def take_state(self, key: bytes | None, value: bytes | None) -> None:
        """A record of the state topic. What is malformed changes nothing."""
        with suppress(InvalidRecord):
            if value is None:
                self._remove(key or b"")
                return
            run, entry = state.decode(key or b"", value)
            if isinstance(entry, Segment):
                self._take_segment(key or b"", run, entry)
                return
            known = self._marks.get(run)
            if known is None or entry.rank > known.rank:
                self._marks.add(run, entry)
                if len(self._marks) > MARKS:
                    self._marks.remove(self._marks.of_most())
            self._settle(run)

    def _take(self, envelope: dict[str, Any], offset: int, at: int) -> None:
        key = RunKey(envelope.get("tenant"), envelope["thread_id"], envelope["run_id"])
        closed, last = self._marks.get(key), envelope["seq"] + len(envelope["events"]) - 1
        if closed is not None and (
            offset <= closed.offset
            or closed.complete
            or closed.cut
            or last <= closed.seq
            or at - closed.at > self._reopen
        ):
            return
        self._fold(key, envelope, offset, at)
        self._settle(key)

    def _take_segment(self, name: bytes, key: RunKey, segment: Segment) -> None:
        """Take a run's records, which stand for those on the events topic."""
        known = key in self._open or key in self._closed
        for value in segment.records:
            with suppress(InvalidRecord):
                run = self._fold(key, decode(value), segment.last_offset, segment.at)
                run.started_at = min(run.started_at, segment.clocks.opened)
                if not known:
                    run.longest = None  # a segment does not hold the times of its records
        if name not in self._segments:
            self._segments[name] = key
            self._spilled[key] += 1
        self._settle(key)

    def _fold(self, key: RunKey, envelope: dict[str, Any], offset: int, at: int) -> ListedRun:
        run = self._open.get(key) or self._closed.get(key)
        seq, events = envelope["seq"], envelope["events"]
        if run is None:
            run = ListedRun(key, envelope["agent_id"][:NAME], envelope["dialect"], at, at)
            run.longest = 0 if seq == 0 else None
        info = envelope.get("run") or {}
        run.agent_name = _name(info.get("agent_name")) or run.agent_name
        run.model = _name(info.get("model_name")) or run.model
        run.external_id = _name(info.get("external_id")) or run.external_id
        if run.longest is not None and not run.ended:
            run.longest = max(run.longest, at - run.last_at)
        run.started_at = min(at, run.started_at)
        run.last_at = max(at, run.last_at)
        run.offset = max(offset, run.offset)
        if seq + len(events) > run.events:
            run.events, run.ended = seq + len(events), False
            run.last_event = (kind_of(events[-1]) if events else None) or run.last_event
        if seq + len(events) == run.events and envelope.get("end") is not None:  # an older end was gone on from
            run.ended = True
        self._open[key] = run
        return run

    def _settle(self, key: RunKey) -> None:
        """Put a run where it belongs."""
        run = self._open.get(key)
        if run is None:
            return
        closed = self._marks.get(key)
        if closed is None or (run.offset > closed.offset and not (closed.complete or closed.cut)):
            if not run.ended:
                self._closed.pop(key, None)
                self._keep_within_bounds()
                return
            closed = None
        del self._open[key]
        if run.longest is not None and key not in self._closed:
            self.usual.add((key.tenant, run.agent_id), run.longest)
        if closed is None or not (closed.complete or closed.cut):
            self._closed[key] = run
        if len(self._closed) > CLOSED:
            self._closed.popitem(last=False)

    def _remove(self, name: bytes) -> None:
        """A tombstone. A run that has lost all of its segments was given up."""
        key = self._segments.pop(name, None)
        if key is not None:
            self._spilled[key] -= 1
            if not self._spilled[key]:
                del self._spilled[key]
                self._open.pop(key, None)
        with suppress(InvalidRecord):
            if (mark := state.mark_of(name)) is not None:
                self._marks.remove_entry(*mark)

    def _keep_within_bounds(self) -> None:
        if len(self._open) <= self._most:
            return
        tenants = Counter(key.tenant for key in self._open)
        tenant = max(tenants, key=lambda one: tenants[one])
        theirs = sorted((run for run in self if run.key.tenant == tenant), key=lambda run: run.last_at)
        for run in theirs[-(len(theirs) // SHARE + 1) :]:
            del self._open[run.key]
            self.left_out += 1


def kind_of(event: Any) -> str | None:
    """What an event's wire calls it: its `type`, or the name under which it was sent."""
    if not isinstance(event, dict):
        return None
    return next((found for name in ("type", "event", "method", "object") if (found := _name(event.get(name)))), None)


def _name(value: object) -> str | None:
    return value[:NAME] if isinstance(value, str) and value else None

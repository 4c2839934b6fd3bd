"""The runs of the events topic, and which of them the assembler has open, derived from events and state. Pure.

Times in broker ms.

A run is open from its first record to its `end`, or to the mark with which the assembler closes it, at a deadline or at
the end of its stream. Records of the events topic before the committed offset are not needed: if their run is still
open, they are in its segments on the state topic. Both topics may be read in any order: whether a run is over follows
from its newest offset and its mark, as in a restarted assembler.

Finished runs are remembered for a while, too: they may go on, and readers of their threads need to know where they
began.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pipeline.assembly.marks import Marks
from pipeline.assembly.usual_silence import UsualSilence
from pipeline.policies.pools import OPEN_RUNS, OVER_RUNS, SEGMENTS
from topics import state
from topics.state import Closed, RunKey, Segment
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord
from turnmill.labels import pairs
from turnmill.limits import LISTED_MARKS, NAME_CHARACTERS
from turnmill.remembered import Remembered
from turnmill.wire.envelope import decode

PER_RUN, PER_CHARACTER = 600, 4  # bytes of memory of a run, and of each character of its names
SHED_FRACTION: Final = 20  # finished runs older than the window are looked for so often within a window
REMOVED_FRACTION: Final = 20  # one in so many of a tenant's runs is removed if there is no more room


@dataclass(slots=True, eq=False)
class ListedRun:
    """One run.

    `events`: their number up to the newest one seen; `offset`: of its newest record; `first`: offset of the first
    record seen in `partition`, or named by a segment; `elsewhere`: the same of other partitions, where a producer
    scattered the run; `seq`: of the first event seen; `segments`: on the state topic.
    """

    key: RunKey
    agent_id: str
    dialect: str
    started_at: int
    last_at: int
    first: int
    seq: int
    agent_name: str | None = None
    model: str | None = None
    external_id: str | None = None
    labels: tuple[tuple[str, str], ...] = ()  # (kind, label), of the run's first record
    imported: bool = False
    events: int = 0
    last_event: str | None = None
    offset: int = -1
    ended: bool = False
    longest: int | None = None  # longest silence; None if the run was not seen from its beginning
    counted: bool = False  # `longest` was added to the usual silence of its agent
    text: str = ""  # the end of its text, kept while a client follows the run
    partition: int = 0
    elsewhere: dict[int, int] | None = None
    segments: int = 0

    @property
    def thread(self) -> ThreadKey:
        """The run's thread."""
        return ThreadKey.of(self.key.thread_id, self.key.tenant)

    @property
    def firsts(self) -> dict[int, int]:
        """The offset of the first record seen in each partition."""
        return {self.partition: self.first, **(self.elsewhere or {})}

    def begins(self, partition: int, offset: int) -> None:
        """Take the place of a record that may be the first."""
        if partition == self.partition:
            self.first = min(offset, self.first)
        else:
            self.elsewhere = {**(self.elsewhere or {}), partition: min(offset, self.firsts.get(partition, offset))}


class RunList:
    """The open runs.

    Beyond their bytes, those with the newest records are removed, of the tenant whose runs take most: their next record
    adds them again. `left_out` counts them.

    Finished runs, longest silence first, are removed after `window` ms, or beyond the bytes of `over`.
    """

    def __init__(self, reopen_ms: int, usual: UsualSilence) -> None:
        self.usual = usual
        self.left_out = 0
        self.window = reopen_ms
        self.over: Remembered[RunKey, ListedRun] = Remembered(OVER_RUNS, _size)  # longest silence first
        self.now = 0  # broker ms of the newest record
        self._reopen = reopen_ms
        self._shed_at = 0
        self._open: Remembered[RunKey, ListedRun] = Remembered(OPEN_RUNS, _size)
        self._of_id: dict[str, dict[RunKey, ListedRun]] = {}  # thread id -> open and finished runs
        self._marks = Marks()
        self._segments: Remembered[bytes, RunKey] = Remembered(SEGMENTS)  # key on the state topic -> run

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[ListedRun]:
        return iter(self._open)

    def of_thread(self, thread: ThreadKey, since: int) -> dict[str, ListedRun]:
        """Return a thread's runs that are open or had a record since then, by id, in the order in which they began."""
        runs = [
            run
            for key, run in self._of_id.get(thread.thread_id, {}).items()
            if (key.tenant or None) == thread.tenant and (run.last_at >= since or self.is_open(key))
        ]
        return {run.key.run_id: run for run in sorted(runs, key=lambda run: (run.started_at, run.first))}

    def threads(self, thread_id: str, since: int) -> set[ThreadKey]:
        """Return the threads with this id that have such runs, one for each tenant."""
        runs = self._of_id.get(thread_id, {}).items()
        return {run.thread for key, run in runs if run.last_at >= since or self.is_open(key)}

    def take_event(self, value: bytes | None, offset: int, at: int, partition: int = 0) -> None:
        """Take a record of the events topic. A malformed one opens no run."""
        with suppress(InvalidRecord):
            self.take(decode(value), offset, at, partition)

    def take(
        self, envelope: dict[str, Any], offset: int, at: int, partition: int = 0, *, past: bool = False
    ) -> ListedRun:
        """Take a decoded record of the events topic, and return its run.

        `past`: it is before the committed offset, and opens no run.
        """
        key = RunKey(envelope.get("tenant"), envelope["thread_id"], envelope["run_id"])
        self.now = max(self.now, at)
        closed, last = self._marks.get(key), envelope["seq"] + len(envelope["events"]) - 1
        late = closed is not None and (
            offset <= closed.offset
            or closed.complete
            or closed.cut
            or last <= closed.seq
            or at - closed.at > self._reopen
        )
        run = self._known(key)
        if run is not None and late and not past:
            return run
        run = self._fold(run, key, envelope, offset, at, partition)
        if past or late:
            if not self.is_open(key):
                self._retire(run)
        else:
            self._list_as_open(run, offset)
            self._retire_if_over(run, closed)
        return run

    def take_state(self, key: bytes | None, value: bytes | None, partition: int = 0) -> None:
        """Take a record of the state topic, whose partitions are those of events. A malformed one changes nothing."""
        with suppress(InvalidRecord):
            if value is None:
                self._remove(key or b"")
                return
            run, entry = state.decode(key or b"", value)
            if isinstance(entry, Segment):
                self._take_segment(key or b"", run, entry, partition)
                return
            known = self._marks.get(run)
            if known is None or entry.rank > known.rank:
                self._marks.add(run, entry)
                while self._marks.shares.total > LISTED_MARKS:
                    self._marks.remove(self._marks.of_most())
            self._look_at(run)

    def _take_segment(self, name: bytes, key: RunKey, segment: Segment, partition: int) -> None:
        """Take a run's records from the state topic, in place of those on the events topic."""
        known = self._known(key)
        for value in segment.records:
            with suppress(InvalidRecord):
                run = self._fold(self._known(key), key, decode(value), segment.first_offset, segment.at, partition)
                self._list_as_open(run, segment.last_offset)
                run.started_at = min(run.started_at, segment.clocks.opened)
                if known is None:
                    run.longest = None  # a segment does not have the times of its records
        if self._segments.get("", name) is None and (known := self._known(key)) is not None:
            self._segments.put("", name, key)
            known.segments += 1
        self._look_at(key)

    def _known(self, key: RunKey) -> ListedRun | None:
        return self._open.get(key.tenant, key) or self.over.get(key.tenant, key)

    def is_open(self, key: RunKey) -> bool:
        """Return True for a run that the worker still assembles."""
        return self._open.get(key.tenant, key) is not None

    def _fold(
        self, run: ListedRun | None, key: RunKey, envelope: dict[str, Any], offset: int, at: int, partition: int
    ) -> ListedRun:
        """Update a run by a record, and return it; `run` None: this is the first record seen of it."""
        seq, events = envelope["seq"], envelope["events"]
        if run is None:
            run = ListedRun(key, envelope["agent_id"][:NAME_CHARACTERS], envelope["dialect"], at, at, offset, seq)
            run.longest, run.partition = 0 if seq == 0 else None, partition
            self._of_id.setdefault(key.thread_id, {})[key] = run
        if info := envelope.get("run"):
            run.agent_name = _name(info.get("agent_name")) or run.agent_name
            run.model = _name(info.get("model_name")) or run.model
            run.external_id = _name(info.get("external_id")) or run.external_id
            run.imported = run.imported or info.get("imported") is True
            if told := pairs(info):
                run.labels = tuple(told)
                if self.is_open(key):
                    self._open.put(key.tenant, key, run)  # it has become larger
        if run.longest is not None and not run.ended:
            run.longest = max(run.longest, at - run.last_at)
        run.started_at = min(at, run.started_at)
        run.last_at = max(at, run.last_at)
        run.begins(partition, offset)
        run.seq = min(seq, run.seq)
        if seq + len(events) > run.events:
            run.events, run.ended = seq + len(events), False
            run.last_event = (kind_of(events[-1]) if events else None) or run.last_event
        if seq + len(events) == run.events and envelope.get("end") is not None:  # an older end does not count
            run.ended = True
        return run

    def _list_as_open(self, run: ListedRun, offset: int) -> None:
        """Add a run to the open ones; `offset`: of a record that the assembler applies."""
        run.offset = max(offset, run.offset)
        self.over.pop(run.key.tenant, run.key)
        if not self.is_open(run.key):
            self._open.put(run.key.tenant, run.key, run)

    def _look_at(self, key: RunKey) -> None:
        if (run := self._open.get(key.tenant, key)) is not None:
            self._retire_if_over(run, self._marks.get(key))

    def _retire_if_over(self, run: ListedRun, closed: Closed | None) -> None:
        """Keep a run among the open ones, or move it to the finished ones; `closed`: its mark."""
        goes_on = closed is None or (run.offset > closed.offset and not (closed.complete or closed.cut))
        if goes_on and not run.ended:
            run.counted = False
            self._keep_within_bounds()
            return
        if run.longest is not None and not run.counted and not run.imported:
            run.counted = True
            self.usual.add((run.key.tenant, run.agent_id), run.longest)
        self._retire(run)

    def _retire(self, run: ListedRun) -> None:
        """Remember a run that is not open, or not listed, for a while."""
        tenant, key = run.key.tenant, run.key
        self._open.pop(tenant, key)
        self.over.pop(tenant, key)
        forgotten = self.over.put(tenant, key, run)
        if self.now - self._shed_at > self.window // SHED_FRACTION:
            self._shed_at = self.now
            forgotten += self.over.shed(lambda run: run.last_at < self.now - self.window)
        for known in forgotten:
            of_id = self._of_id[known.key.thread_id]
            del of_id[known.key]
            if not of_id:
                del self._of_id[known.key.thread_id]

    def _remove(self, name: bytes) -> None:
        """Take a tombstone. A run that has lost all its segments was given up."""
        key = self._segments.pop("", name)
        if key is not None and (run := self._known(key)) is not None:
            run.segments -= 1
            if not run.segments and self.is_open(key):
                self._retire(run)
        with suppress(InvalidRecord):
            if (mark := state.mark_of(name)) is not None:
                self._marks.remove_entry(*mark)

    def _keep_within_bounds(self) -> None:
        if self._open.shares.total <= self._open.size:
            return
        theirs = sorted((run for _, run in self._open.of(self._open.shares.most())), key=lambda run: run.last_at)
        for run in theirs[-(len(theirs) // REMOVED_FRACTION + 1) :]:
            self._retire(run)
            self.left_out += 1


def _size(run: ListedRun) -> int:
    names = [*filter(None, run.key), *(label for _, label in run.labels)]
    return PER_RUN + PER_CHARACTER * sum(map(len, names))


def kind_of(event: Any) -> str | None:
    """Return the type of an event on its wire, or the event name under which it was sent."""
    if not isinstance(event, dict):
        return None
    for name in ("type", "event", "method", "object"):
        if kind := _name(event.get(name)):
            return kind
    return None


def _name(value: object) -> str | None:
    return value[:NAME_CHARACTERS] if isinstance(value, str) and value else None

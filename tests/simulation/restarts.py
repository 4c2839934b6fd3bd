"""What a restart must not change: one partition's log is played twice, by a core that lives on, and by one that is
built again and again from what it has written, as a worker does that takes the partition over.

Both get the same batches and the same ticks, so whatever depends on time has to come out the same: the time of a run's
opening, of its hole and of its stream's end, and what is read again behind the floor of some other run.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.restored_state import RestoredState
from tests.simulation.broker import Entry
from tests.simulation.wire import WIRES
from topics import json_text, state
from topics.state import Segment
from topics.turn_record import TurnRecord

TICK: Final = 700  # ms of the broker's clock
QUIET: Final = (*range(TICK, 9_000, TICK), 50_000)  # ms behind the last record: every deadline passes
RESTARTS: Final = 0.2  # odds of one before each step

Turn = tuple[int, str | None, str, int]  # the broker's time at which it was handed over, tenant, turn_id, revision
Step = tuple[int, Sequence[StoredRecord]]  # the broker's time, and what is read then; nothing: a tick


def steps(log: Sequence[Entry], rng: random.Random) -> Iterator[Step]:
    """The log in batches, and ticks where nothing comes for long enough."""
    at, now = 0, log[0].timestamp
    while at < len(log):
        for passed in range(now + TICK, log[at].timestamp, TICK):
            yield passed, ()
        some = log[at : at + rng.randint(1, 4)]
        at, now = at + len(some), some[-1].timestamp
        yield now, [StoredRecord(entry.value, entry.offset, entry.timestamp, entry.key) for entry in some]
    yield from ((now + passed, ()) for passed in QUIET)


class Assembled:
    """A core, the state topic that it writes, and what has come out of it: turns, and the values of dead letters."""

    def __init__(self, limits: Limits, start: int) -> None:
        self.limits = limits
        self.core = Partition(WIRES, limits, start)
        self.now = 0
        self.read: list[StoredRecord] = []
        self.entries: dict[str, bytes] = {}
        self.turns: dict[Turn, TurnRecord] = {}
        self.dead: set[bytes] = set()

    def step(self, now: int, records: Sequence[StoredRecord]) -> None:
        """Read, or let time pass."""
        self.now = now
        self.read += records
        if records:
            self.core.feed(records)
        else:
            while not self.core.tick(now):
                self._take()
            self.core.spill()
        self._take()

    def restart(self) -> None:
        """Another worker takes over what is written, and reads on from the floor."""
        restored = RestoredState()
        for name, value in self.entries.items():
            restored.take(name.encode(), value)
        self.core = Partition(WIRES, self.limits, self.core.floor())
        self.core.restore(restored)
        self.core.feed(self.read)
        self._take()

    def _take(self) -> None:
        out = self.core.take_out()
        self.entries.update(out.segments)
        for record in out.turns:
            self.turns[self.now, record.get("tenant") or None, record["turn_id"], record["revision"]] = record
        for name in (name for unbuilt in out.unbuilt for name in unbuilt.segments):
            _, segment = state.decode(name.encode(), self.entries[name])
            self.dead.update(segment.records if isinstance(segment, Segment) else ())
        self.dead.update(refused.record.value or b"" for refused in out.dead)
        for name, value in out.marks:
            if value is None:
                self.entries.pop(name, None)
            else:
                self.entries[name] = value


def changed(log: Sequence[Entry], limits: Limits, rng: random.Random) -> str | None:
    """What restarts change in the outcome of a log; None: nothing."""
    if not log:
        return None
    steady, restarted = Assembled(limits, log[0].offset), Assembled(limits, log[0].offset)
    for now, records in steps(log, rng):
        steady.step(now, records)
        if rng.random() < RESTARTS:
            restarted.restart()
        restarted.step(now, records)
    return _difference(steady.turns, restarted.turns) or _more("dead letters", steady.dead, restarted.dead)


def _difference(right: Mapping[Turn, TurnRecord], found: Mapping[Turn, TurnRecord]) -> str | None:
    for turn, record in right.items():
        if turn in found and _said(found[turn]) != _said(record):
            return f"the turn {turn} is {_said(found[turn])[:600]} instead of {_said(record)[:600]}"
    return _more("turns", {*right}, {*found})


def _more(what: str, right: set[Any], found: set[Any]) -> str | None:
    if right == found:
        return None
    return f"{what}: {list(right - found)!r:.300} lack, {list(found - right)!r:.300} are new"


def _said(record: TurnRecord) -> str:
    return json_text.dumps(record)

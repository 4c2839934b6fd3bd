"""Schedules of a partition, and the host that plays them.

Records come with holes, twice, in other batches, late or never, between the looks at the clock, spills and restarts of
the worker. After a restart it has room for all that the state topic holds, or for none of it. While the records of
parked runs are read, other records come.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import strategies as st

from pipeline.assembly.limits import Limits
from pipeline.assembly.parked_runs import park
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import Refused, StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.results import Parked
from tests.support.partitions import built, taken
from tests.support.toy import START, THREAD, TOYS, envelope
from topics import telemetry, turn_record
from turnmill.wire.envelope import encode

EVENTS: Final = 8  # of a run
LIMITS: Final = Limits(gap_ms=300, idle_ms=1000, run_ms=5000, grace_ms=50, spill_ms=100, reopen_ms=3000)


@dataclass(frozen=True)
class Sent:
    """A record of the thread that all tenants have."""

    tenant: str | None
    run_id: str
    seq: int
    count: int
    end: str | None
    extras: bool  # what is not of the usual kind of record
    more: bool = False  # the next record comes in the same batch

    def value(self, *, empty: bool = False) -> bytes:
        """`empty`: without a tenant the record says that it has an empty one."""
        events = [self._event(number) for number in range(self.seq, self.seq + self.count)]
        more: dict[str, Any] = {} if self.tenant is None else {"tenant": self.tenant}
        if self.tenant is None and empty:
            more["tenant"] = ""
        if self.end is not None:
            more["end"] = self.end
        if self.extras:
            more |= {"run": {"model_name": f"model of {self.tenant} {self.run_id}"}, "dt": None}
        return encode({**envelope(self.seq, events, run_id=self.run_id), **more})

    def _event(self, number: int) -> Any:
        said = f"{self.tenant} {self.run_id} {number}"
        return {
            2: {"type": "usage", "data": {"output_tokens": number}},
            3: {"type": "refuse"},
            4: "no object",
            5: {"type": "usage", "data": {"input_tokens": number}},
            6: {"type": "text", "text": said + "x" * 150},
            EVENTS - 1: {"type": "finish"},
        }.get(number, {"type": "text", "text": said})


Step = Sent | int | str  # a record, a time that passes (ms), or what the worker does
TIMELY: Final = ("time", "die", "die without room")  # a run that waits to be built has no deadlines meanwhile


@st.composite
def schedules(draw: st.DrawFn, tenants: Sequence[str | None], does: Sequence[str]) -> list[Step]:
    """Records of these tenants, and what a worker does. Most records follow on those before; so one of another tenant's
    might, if their runs were taken for one.
    """
    steps: list[Step] = []
    following: dict[tuple[str | None, str], int] = {}
    reading = False
    for _ in range(draw(st.integers(0, 40))):
        others = [one for one in ("time", *does) if not (reading and one in TIMELY)]
        what = draw(st.sampled_from(["record"] * 6 + others))
        if what == "time":
            steps.append(draw(st.sampled_from([0, 40, 120, 400, 1500, 4000])))
        elif what == "record":
            tenant, run_id = draw(st.sampled_from(tenants)), draw(st.sampled_from(["r", "r", "s"]))
            seq = following.get((tenant, run_id), 0) if draw(st.integers(0, 3)) else draw(st.integers(0, EVENTS))
            end = draw(st.sampled_from([None] * 6 + ["complete", "aborted"]))
            count = draw(st.integers(0, min(3, EVENTS - seq)))
            if not count and end is None:  # it says nothing, so it is new each time it is read
                continue
            extras, more = draw(st.sampled_from([False, False, True])), draw(st.booleans())
            steps.append(Sent(tenant, run_id, seq, count, end, extras, more))
            following[tenant, run_id] = seq + count
        elif what == "read":
            steps.append("build" if reading else "read")
            reading = not reading
        else:
            steps.append(what)
    return steps


@dataclass
class Host:
    """A partition's host, and all that the partition has handed over; `state`: what the state topic has.

    Without `parking` a worker has room for all open runs. `reading`: the records of those runs in `due` are read, which
    are parked and over.
    """

    limits: Limits
    parking: bool = False
    partition: Partition = field(init=False)
    now: int = START
    reading: bool = False
    due: list[Parked] = field(default_factory=list)
    log: list[StoredRecord] = field(default_factory=list)
    turns: set[bytes] = field(default_factory=set)
    telemetry: set[bytes] = field(default_factory=set)
    dead: list[Refused] = field(default_factory=list)
    state: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.partition = Partition(TOYS, self.limits, 0)

    def read(self, value: bytes, offset: int) -> None:
        """A record that comes now."""
        self.log.append(StoredRecord(value, offset, self.now, THREAD.encode()))
        self.partition.feed(self.log[-1:])

    def wait(self, milliseconds: int, *, tick: bool = True) -> None:
        """Time passes. `tick`: the worker looks at the clock then."""
        self.now += milliseconds
        if tick:
            self.partition.tick(self.now)

    def do(self, what: str) -> None:
        """What the worker does."""
        if what == "spill":
            self.partition.spill()
        elif what in ("die", "die without room"):
            self.take()
            self._restart(room=what == "die" or not self.parking)
        elif what in ("read", "build"):
            self.reading = what == "read"
        elif self.parking:
            assert what == "park"
            self.take()
            park(self.partition, 0)
            assert not self.partition.runs.open

    def take(self) -> None:
        """Deliver what there is."""
        if not self.reading:
            self.partition.out.parked[:0], self.due = self.due, []
            built(self.partition, self.state)
        out = taken(self.partition)
        self.due += out.parked
        assert (out.unbuilt, self.partition.ends.awaited.keys()) == ([], {parked.run for parked in self.due})
        assert self.reading or not self.due
        self.turns |= {turn_record.encode(turn) for turn in out.turns}
        self.telemetry |= {telemetry.encode(record) for record in out.telemetry}
        self.dead += out.dead
        for name, value in (*out.segments, *out.marks):
            if value is None:
                self.state.pop(name, None)
            else:
                assert self.state.get(name, value) == value, "a fact was changed"
                self.state[name] = value

    def _restart(self, *, room: bool) -> None:
        remembered, floor = RestoredState(TOYS, 10**9 if room else 0), self.partition.floor()
        for name, value in self.state.items():
            remembered.take(name.encode(), value)
        self.partition = Partition(TOYS, self.limits, floor)
        self.partition.restore(remembered)
        self.partition.feed([record for record in self.log if record.offset >= floor])


def play(host: Host, steps: Sequence[Step], tenants: Collection[str | None], *, empty: bool = False) -> Host:
    """The host after the records of these tenants, when all runs are over; those of others leave holes in the log.

    `empty`: every other record without a tenant says that it has an empty one.
    """
    batched = False
    for offset, step in enumerate(steps):
        batched = batched and not isinstance(step, str)
        if isinstance(step, Sent):
            if step.tenant in tenants:
                host.read(step.value(empty=empty and offset % 2 == 0), offset)
            batched = step.more
        elif isinstance(step, str):
            host.do(step)
        else:
            host.wait(step, tick=not batched)
        if not batched:  # else the host has not seen it yet
            host.take()
    for _ in range(3):
        host.wait(3000)
        host.take()
    assert host.partition.open_runs() == 0
    return host

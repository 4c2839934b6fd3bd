"""Tenants whose threads and runs have the same ids: each gets what it would get alone, whatever the others send.

Records come with holes, twice, in other batches, late or never, between the looks at the clock, spills and restarts of
the worker. What comes out is compared with what comes out of each tenant's own records at the same offsets and times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.restored_state import RestoredState
from tests.support.partitions import taken
from tests.support.toy import START, TOYS, envelope
from threadmill.envelope import encode
from topics import telemetry, turn_record

TENANTS: Final = [None, "acme", "evil"]
EVENTS: Final = 8  # of a run
LIMITS: Final = Limits(gap_ms=300, idle_ms=1000, run_ms=5000, grace_ms=50, spill_ms=100, reopen_ms=3000)


@dataclass(frozen=True)
class Sent:
    tenant: str | None
    run_id: str
    seq: int
    count: int
    end: str | None
    extras: bool  # what is not of the usual kind of record

    def value(self, *, empty: bool) -> bytes:
        """`empty`: without a tenant the record says that it has an empty one."""
        events = [_event(self.tenant, self.run_id, number) for number in range(self.seq, self.seq + self.count)]
        more: dict[str, Any] = {} if self.tenant is None else {"tenant": self.tenant}
        if self.tenant is None and empty:
            more["tenant"] = ""
        if self.end is not None:
            more["end"] = self.end
        if self.extras:
            more |= {"run": {"model_name": f"model of {self.tenant}"}, "dt": None}
        return encode({**envelope(self.seq, events, run_id=self.run_id), **more})


Step = Sent | int | str  # a record, a time that passes (ms), or what the worker does


def _event(tenant: str | None, run_id: str, number: int) -> dict[str, Any]:
    if number == EVENTS - 1:
        return {"type": "finish"}
    if number % 3 == 2:
        return {"type": "usage", "data": {"output_tokens": number}}
    if number == 4:
        return {"type": "refuse"}
    return {"type": "text", "text": f"{tenant} {run_id} {number}"}


@st.composite
def schedules(draw: st.DrawFn) -> list[Step]:
    """Most records follow on those before; so one of another tenant's might, if their runs were taken for one."""
    steps: list[Step] = []
    following: dict[tuple[str | None, str], int] = {}
    for _ in range(draw(st.integers(0, 40))):
        what = draw(st.sampled_from(["record"] * 6 + ["time", "spill", "die"]))
        if what == "time":
            steps.append(draw(st.sampled_from([0, 40, 120, 400, 1500, 4000])))
        elif what == "record":
            tenant, run_id = draw(st.sampled_from(TENANTS)), draw(st.sampled_from(["r", "r", "s"]))
            seq = following.get((tenant, run_id), 0) if draw(st.integers(0, 3)) else draw(st.integers(0, EVENTS))
            end = draw(st.sampled_from([None] * 6 + ["complete", "aborted"]))
            count = draw(st.integers(0, min(3, EVENTS - seq)))
            if not count and end is None:  # it says nothing, so it is new each time it is read
                continue
            steps.append(Sent(tenant, run_id, seq, count, end, draw(st.sampled_from([False, False, True]))))
            following[tenant, run_id] = seq + count
        else:
            steps.append(what)
    return steps


@dataclass
class Results:
    """All that was handed over; the state topic as it stands in the end."""

    turns: set[bytes] = field(default_factory=set)
    telemetry: set[bytes] = field(default_factory=set)
    dead: set[tuple[int, str]] = field(default_factory=set)
    state: dict[str, bytes] = field(default_factory=dict)

    def take(self, partition: Partition) -> None:
        out = taken(partition)
        self.turns |= {turn_record.encode(turn) for turn in out.turns}
        self.telemetry |= {telemetry.encode(record) for record in out.telemetry}
        self.dead |= {(refused.record.offset, refused.detail) for refused in out.dead}
        assert not out.unbuilt
        for name, value in (*out.segments, *out.marks):
            if value is None:
                self.state.pop(name, None)
            else:
                assert self.state.get(name, value) == value, "a fact was changed"
                self.state[name] = value

    def __or__(self, other: Results) -> Results:
        assert not self.state.keys() & other.state.keys()
        return Results(
            self.turns | other.turns,
            self.telemetry | other.telemetry,
            self.dead | other.dead,
            self.state | other.state,
        )


def played(steps: list[Step], *only: str | None, empty: bool = False) -> Results:
    """What a worker makes of the records of these tenants; those of the others leave holes in the log."""
    results, log, now = Results(), [], START
    partition = Partition(TOYS, LIMITS, 0)
    for offset, step in enumerate([*steps, 3000, 3000, 3000]):
        if isinstance(step, Sent):
            if step.tenant in only:
                log.append(StoredRecord(step.value(empty=empty and offset % 2 == 0), offset, now, b"key"))
                partition.feed(log[-1:])
        elif isinstance(step, int):
            now += step
            partition.tick(now)
        elif step == "spill":
            partition.spill()
        else:
            results.take(partition)
            remembered, floor = RestoredState(), partition.floor()
            for name, value in results.state.items():
                remembered.take(name.encode(), value)
            partition = Partition(TOYS, LIMITS, floor)
            partition.restore(remembered)
            partition.feed([record for record in log if record.offset >= floor])
        results.take(partition)
    assert partition.open_runs() == 0
    return results


ENDS: Final[tuple[list[Step], ...]] = (  # read again, behind another's open run or from the state topic
    [
        *(Sent(None, "r", 0, 0, "aborted", extras=False), 1500, 1500, Sent(None, "r", 0, 1, None, extras=False), 0, 40),
        *(Sent("acme", "r", 0, 0, "complete", extras=False), "die"),
    ],
    [
        *("spill", Sent(None, "r", 0, 1, None, extras=False), Sent("acme", "r", 1, 0, "complete", extras=False)),
        *(Sent("acme", "r", 1, 1, None, extras=False), 400, "die"),
    ],
    [
        *(Sent(None, "r", 0, 0, "aborted", extras=False), Sent(None, "r", 0, 1, None, extras=False), 120),
        *(Sent("acme", "r", 0, 1, None, extras=False), "die", "spill", "die"),
    ],
    [
        *(Sent("acme", "r", 0, 1, None, extras=False), Sent(None, "r", 0, 0, "aborted", extras=False)),
        *(Sent(None, "r", 1, 1, None, extras=False), 400, "die"),
    ],
)


@settings(max_examples=300, deadline=None)
@example(steps=ENDS[0], empty=False)
@example(steps=ENDS[1], empty=False)
@example(steps=ENDS[2], empty=False)
@example(steps=ENDS[3], empty=False)
@given(steps=schedules(), empty=st.booleans())
def test_each_gets_what_it_would_get_alone(steps: list[Step], empty: bool) -> None:  # noqa: FBT001
    together = played(steps, *TENANTS, empty=empty)
    alone = Results()
    for tenant in TENANTS:
        alone |= played(steps, tenant)
    assert together == alone

"""A parked run gives what it would give in memory: the same turns, telemetry and dead letters, whatever happens to it.

Records come with holes, twice, late or never, between the looks at the clock, spills and restarts of the worker; after
a restart the worker has room for all that the state topic holds, or for none of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.limits import Limits
from pipeline.assembly.parked_runs import park, weight
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.restored_state import RestoredState
from tests.support.partitions import built, taken
from tests.support.toy import START, TOYS, envelope
from threadmill.envelope import encode
from threadmill.errors import Reason
from topics import telemetry, turn_record

EVENTS: Final = 8  # of a run
LIMITS: Final = Limits(
    gap_ms=300,
    idle_ms=1000,
    run_ms=5000,
    grace_ms=50,
    spill_ms=100,
    reopen_ms=3000,
    run_bytes=2000,
    window_events=3,
    park_bytes=0,
)


@dataclass(frozen=True)
class Sent:
    run_id: str
    seq: int
    count: int
    end: str | None
    extras: bool
    more: bool  # the next record comes in the same batch

    def value(self) -> bytes:
        events = [_event(self.run_id, number) for number in range(self.seq, self.seq + self.count)]
        more: dict[str, Any] = {"end": self.end} if self.end is not None else {}
        if self.extras:
            more |= {"run": {"model_name": f"model of {self.run_id}"}, "dt": None}
        return encode({**envelope(self.seq, events, run_id=self.run_id), **more})


Step = Sent | int | Literal["park", "spill", "die", "die without room"]


def _event(run_id: str, number: int) -> Any:
    if number == EVENTS - 1:
        return {"type": "finish"}
    return {
        1: {"type": "usage", "data": {"output_tokens": number}},
        3: {"type": "refuse"},
        4: "no object",
        5: {"type": "usage", "data": {"input_tokens": number}},
        6: {"type": "text", "text": "x" * 150},
    }.get(number, {"type": "text", "text": f"{run_id} {number}"})


@st.composite
def schedules(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = []
    following: dict[str, int] = {}
    for _ in range(draw(st.integers(0, 40))):
        what = draw(st.sampled_from(["record"] * 6 + ["time", "spill", "park", "park", "die", "die without room"]))
        if what == "time":
            steps.append(draw(st.sampled_from([0, 40, 120, 400, 1500, 4000])))
        elif what == "record":
            run_id = draw(st.sampled_from(["r", "r", "s"]))
            seq = following.get(run_id, 0) if draw(st.integers(0, 3)) else draw(st.integers(0, EVENTS))
            end = draw(st.sampled_from([None] * 6 + ["complete", "aborted"]))
            count = draw(st.integers(0, min(3, EVENTS - seq)))
            if count or end is not None:
                extras, others = draw(st.sampled_from([False, False, True])), draw(st.booleans())
                steps.append(Sent(run_id, seq, count, end, extras, others))
                following[run_id] = seq + count
        else:
            steps.append(what)  # type: ignore[arg-type]  # of those above
    return steps


@dataclass
class Results:
    """All that was handed over."""

    turns: set[bytes] = field(default_factory=set)
    telemetry: set[bytes] = field(default_factory=set)
    dead: set[tuple[bytes | None, bytes | None, Reason]] = field(default_factory=set)


@dataclass
class Worker:
    """A partition and its host; `state`: what the state topic has."""

    partition: Partition
    results: Results = field(default_factory=Results)
    state: dict[str, bytes] = field(default_factory=dict)

    def take(self) -> None:
        built(self.partition, self.state)
        out = taken(self.partition)
        assert (out.unbuilt, out.parked, self.partition.ends.awaited) == ([], [], {})
        self.results.turns |= {turn_record.encode(turn) for turn in out.turns}
        self.results.telemetry |= {telemetry.encode(record) for record in out.telemetry}
        self.results.dead |= {(refused.record.value, refused.record.key, refused.reason) for refused in out.dead}
        for name, value in (*out.segments, *out.marks):
            if value is None:
                self.state.pop(name, None)
            else:
                assert self.state.get(name, value) == value, "a fact was changed"
                self.state[name] = value

    def restart(self, log: Sequence[StoredRecord], *, room: bool) -> None:
        remembered, floor = RestoredState(TOYS, 10**9 if room else 0), self.partition.floor()
        for name, value in self.state.items():
            remembered.take(name.encode(), value)
        self.partition = Partition(TOYS, LIMITS, floor)
        self.partition.restore(remembered)
        self.partition.feed([record for record in log if record.offset >= floor])


def played(steps: list[Step], *, parking: bool) -> Results:
    log: list[StoredRecord] = []
    now, worker, batched = START, Worker(Partition(TOYS, LIMITS, 0)), False
    for offset, step in enumerate([*steps, "spill", 3000, 3000, 3000]):
        batched = batched and not isinstance(step, str)
        if isinstance(step, Sent):
            log.append(StoredRecord(step.value(), offset, now, b"6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"))
            worker.partition.feed(log[-1:])
            batched = step.more
        elif isinstance(step, int):
            now += step
            if not batched:
                worker.partition.tick(now)
        elif step == "spill":
            worker.partition.spill()
        elif step == "park" and parking:
            worker.take()
            park(worker.partition, 0)
            assert weight(worker.partition) == 0
        elif step != "park":
            worker.take()
            worker.restart(log, room=step == "die" or not parking)
        if not batched:  # else the host has not seen it yet
            worker.take()
    assert worker.partition.open_runs() == 0
    return replace(worker.results)


@settings(max_examples=300)
@given(steps=schedules())
def test_a_parked_run_gives_what_it_would_give_in_memory(steps: list[Step]) -> None:
    assert played(steps, parking=True) == played(steps, parking=False)

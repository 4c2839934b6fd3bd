"""Parked runs: who is parked, what waits for one that is over, and what a restart holds."""

import pytest

from pipeline.assembly import spilled_run
from pipeline.assembly.limits import Limits
from pipeline.assembly.parked_runs import park, weight
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import Envelope, Record, StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.run import Run
from pipeline.assembly.run_states import SPILLED
from pipeline.assembly.spilled_run import SpilledRun
from tests.support.partitions import built, fed, remembered, taken
from tests.support.toy import START, THREAD, TOYS, Event, envelope, text
from topics import CORE
from topics import state as state_topic
from topics.state import Clocks, RunKey, Segment
from turnmill.errors import Reason
from turnmill.wire.envelope import encode


def more(partition: Partition, seq: int, events: list[Event], run_id: str = "r", **fields: object) -> None:
    value = encode({**envelope(seq, events, run_id=run_id), **fields})
    partition.feed([StoredRecord(value, partition.next, START, THREAD.encode())])


def test_the_heaviest_runs_of_the_tenant_that_holds_most_are_parked() -> None:
    partition = fed(
        *(envelope(0, text("x" * 3000), run_id=f"acme-{n}", tenant="acme") for n in range(3)),
        envelope(0, text("x" * 5000), run_id="evil-0", tenant="evil"),
    )
    park(partition, weight(partition) - 1)
    assert partition.counts.parked == 1
    assert partition.runs.spilled.keys() == {RunKey("acme", THREAD, "acme-0")}
    park(partition, 13_000)
    assert partition.runs.open.keys() == {RunKey("acme", THREAD, "acme-2")}
    park(partition, 0)
    assert (partition.runs.open, partition.runs.spilled.whole) == ({}, {})


def test_a_light_run_that_has_had_a_record_since_it_was_parked_makes_room_again() -> None:
    partition = fed(envelope(0, text("x")))
    park(partition, 0)
    parked = weight(partition)
    more(partition, 1, text("y"))
    assert (weight(partition) > 5 * parked, len(partition.runs.spilled)) == (True, 0)
    park(partition, 0)
    assert (weight(partition) < 1.2 * parked, partition.counts.parked) == (True, 1)


def test_what_waits_for_a_run_holds_the_floor() -> None:
    """Found by the simulator: a run that others had opened in between came first, so a crash lost what had waited."""
    partition = fed(envelope(0, text("a")))
    park(partition, 0)
    more(partition, 1, [], end="aborted")
    more(partition, 1, text("b"))
    more(partition, 0, text("c"), run_id="other")
    assert [len(records) for records in partition.ends.awaited.values()] == [1]
    built(partition, {})
    assert (partition.floor(), partition.counts.reopened) == (2, 1)


@pytest.mark.parametrize("parking", [False, True])
def test_a_run_that_is_over_is_closed_at_its_time_whatever_its_batch_brings_behind_it(parking: bool) -> None:  # noqa: FBT001
    """A worker reads hours of a backlog at once; a record that comes too late to reopen a run is late for all."""
    partition = fed(envelope(0, text("a")), reopen_ms=1000)
    if parking:
        park(partition, 0)
    batch = [
        (0, envelope(1, [], end="aborted")),
        (5000, envelope(0, text("b"), run_id="other")),
        (5000, envelope(1, text("c"))),
    ]
    partition.feed([StoredRecord(encode(e), 1 + n, START + ms, THREAD.encode()) for n, (ms, e) in enumerate(batch)])
    built(partition, {})
    assert [refused.reason for refused in taken(partition).dead] == [Reason.LATE_EVENT]


def test_a_stream_that_goes_on_behind_its_end_is_parked_again() -> None:
    partition = fed(envelope(0, text("a")), grace_ms=100)
    park(partition, 0)
    key = RunKey(None, THREAD, "r")
    run = partition.run_of(key, SPILLED)
    assert run is not None
    run.builder.ended, run.ended_at = "complete", START
    partition.runs.replace_spilled(key, SpilledRun.of(run))
    partition.tick(START + 1000)
    built(partition, {})
    assert (partition.open_runs(), partition.runs.spilled.whole, taken(partition).turns) == (1, {}, [])


def test_a_restart_without_room_holds_outlines() -> None:
    partition = fed(envelope(0, text("x" * 9000)), envelope(1, text("y")), open_bytes=0)
    partition.spill()
    out = taken(partition)
    found = RestoredState(TOYS, 1000)
    for name, value in out.segments:
        found.take(name.encode(), value)
    again = Partition(TOYS, Limits(), 2)
    again.restore(found)
    assert (again.open_runs(), again.runs.spilled.whole) == (1, {})
    more(again, 2, text("z"), end="complete")
    built(again, dict(out.segments))
    [turn] = taken(again).turns
    assert (turn["status"], turn["events"]) == ("complete", 3)


def test_a_run_that_a_restart_has_found_is_parked_without_being_built(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = fed(envelope(0, text("x" * 9000)), envelope(1, text("y")), open_bytes=0)
    partition.spill()
    out = taken(partition)
    again = Partition(TOYS, Limits(), 2)
    again.restore(remembered(out))
    with monkeypatch.context() as patch:
        patch.setattr(spilled_run, "rebuild", None)
        park(again, 0)
    assert (again.open_runs(), again.runs.spilled.whole, again.counts.parked) == (1, {}, 1)
    more(again, 2, text("z"), end="complete")
    built(again, dict(out.segments))
    [turn] = taken(again).turns
    assert (turn["status"], turn["events"]) == ("complete", 3)


def test_what_is_removed_from_the_state_topic_makes_room() -> None:
    partition = fed(*(envelope(0, text("x" * 500), run_id=f"small-{n}") for n in range(20)), open_bytes=0)
    partition.spill()
    found, out = RestoredState(TOYS, 20_000), taken(partition)
    for name, value in out.segments:
        found.take(name.encode(), value)
    assert len({type(kept) for kept in found.segments.values()}) == 2
    for name, _ in out.segments:
        found.take(name.encode(), None)
    assert found.room == 20_000


@pytest.mark.parametrize("room", [10**6, 0])
@pytest.mark.parametrize("goes_on", [True, False])
def test_of_a_run_that_only_a_newer_worker_can_read_each_record_becomes_a_dead_letter(
    room: int,
    goes_on: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    key, newer = RunKey(None, THREAD, "r"), encode(envelope(0, text("a"))).replace(b'"v":1', b'"v":2')
    segment = Segment(0, 0, START, Clocks(START), [newer])
    state = {state_topic.segment_key(key, segment): state_topic.encode(key, segment)}
    found = RestoredState(TOYS, room)
    for name, value in state.items():
        found.take(name.encode(), value)
    partition = Partition(TOYS, Limits(idle_ms=1000), 1)
    partition.restore(found)
    if goes_on:
        more(partition, 0, text("b"), end="complete")
    else:
        partition.tick(START + 5000)
    built(partition, state)
    out = taken(partition)
    assert [refused.record.value for refused in out.dead] == [newer]
    assert (len(out.turns), partition.open_runs()) == (int(goes_on), 0)


@pytest.mark.skipif(CORE == "compiled", reason="a compiled method can't be replaced by one that fails")
def test_a_record_that_fails_when_a_run_is_built_again_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = fed(envelope(0, text("a")), envelope(1, text("bad")), envelope(2, text("c")))
    park(partition, 0)
    out = taken(partition)
    feed = Run.feed

    def fails(run: Run, given: Envelope, record: Record) -> None:
        if "bad" in str(given["events"]):
            raise RuntimeError("an error of ours")
        feed(run, given, record)

    monkeypatch.setattr(Run, "feed", fails)
    more(partition, 3, text("d"), end="complete")
    built(partition, dict(out.segments))
    partition.tick(START + 10**6)
    built(partition, dict(out.segments))
    last = taken(partition)
    assert {refused.record.value for refused in last.dead} == {encode(envelope(1, text("bad")))}
    assert [turn["status"] for turn in last.turns] == ["interrupted"]

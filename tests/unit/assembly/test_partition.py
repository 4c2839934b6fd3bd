"""A partition of many runs: deadlines, reopening, spill and restore, the memory of closed runs, and hostile records."""

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest

from pipeline.assembly.limits import Limits
from pipeline.assembly.offline import assemble
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from tests.support.partitions import fed, partition_of, remembered, taken
from tests.support.toy import START, THREAD, TOY, TOYS, Envelope, Event, Log, envelope, right, said, text
from topics import json_text, state, turn_record
from topics.state import RunKey, Segment
from topics.turn_record import TurnRecord
from turnmill.errors import Reason
from turnmill.wire.envelope import REFUSED_BATCH, encode

KEY = RunKey(None, THREAD, "r")
MINUTE = 60_000


def reasons(partition: Partition) -> list[str]:
    return [refused.reason.value for refused in partition.out.dead]


def words(record: TurnRecord) -> list[str]:
    turn = record["turn"] or {}
    return [part["content"] for message in turn["messages"] for part in message.get("parts", ())]


def interruption(record: TurnRecord) -> str | None:
    return ((record["turn"] or {}).get("interruption") or {}).get("reason")


# ---- the usual course


def test_a_run_becomes_its_turn() -> None:
    run = [
        envelope(0, text("a"), run={"request": "hi"}),
        envelope(1, text("b", "c")),
        envelope(3, text("d"), end="complete"),
    ]
    partition = fed(*run)
    assert [turn_record.encode(record) for record in partition.out.turns] == right(run)
    assert [record["turn"]["turn_type"] for record in partition.out.turns if record["turn"]] == ["user", "agent"]
    assert (partition.open_runs(), partition.floor(), partition.next) == (0, 3, 3)
    assert (partition.counts.records, partition.counts.opened, partition.counts.closed) == (3, 1, 1)
    assert partition.counts.events == {"toy": 4}


@pytest.mark.parametrize("end", ["done", 5, [], {}, True, ""])
def test_an_end_that_is_none_is_refused_and_the_run_goes_on(end: Any) -> None:
    log = Log()
    for more in ({}, {"end": None}, {"end": end}, {"end": "complete"}):
        log.add({**envelope(min(len(log.records), 2), text("x")), **more})
    partition = partition_of(log)
    assert [(refused.record.offset, refused.reason) for refused in partition.out.dead] == [(2, Reason.NOT_AN_ENVELOPE)]
    assert [words(record) for record in partition.out.turns] == [["x", "x", "x"]]
    assert (partition.open_runs(), partition.counts.closed, partition.counts.records) == (0, 1, 4)


def test_records_that_were_seen_are_not_fed_again() -> None:
    log = Log()
    for seq in range(3):
        log.add(envelope(seq, text(str(seq))))
    partition = partition_of(log)
    partition.feed(log.records)
    assert (partition.counts.records, partition.runs.open[KEY].next) == (3, 3)


def test_the_floor_is_the_oldest_record_that_is_needed() -> None:
    log = Log()
    log.add(envelope(0, text("x"), run_id="x", end="complete"))
    log.add(envelope(0, text("a"), run_id="a"))
    log.add(envelope(0, text("b"), run_id="b"))
    log.add(envelope(1, text("a"), run_id="a"))
    partition = partition_of(log)
    assert partition.floor() == 1
    log.add(envelope(2, [], run_id="a", end="complete"))
    partition.feed(log.records)
    assert partition.floor() == 2


def test_the_thread_id_may_be_written_in_any_case() -> None:
    partition = fed(envelope(0, text("a")), envelope(1, text("b"), thread_id=THREAD.upper(), end="complete"))
    assert [words(record) for record in partition.out.turns] == [["a", "b"]]
    assert partition.out.turns[0]["thread_id"] == THREAD


def test_a_tenant_is_kept() -> None:
    partition = fed(envelope(0, text("a"), tenant="t"), envelope(1, text("b"), tenant="t", end="complete"))
    assert partition.out.turns[0]["tenant"] == "t"


def test_a_record_that_names_another_tenant_belongs_to_another_run() -> None:
    """Whoever guesses the ids of a run can neither end it, nor go on with it, nor have it."""
    acme = [envelope(0, text("a"), tenant="acme", run={"request": "secret"}), envelope(1, text("b"), tenant="acme")]
    acme += [envelope(2, text("c"), tenant="acme", end="complete")]
    log = Log()
    for number, each in enumerate(acme):
        log.add(envelope(8, [], tenant="evil", end="complete"))
        log.add(envelope(number, text("x", "y", "z"), tenant="evil"))
        log.add(envelope(number, text("x"), end="aborted"))
        log.add(each)
    partition = partition_of(log)
    assert [record for record in partition.out.turns if record.get("tenant") == "acme"] == assembled_of(acme)
    assert not any("acme" in refused.detail for refused in partition.out.dead)
    assert [record["tenant"] for record in partition.out.telemetry if record.get("tenant") == "acme"] == ["acme"]


def test_who_ends_a_run_before_it_begins_ends_his_own() -> None:
    log = Log()
    log.add(envelope(8, [], tenant="evil", end="complete"))
    acme = [envelope(seq, text(str(seq)), tenant="acme") for seq in range(9)]
    acme[-1]["end"] = "complete"
    for each in acme:
        log.add(each)
    partition = partition_of(log, gap_ms=100)
    partition.tick(START + 200)
    assert not partition.out.dead
    assert [record for record in partition.out.turns if record.get("tenant") == "acme"] == assembled_of(acme)
    assert [record["status"] for record in partition.out.turns if record.get("tenant") == "evil"] == ["interrupted"]


def assembled_of(envelopes: list[Envelope]) -> list[TurnRecord]:
    return assemble(TOYS["toy"], envelopes)[0]


# ---- deadlines


def test_a_silent_run_is_closed_and_says_why() -> None:
    log = Log()
    log.add(envelope(0, [*text("a"), {"type": "step"}]))
    partition = partition_of(log, idle_ms=1000)
    partition.tick(START + 1000)
    assert not partition.out.turns
    partition.tick(START + 1001)
    (record,) = partition.out.turns
    assert (record["status"], interruption(record), words(record)) == ("interrupted", "timeout", ["a"])
    assert partition.floor() == 1


def test_time_never_goes_back() -> None:
    partition = fed(envelope(0, text("a")), idle_ms=1000)
    partition.tick(START + 900)
    partition.tick(0)
    assert partition.now == START + 900


def test_a_run_that_lasts_too_long_is_closed() -> None:
    log = Log()
    for seq in range(10):
        log.add(envelope(seq, text("x")), at=500 * seq)
    partition = partition_of(log, idle_ms=1000, run_ms=4000)
    partition.tick(START + 4500)
    assert [interruption(record) for record in partition.out.turns] == ["timeout"]


def test_the_streams_end_closes_after_a_grace() -> None:
    log = Log()
    log.add(envelope(0, [*text("a"), {"type": "finish"}]))
    partition = partition_of(log, grace_ms=100)
    partition.tick(START + 100)
    assert not partition.out.turns
    partition.tick(START + 101)
    assert [record["status"] for record in partition.out.turns] == ["complete"]
    log.add(envelope(2, [], end="complete"), at=200)
    partition.feed(log.records)
    assert (len(partition.out.turns), partition.counts.duplicates, partition.out.dead) == (1, 0, [])


def test_an_event_within_the_grace_is_part_of_the_turn() -> None:
    log = Log()
    log.add(envelope(0, [*text("a"), {"type": "finish"}]))
    log.add(envelope(2, [{"type": "usage", "data": {"input_tokens": 3}}]), at=90)
    partition = partition_of(log, grace_ms=100)
    partition.tick(START + 150)
    assert not partition.out.turns
    partition.tick(START + 191)
    turn = partition.out.turns[0]["turn"]
    assert turn is not None
    assert turn["total_usage"] == {"input_tokens": 3}


def test_a_hole_that_stays_open_closes_with_what_is_missing() -> None:
    log = Log()
    log.add(envelope(0, [*text("a"), {"type": "step"}]))
    log.add(envelope(4, [*text("e"), {"type": "step"}]), at=10)
    partition = partition_of(log, gap_ms=100)
    partition.tick(START + 110)
    assert not partition.out.turns
    partition.tick(START + 111)
    (record,) = partition.out.turns
    assert (interruption(record), words(record), record["events"]) == ("events_lost", ["a", "e"], 4)
    assert (record["turn"] or {})["meta:missing"] == [[2, 3]]


def test_an_early_end_does_not_close_before_the_events_are_there() -> None:
    log = Log()
    log.add(envelope(0, text("a")))
    log.add(envelope(2, [], end="complete"))
    partition = partition_of(log, gap_ms=100)
    partition.tick(START + 50)
    assert not partition.out.turns
    log.add(envelope(1, text("b")), at=60)
    partition.feed(log.records)
    assert [(record["status"], words(record)) for record in partition.out.turns] == [("complete", ["a", "b"])]


def test_disorder_that_goes_on_for_long_is_no_gap() -> None:
    """There is always a hole, but never the same one for long."""
    log = Log()
    log.add(envelope(0, text("0")))
    for seq in range(1, 60, 2):
        log.add(envelope(seq + 1, text("b")), at=40 * seq)
        log.add(envelope(seq, text("a")), at=40 * seq + 60)
        log.add(envelope(seq + 3, text("b")), at=40 * seq + 65)
    partition = Partition(TOYS, Limits(gap_ms=150), 0)
    for record in log.records:
        partition.feed([record])
        partition.tick(record.timestamp)
    assert not partition.out.turns


# ---- late, and reopened


def late_log() -> Log:
    log = Log()
    log.add(envelope(0, [*text("a"), {"type": "step"}]))
    return log


def test_a_late_event_reopens_an_interrupted_turn() -> None:
    log = late_log()
    partition = partition_of(log, idle_ms=100)
    partition.tick(START + 101)
    log.add(envelope(2, [*text("b"), {"type": "finish"}], end="complete"), at=500)
    partition.feed(log.records)
    first, second = partition.out.turns
    assert (first["status"], first["revision"], second["status"], second["revision"]) == (
        "interrupted",
        0,
        "complete",
        1,
    )
    assert first["turn_id"] == second["turn_id"]
    assert words(second) == ["a", "b"]
    assert partition.counts.reopened == 1
    envelopes = [orjson.loads(record.value) for record in log.records]
    assert [said(second)] == right(envelopes)


def test_a_late_end_without_events_completes_a_turn_that_timed_out() -> None:
    log = late_log()
    partition = partition_of(log, idle_ms=100)
    partition.tick(START + 101)
    log.add(envelope(2, [], end="complete"), at=500)
    partition.feed(log.records)
    assert [(r["status"], r["revision"]) for r in partition.out.turns] == [("interrupted", 0), ("complete", 1)]


def test_doubles_do_not_reopen() -> None:
    log = late_log()
    partition = partition_of(log, idle_ms=100)
    partition.tick(START + 101)
    log.add(envelope(0, [*text("a"), {"type": "step"}]), at=500)
    log.add(envelope(1, [{"type": "step"}]), at=500)
    partition.feed(log.records)
    assert (len(partition.out.turns), partition.counts.reopened, partition.counts.duplicates) == (1, 0, 3)


def test_doubles_do_not_reopen_a_turn_with_a_hole_but_what_fills_it_does() -> None:
    log = Log()
    log.add(envelope(0, text("a")))
    log.add(envelope(2, text("c"), end="complete"))
    partition = partition_of(log, gap_ms=100)
    partition.tick(START + 101)
    log.add(envelope(2, text("c"), end="complete"), at=200)
    partition.feed(log.records)
    assert (len(partition.out.turns), partition.counts.reopened) == (1, 0)
    log.add(envelope(1, text("b")), at=300)
    partition.feed(log.records)
    assert [(words(r), r["status"], r["revision"]) for r in partition.out.turns[1:]] == [
        (["a", "b", "c"], "complete", 1)
    ]


def test_an_event_behind_a_complete_turn_is_a_dead_letter() -> None:
    partition = fed(envelope(0, text("a"), end="complete"), envelope(1, text("b")))
    assert reasons(partition) == ["late_event"]
    assert partition.out.dead[0].record.offset == 1
    assert "complete" in partition.out.dead[0].detail
    assert len(partition.out.turns) == 1
    assert partition.open_runs() == 0


def test_after_the_window_a_late_event_is_a_dead_letter() -> None:
    log = late_log()
    partition = partition_of(log, idle_ms=100, reopen_ms=1000)
    partition.tick(START + 101)
    log.add(envelope(2, text("b")), at=1102)
    partition.feed(log.records)
    assert reasons(partition) == ["late_event"]
    partition.tick(START + 1200)
    assert (partition.runs.reopenable, partition.runs._reopenable_bytes.total) == ({}, 0)
    segments = [name for name, _ in partition.out.segments]
    assert [name for name, value in partition.out.marks if value is None] == segments


def test_a_record_of_another_dialect_neither_joins_nor_reopens_a_run() -> None:
    log = late_log()
    partition = partition_of(log, idle_ms=100)
    log.add(envelope(2, text("b"), dialect="other"), at=50)
    partition.feed(log.records)
    partition.tick(START + 101)
    log.add(envelope(2, text("b"), dialect="other"), at=500)
    partition.feed(log.records)
    assert reasons(partition) == ["protocol_violation"] * 2
    assert (len(partition.out.turns), partition.counts.reopened, partition.open_runs()) == (1, 0, 0)


# ---- bounds


def test_too_many_early_events_close_the_run_once() -> None:
    log = Log()
    for seq in range(1, 200):
        log.add(envelope(seq, text("x")), at=seq)
    partition = partition_of(log, window_events=10)
    assert [interruption(record) for record in partition.out.turns] == ["events_lost"]
    assert set(reasons(partition)) == {"late_event"}
    assert len(partition.out.dead) == 199 - 11
    log.add(envelope(0, text("first")), at=300)
    partition.feed(log.records)
    assert partition.open_runs() == 1
    assert partition.runs.open[KEY].next == 12


def test_records_without_events_cant_fill_the_window_unseen() -> None:
    log = Log()
    for seq in range(1, 100):
        log.add(envelope(seq, []))
    partition = partition_of(log, window_events=10)
    assert len(partition.out.turns) == 1


def test_doubles_of_early_records_are_not_kept() -> None:
    log = Log()
    for _ in range(50):
        log.add(envelope(5, text("x")))
        log.add(envelope(0, []))
    partition = partition_of(log)
    assert len(partition.runs.open[KEY].unspilled) == 2


def test_a_first_record_far_ahead() -> None:
    partition = fed(envelope(2**53 - 2, text("x"), ts=START), gap_ms=10)
    partition.tick(START + 11)
    (record,) = partition.out.turns
    assert (record["turn"] or {})["meta:missing"] == [[0, 2**53 - 3]]
    assert record["events"] == 1


def test_a_tenant_that_closes_many_runs_makes_room_at_its_own_cost() -> None:
    log = Log()
    for number in range(4):
        log.add(envelope(0, text("a"), run_id=f"a{number}", tenant="acme", end="complete"))
    for number in range(60):
        log.add(envelope(0, text("e"), run_id=f"e{number}", tenant="evil", end="complete"))
    log.add(envelope(0, text("a"), run_id="a0", tenant="acme", end="complete"))
    partition = partition_of(log, closed_runs=20)
    assert len(partition.runs.marks) == 20
    assert [run.run_id for run in partition.runs.marks if run.tenant == "acme"] == ["a0", "a1", "a2", "a3"]
    assert [run.run_id for run in partition.runs.marks if run.tenant == "evil"] == [f"e{n}" for n in range(44, 60)]
    assert partition.counts.duplicates == 1


def test_a_tenant_that_breaks_off_many_runs_makes_room_at_its_own_cost() -> None:
    log = Log()
    for number in range(2):
        log.add(envelope(0, text("a"), run_id=f"a{number}", tenant="acme", end="aborted"))
    size = len(log.records[0].value or b"")
    for number in range(60):
        log.add(envelope(0, text("e"), run_id=f"e{number}", tenant="evil", end="aborted"))
    partition = partition_of(log, reopen_bytes=10 * size)
    assert [run.run_id for run in partition.runs.reopenable if run.tenant == "acme"] == ["a0", "a1"]
    assert size * 8 < partition.runs._reopenable_bytes.total <= 10 * size
    assert partition.runs._reopenable_bytes.total == sum(run.size for run in partition.runs.reopenable.values())


def test_only_so_many_closed_runs_are_remembered() -> None:
    log = Log()
    for number in range(30):
        log.add(envelope(0, text("a"), run_id=f"r{number}", end="complete" if number % 2 else "aborted"))
    partition = partition_of(log, closed_runs=10)
    assert len(partition.runs.marks) == 10
    assert len(partition.runs.reopenable) == 5
    assert len(partition.ends.segments._of) == 5


def test_of_closed_runs_with_long_names_fewer_are_remembered_and_no_others_for_them() -> None:
    log = Log()
    for number in range(10):
        log.add(envelope(0, text("a"), run_id=f"r{number}", end="complete", tenant="acme"))
    for number in range(30):
        log.add(envelope(0, text("a"), run_id=f"{number:02}" * 500, end="complete", tenant="evil"))
    partition = partition_of(log, closed_runs=50)
    tenants = [key.tenant for key in partition.runs.marks]
    assert tenants == ["acme"] * 10 + ["evil"] * 8


def test_interrupted_runs_can_be_reopened_while_there_is_room() -> None:
    log = Log()
    for number in range(30):
        log.add(envelope(0, text("a" * 1000), run_id=f"r{number}", end="aborted"))
    partition = partition_of(log, reopen_bytes=10_000)
    assert 0 < partition.runs._reopenable_bytes.total <= 10_000
    kept = len(partition.runs.reopenable)
    assert 5 < kept < 10
    assert len([name for name, value in partition.out.marks if value is None]) == 30 - kept
    log.add(envelope(1, text("b"), run_id="r0"))
    log.add(envelope(1, text("b"), run_id="r29"))
    partition.feed(log.records)
    assert reasons(partition) == ["late_event"]
    assert partition.counts.reopened == 1


def test_what_fills_a_hole_of_a_closed_run_is_a_dead_letter() -> None:
    """The run's records are gone, so it can't be built again; but that event was never taken."""
    log = Log()
    log.add(envelope(0, text("a")))
    log.add(envelope(2, text("c")))
    partition = partition_of(log, gap_ms=10, reopen_ms=20)
    partition.tick(START + 11)
    partition.tick(START + 40)
    assert not partition.runs.reopenable
    for seq in (0, 1, 2):
        log.add(envelope(seq, text("x")))
    partition.feed(log.records)
    assert reasons(partition) == ["late_event", "late_event"]  # of the last one nobody knows any more
    assert partition.out.dead[0].record.value == log.records[3].value
    assert partition.counts.duplicates == 1


def test_closed_runs_are_forgotten_after_the_dedupe_window() -> None:
    partition = fed(envelope(0, text("a"), end="complete"), dedupe_ms=1000)
    ((mark, _),) = partition.out.marks
    partition.tick(START + 1001)
    assert partition.out.marks[1:] == [(mark, None)]
    assert len(partition.runs.marks) == 0


# ---- spill and restore


def spilled() -> tuple[Log, Partition]:
    log = Log()
    log.add(envelope(0, text("a"), run={"request": "hi"}))
    log.add(envelope(1, [*text("b"), {"type": "usage", "data": {"input_tokens": 1}}, {"type": "refuse"}]))
    log.add(envelope(5, text("f")), at=5)
    partition = partition_of(log, spill_ms=100)
    partition.tick(START + 101)
    partition.spill()
    return log, partition


def test_a_run_that_is_open_for_long_is_spilled_and_the_floor_passes_it() -> None:
    log, partition = spilled()
    ((name, value),) = partition.out.segments
    assert name == f"{THREAD}/r#0-2.0"
    key, segment = state.decode(name.encode(), value)
    assert key == KEY
    assert isinstance(segment, Segment)
    assert segment.records == [record.value for record in log.records]
    assert (partition.floor(), partition.open_runs(), partition.runs.open) == (3, 1, {})
    partition.spill()
    assert len(partition.out.segments) == 1


def test_a_young_run_is_not_spilled() -> None:
    partition = fed(envelope(0, text("a")), spill_ms=100)
    partition.tick(START + 100)
    partition.spill()
    assert not partition.out.segments


def test_the_oldest_runs_are_spilled_where_all_hold_too_much() -> None:
    log = Log()
    for run_id in ("x", "y", "z"):
        log.add(envelope(0, text("a" * 400), run_id=run_id))
    log.add(envelope(1, text("b" * 400), run_id="x"))
    size = len(log.records[-1].value or b"")
    partition = partition_of(log, open_bytes=2 * size)
    partition.spill()
    assert [name for name, _ in partition.out.segments] == [f"{THREAD}/x#0-3.0"]
    assert (partition.floor(), partition.open_runs()) == (1, 3)
    log.add(envelope(2, text("c" * 400), run_id="x"))  # what was spilled of it counts no more
    log.add(envelope(1, text("b" * 400), run_id="y"))
    partition.feed(log.records)
    partition.spill()
    assert [name for name, _ in partition.out.segments] == [f"{THREAD}/x#0-3.0", f"{THREAD}/y#1-5.0"]
    assert list(partition.runs.open) == [(None, THREAD, "z"), (None, THREAD, "x")]


def test_text_that_was_packed_on_the_way_is_the_same() -> None:
    """Also where a surrogate pair came in two deltas, one before and one behind."""
    half, other = "\ud83d", "\ude00"
    deltas = [{"type": "text-delta", "id": "t", "delta": delta} for delta in ("a", "b", half, other, "c")]
    begin, end = {"type": "text-start", "id": "t"}, {"type": "text-end", "id": "t"}
    events = [{"type": "start"}, begin, *deltas, end, {"type": "finish"}]
    log = Log()
    log.add({**envelope(0, events[:5]), "dialect": "vercel-ai"})
    log.add({**envelope(5, events[5:]), "dialect": "vercel-ai", "end": "complete"})
    spilling, other_way = Partition(DIALECTS, Limits(open_bytes=0), 0), Partition(DIALECTS, Limits(), 0)
    spilling.feed(log.records[:1])
    spilling.spill()
    ((_, parked),) = spilling.runs.spilled.items()
    assert parked.run is not None
    assert [part.chunks for message in parked.run.builder.messages for part in message.parts] == [["ab" + half]]
    for partition in (spilling, other_way):
        partition.feed(log.records)
    assert spilling.out.turns == other_way.out.turns
    assert words(spilling.out.turns[0]) == ["ab\U0001f600c"]


REST: list[Envelope] = [envelope(4, text("e")), envelope(6, text("g"), end="complete")]


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_a_run_built_again_gives_the_same_bytes_and_says_nothing_twice(restarts: int) -> None:
    log, partition = spilled()
    envelopes = [orjson.loads(record.value) for record in log.records]
    before = taken(partition)
    assert len(before.telemetry) == 1
    assert [refused.reason for refused in before.dead] == [Reason.PROTOCOL_VIOLATION]
    outs = [before]
    for number in range(2):
        if number < restarts:
            partition = Partition(TOYS, partition.limits, len(log.records))
            partition.restore(remembered(*outs))
        log.add(REST[number], at=200 + number)
        partition.feed(log.records)
        if number == 0:
            partition.tick(START + 400)
            partition.spill()
        outs.append(taken(partition))
    after = [record for out in outs[1:] for record in out.turns]
    assert [turn_record.encode(record) for record in after] == right([*envelopes, *REST])
    assert [refused for out in outs[1:] for refused in out.dead] == []
    assert [record for out in outs[1:] for record in out.telemetry if not record.get("derived")] == []
    last = outs[-1].marks
    assert [value is None for _, value in last] == [False, True, True], "the mark goes before the tombstones"


def test_doubles_of_a_parked_run_leave_it_parked() -> None:
    log, partition = spilled()
    restored = Partition(TOYS, partition.limits, 3)
    restored.restore(remembered(partition.out))
    log.add(envelope(1, text("b")), at=200)
    restored.feed(log.records)
    assert (restored.runs.open, restored.counts.duplicates, restored.floor()) == ({}, 1, 4)


@pytest.mark.parametrize("restart", [False, True])
def test_a_parked_run_keeps_its_deadlines(restart: bool) -> None:  # noqa: FBT001
    _, partition = spilled()
    if restart:
        fresh = Partition(TOYS, replace(partition.limits, idle_ms=1000), 3)
        fresh.restore(remembered(partition.out))
        assert fresh.now == START + 5, "a partition without new records goes on from here"
        partition = fresh
    partition.tick(partition.now + 40_000)
    assert interruption(partition.out.turns[-1]) == "events_lost"
    assert partition.open_runs() == 0


def test_large_spills_go_in_parts() -> None:
    log = Log()
    for seq in range(6):
        log.add(envelope(seq, text("x" * 300_000)))
    partition = partition_of(log, spill_ms=10)
    partition.tick(START + 11)
    partition.spill()
    assert [name.rpartition("#")[2] for name, _ in partition.out.segments] == ["0-5.0", "0-5.1", "0-5.2"]
    restored = Partition(TOYS, Limits(), 6)
    restored.restore(remembered(partition.out))
    log.add(envelope(6, [], end="complete"))
    restored.feed(log.records)
    assert [turn_record.encode(r) for r in restored.out.turns] == right([orjson.loads(r.value) for r in log.records])


def test_overlapping_segments_of_two_workers() -> None:
    """One went on without knowing that it had lost the partition."""
    log = Log()
    for seq in range(6):
        log.add(envelope(seq, text(str(seq))))
    first = partition_of(log, spill_ms=0)
    zombie = Partition(TOYS, Limits(spill_ms=0), 0)
    zombie.feed(log.records[:4])
    for partition in (first, zombie):
        partition.tick(START + 1)
        partition.spill()
    restored = Partition(TOYS, Limits(), 6)
    restored.restore(remembered(zombie.out, first.out))
    log.add(envelope(6, [], end="complete"))
    restored.feed(log.records)
    assert [words(record) for record in restored.out.turns] == [["0", "1", "2", "3", "4", "5"]]


def test_a_reopened_run_that_was_spilled_is_open_after_a_restart() -> None:
    log = late_log()
    partition = partition_of(log, idle_ms=100, spill_ms=50)
    partition.tick(START + 101)
    log.add(envelope(2, [*text("b"), {"type": "step"}]), at=200)
    partition.feed(log.records)
    partition.tick(START + 260)
    partition.spill()
    restored = Partition(TOYS, partition.limits, 2)
    restored.restore(remembered(partition.out))
    assert (restored.open_runs(), list(restored.runs.marks), restored.runs.reopenable) == (1, [], {})
    restored.tick(START + 400)
    assert [(words(record), record["revision"]) for record in restored.out.turns] == [(["a", "b"], 1)]
    again = Partition(TOYS, partition.limits, 2)
    again.restore(remembered(partition.out, restored.out))
    assert (again.open_runs(), list(again.runs.marks), list(again.runs.reopenable)) == (0, [KEY], [KEY])


def test_a_run_that_was_over_before_its_mark_was_written() -> None:
    """The segments of an interrupted run were delivered, the mark was not; its last record comes again."""
    log = late_log()
    log.add(envelope(2, [], end="aborted"))
    partition = partition_of(log)
    out = taken(partition)
    out.marks.clear()
    restored = Partition(TOYS, Limits(), 0)
    restored.restore(remembered(out))
    restored.feed(log.records)
    assert [turn_record.encode(r) for r in restored.out.turns] == [turn_record.encode(r) for r in out.turns]
    assert interruption(restored.out.turns[0]) == "user_cancelled"
    waiting = Partition(TOYS, Limits(), 0)
    waiting.restore(remembered(out))
    waiting.tick(START + 10 * MINUTE)
    assert interruption(waiting.out.turns[0]) == "user_cancelled"


def test_a_complete_run_is_not_opened_again_by_what_a_dead_worker_left() -> None:
    log, partition = spilled()
    left = taken(partition)
    for each in REST:
        log.add(each)
    partition.feed(log.records)
    left.marks += [mark for mark in partition.out.marks if mark[1] is not None]  # its tombstones were not written
    restored = Partition(TOYS, partition.limits, 0)
    restored.restore(remembered(left))
    assert (restored.open_runs(), list(restored.runs.marks)) == (0, [KEY])
    assert [(name.endswith("#0-2.0"), value) for name, value in restored.out.marks] == [(True, None)]
    restored.feed(log.records)
    assert (restored.out.turns, restored.out.dead, restored.counts.opened) == ([], [], 0)


def test_a_spilled_run_of_an_unknown_dialect_stops_nothing() -> None:
    log = Log()
    log.add(envelope(0, text("a"), dialect="other"))
    old = partition_of(log, spill_ms=0)
    old.tick(START + 1)
    old.spill()
    partition = Partition({"toy": TOY}, Limits(idle_ms=10), 1)
    partition.restore(remembered(old.out))
    partition.tick(START + 100)
    assert reasons(partition) == ["unknown_dialect"]
    assert partition.out.dead[0].record.value == log.records[0].value


RAW = [
    json.dumps({**envelope(0, text("a")), "note": "\ud800 lone"}).encode(),
    json.dumps(envelope(1, [{"type": "note", "data": ["\udc00", 2**70, 1e300, "\0"]}])).encode(),
    encode(envelope(2, [{"type": "note", "data": orjson.loads("[" * 900 + "]" * 900)}])),
    json.dumps(envelope(3, text("b")), indent=1).encode(),
]


def test_records_are_spilled_byte_for_byte() -> None:
    log = Log()
    for raw in RAW:
        log.add(raw)
    partition = partition_of(log, spill_ms=0)
    assert reasons(partition) == []
    partition.tick(START + 1)
    partition.spill()
    ((name, value),) = partition.out.segments
    segment = state.decode(name.encode(), value)[1]
    assert isinstance(segment, Segment)
    assert segment.records == RAW


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("end", ["complete", "aborted"])
def test_what_json_can_barely_hold_becomes_a_turn_all_the_same(restart: bool, end: str) -> None:  # noqa: FBT001
    log = Log()
    for raw in RAW:
        log.add(raw)
    partition = partition_of(log, spill_ms=0)
    if restart:
        partition.tick(START + 1)
        partition.spill()
        fresh = Partition(TOYS, Limits(), len(RAW))
        fresh.restore(remembered(partition.out))
        partition = fresh
    log.add(envelope(4, [{"type": "step"}], end=end))
    partition.feed(log.records)
    assert reasons(partition) == []
    (record,) = partition.out.turns
    assert turn_record.decode(turn_record.encode(record))["hash"] == record["hash"]
    assert words(record) == ["a", "b"]


# ---- hostile records


def raw(value: Any) -> bytes:
    return json_text.dumps(value).encode()


def with_(**fields: Any) -> Envelope:
    return {**envelope(1, text("b")), **fields}


def without(name: str) -> Envelope:
    return {key: value for key, value in envelope(1, text("b")).items() if key != name}


DEEP: Any = orjson.loads("[" * 990 + "]" * 990)
NOT_AN_ENVELOPE = [
    *(with_(seq=value) for value in (-1, True, 1.5, "1", None, [], 2**53, 10**30)),
    *(with_(ts=value) for value in (-1, False, 1.5, "x", None, {}, 2**53)),
    *(with_(events=value) for value in (None, {}, "text", 5, True)),
    *(with_(dt=value) for value in ([], [0, 1], ["0"], [0.5], [None], [True], "0", {"a": 1}, 0)),
    *(with_(run_id=value) for value in (None, "", [], {}, 5, True, ["r"])),
    *(with_(thread_id=value) for value in (None, "", [], {}, 5, "x", THREAD + "0", THREAD.replace("-", ""), "r")),
    *(with_(agent_id=value) for value in (None, "", [], 5)),
    *(with_(dialect=value) for value in (None, "", [], 5)),
    *(with_(end=value) for value in ("over", [], {}, 5, True)),
    *(with_(run=value) for value in ([], "x", 5, True)),
    *(with_(tenant=value) for value in ([], {}, 5, True)),
    *(without(name) for name in ("thread_id", "run_id", "agent_id", "seq", "ts", "dialect", "events")),
    {**without("agent_id"), "other": "x"},
    {**without("agent_id"), "dt": None},
    {**without("seq"), "Seq": 1},
    [],
    [envelope(1, text("b"))],
    "text",
    5,
    None,
    True,
    {},
    {"events": [], "__proto__": {}},
    with_(thread_id=DEEP),
    with_(end=DEEP),
    with_(seq=DEEP),
]


@pytest.mark.parametrize("bad", NOT_AN_ENVELOPE, ids=[f"{n}" for n in range(len(NOT_AN_ENVELOPE))])
def test_what_is_no_envelope_is_a_dead_letter_and_its_neighbours_count(bad: Any) -> None:
    """In the middle of a run that is open, where the fast path sees it first; and the same where it does not."""
    value = raw(bad)
    partition = fed(envelope(0, text("a")), value, envelope(1, text("c"), end="complete"))
    assert reasons(partition) == ["not_an_envelope"]
    assert partition.out.dead[0].record.value == value
    assert [words(record) for record in partition.out.turns] == [["a", "c"]]
    assert reasons(fed(value)) == ["not_an_envelope"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "not_an_envelope"),
        (b"", "undecodable"),
        (b"\xff\xfe", "undecodable"),
        (b"{", "undecodable"),
        (b'{"v": NaN}', "undecodable"),
        (b'{"v": 1, "x": "\\ud800", "y": NaN}', "undecodable"),
        (b'{"v": 1, "x": "\\ud800", "y": 1e999}', "undecodable"),
        (b"[" * 100_000, "undecodable"),
        (b'["\\ud800"' + b"[" * 100_000, "undecodable"),
        (raw(with_(v=2)), "unsupported_version"),
        (raw(with_(v="1")), "unsupported_version"),
        (raw(with_(v=True)), "unsupported_version"),
        (raw(with_(v=DEEP)), "unsupported_version"),
        (raw(with_(v=None)), "not_an_envelope"),
        (raw(with_(dialect="esperanto")), "unknown_dialect"),
        (raw(with_(dialect="other")), "protocol_violation"),
        (raw(with_(events=text("x" * 1_100_000))), "too_large"),
    ],
)
def test_what_else_is_wrong_with_a_record(value: bytes | None, reason: str) -> None:
    partition = fed(envelope(0, text("a")), value, envelope(1, text("c"), end="complete"))
    assert reasons(partition) == [reason]
    assert partition.out.dead[0].record.value == value
    assert len(partition.out.dead[0].detail) < 300
    assert [words(record) for record in partition.out.turns] == [["a", "c"]]


@pytest.mark.parametrize("size", [100, 2_000_000])
def test_a_batch_that_was_not_unpacked_becomes_a_dead_letter_that_says_why(size: int) -> None:
    log = Log()
    log.add(envelope(0, text("a")))
    batch = StoredRecord(b"\0" * size, 1, START, None, [(REFUSED_BATCH, b"the batch t/0@1-7 is not unpacked")])
    partition = partition_of(log)
    partition.feed([batch])
    (letter,) = partition.out.dead
    assert (letter.reason, letter.detail, letter.record.value) == (
        "too_large",
        "the batch t/0@1-7 is not unpacked",
        batch.value,
    )


@pytest.mark.parametrize(
    "name", ["__proto__", "constructor", "a#b/c", "closed-1", "\0", "💥", "x" * 1_000, "null", "#0-1.0"]
)
def test_odd_names(name: str) -> None:
    log = Log()
    log.add(envelope(0, text("a"), run_id=name, agent_id=name))
    log.add(envelope(1, text("b"), run_id=name, agent_id=name))
    partition = partition_of(log, spill_ms=0)
    partition.tick(START + 1)
    partition.spill()
    restored = Partition(TOYS, Limits(), 2)
    restored.restore(remembered(partition.out))
    log.add(envelope(2, [{"type": name, name: 1}], run_id=name, agent_id=name, end="complete", run={name: 1}))
    restored.feed(log.records)
    (record,) = restored.out.turns
    assert (record["run_id"], record["agent_id"], restored.out.dead) == (name, name, [])


def test_half_of_a_surrogate_pair_is_no_name() -> None:
    partition = fed(raw(with_(run_id="\ud800")), raw(with_(agent_id="a\udfff")))
    assert reasons(partition) == ["not_an_envelope"] * 2


def test_many_bad_events_of_one_record_are_one_dead_letter() -> None:
    partition = fed(
        envelope(0, [{}, *text("a"), {"type": "refuse"}, 5]), envelope(4, [{}]), envelope(5, [], end="complete")
    )
    assert [(d.record.offset, d.reason.value) for d in partition.out.dead] == [
        (0, "invalid_event"),
        (1, "invalid_event"),
    ]
    assert partition.out.dead[0].detail.endswith("(and 2 more in this record)")
    assert [words(record) for record in partition.out.turns] == [["a"]]


def test_a_turn_that_cant_be_built_stops_nothing_and_keeps_its_records() -> None:
    log = Log()
    log.add(envelope(0, [*text("a"), {"type": "poison"}]))
    log.add(envelope(2, text("b"), end="complete"))
    log.add(envelope(0, text("c"), run_id="other", end="complete"))
    partition = partition_of(log)
    assert [words(record) for record in partition.out.turns] == [["c"]]
    assert [(d.reason.value, d.record.value) for d in partition.out.dead] == [
        ("invalid_event", log.records[0].value),
        ("invalid_event", log.records[1].value),
    ]
    assert partition.open_runs() == 0


def test_telemetry_of_what_no_event_carried() -> None:
    events: list[Event] = [
        *text("a"),
        {"type": "usage", "data": {"input_tokens": 1}},
        {"type": "step"},
        *text("b"),
        {"type": "result", "usage": {"input_tokens": 2}},
    ]
    for end in ("complete", "aborted"):
        partition = fed(envelope(0, events, end=end))
        told = [(t["type"], t["data"].get("input_tokens"), t.get("derived", False)) for t in partition.out.telemetry]
        assert told == [("data-sys-usage", 1, False), ("data-sys-usage", 2, True), ("data-sys-turn", None, True)]


def test_tokens_are_not_told_again_when_a_turn_is_replaced() -> None:
    log = Log()
    log.add(envelope(0, [*text("a"), {"type": "result", "usage": {"input_tokens": 2}}]))
    partition = partition_of(log, idle_ms=100)
    partition.tick(START + 101)
    log.add(
        envelope(2, [{"type": "step"}, *text("b"), {"type": "result", "usage": {"input_tokens": 3}}], end="complete"),
        at=200,
    )
    partition.feed(log.records)
    usage = [(t["seq"], t["data"]["input_tokens"]) for t in partition.out.telemetry if t["type"] == "data-sys-usage"]
    assert dict(usage[:1]) == dict(usage[1:2])
    assert sorted(set(usage)) == [usage[0], usage[2]]
    turns = [t["seq"] for t in partition.out.telemetry if t["type"] == "data-sys-turn"]
    assert len(set(turns)) == 2

"""Bounds in bytes of one run, and what is said of what is beyond them."""

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from tests.support.toy import TOYS, Log, envelope, text
from turnmill.errors import Reason


def test_early_records_are_bound_in_bytes_and_the_missing_one_finds_its_run() -> None:
    log = Log()
    for seq in (1, 2, 3):
        log.add(envelope(seq, text("x" * 1000)))
    partition = Partition(TOYS, Limits(window_bytes=2000), 0)
    partition.feed(log.records)
    assert [(turn["status"], turn["revision"]) for turn in partition.out.turns] == [("interrupted", 0)]
    assert [refused.reason for refused in partition.out.dead] == [Reason.LATE_EVENT]
    log.add(envelope(0, text("first")))
    log.add(envelope(3, text("x" * 1000), end="complete"))
    partition.feed(log.records)
    assert [(turn["status"], turn["revision"], turn["events"]) for turn in partition.out.turns[1:]] == [
        ("complete", 1, 4)
    ]


def test_what_comes_behind_a_cut_says_why() -> None:
    log = Log()
    for seq in range(4):
        log.add(envelope(seq, text("x" * 1000)))
    partition = Partition(TOYS, Limits(run_bytes=2500), 0)
    partition.feed(log.records)
    [turn] = partition.out.turns
    assert (turn["status"], turn["events"]) == ("interrupted", 2)
    assert [refused.record.value for refused in partition.out.dead] == [record.value for record in log.records[2:]]
    assert {refused.reason for refused in partition.out.dead} == {Reason.TOO_LARGE}
    assert all("TURNMILL_RUN_BYTES" in refused.detail for refused in partition.out.dead)
    assert partition.floor() == 4

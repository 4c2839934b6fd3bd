"""The publisher's span stays with its run, whichever way that is assembled."""

from typing import Any

import pytest

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.restored_state import RestoredState
from tests.support.toy import START, TOYS, Log, envelope, text
from turnmill.wire.traceparent import headers

SAID = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-00"
FIRST, LAST = envelope(0, text("a")), envelope(1, text("b"), end="complete")


def turns(log: Log) -> list[Any]:
    partition = Partition(TOYS, Limits(), 0)
    partition.feed(log.records)
    return list(partition.out.turns)


def test_a_header_of_the_first_record_and_no_later_one() -> None:
    log = Log()
    log.add(FIRST, headers=headers(SAID))
    log.add(LAST, headers=headers(OTHER))
    assert [turn["traceparent"] for turn in turns(log)] == [SAID]


def test_the_runs_own_word() -> None:
    log = Log()
    log.add(envelope(0, text("a"), run={"traceparent": SAID, "request": "hi"}))
    log.add({**LAST, "run": {"traceparent": OTHER}}, headers=headers(OTHER))  # the rest, from elsewhere
    assert [turn["traceparent"] for turn in turns(log)] == [SAID, SAID]


@pytest.mark.parametrize("wrong", ["\ud800", 7, [], "00-0-0-00", OTHER + "\n"])
def test_what_is_none_is_left_out_and_refuses_nothing(wrong: Any) -> None:
    log = Log()
    header = ("traceparent", str(wrong).encode("utf-8", "replace"))
    log.add(envelope(0, text("a"), run={"traceparent": wrong}), headers=[header])
    log.add(LAST)
    partition = Partition(TOYS, Limits(), 0)
    partition.feed(log.records)
    assert "traceparent" not in partition.out.turns[0]
    assert not partition.out.dead


@pytest.mark.parametrize("said", [{"headers": headers(SAID)}, {}])
def test_a_run_that_was_spilled_gives_the_same_turn_to_another_worker(said: Any) -> None:
    """The headers of its records are not on the state topic; their values are."""
    log = Log()
    log.add(FIRST if said else {**FIRST, "run": {"traceparent": SAID}}, **said)
    first = Partition(TOYS, Limits(spill_ms=100), 0)
    first.feed(log.records)
    first.tick(START + 101)
    first.spill()
    second = Partition(TOYS, Limits(), first.floor())
    remembered = RestoredState()
    for name, value in first.out.segments:
        remembered.take(name.encode(), value)
    second.restore(remembered)
    rest = log.add(LAST, at=200)
    for partition in (first, second):
        partition.feed([rest])
    assert first.out.turns == second.out.turns
    assert [turn["traceparent"] for turn in second.out.turns] == [SAID]

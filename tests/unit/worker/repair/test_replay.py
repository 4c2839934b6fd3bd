"""The core of a replay: which runs it takes, with the sub-agents that spoke in them."""

from typing import Any

from pipeline.assembly.records import StoredRecord
from pipeline.settings import Settings
from pipeline.worker.assemble.limits import limits_of
from pipeline.worker.repair.replay import Replay, Seen, Span, Stretch
from tests.property.records import envelope
from tests.support.sub_agents import delegating_run
from topics.turn_record import TurnRecord
from turnmill.wire.envelope import encode


def replayed(span: Span, records: list[tuple[int, dict[str, Any]]]) -> tuple[list[TurnRecord], Seen]:
    seen = Seen()
    core = Replay(limits_of(Settings()), Stretch(), None, span, seen, lambda _: True)
    values = [StoredRecord(encode({**fields}), offset, 1_000_000 + offset) for offset, fields in records]
    return [*core.feed(values), *core.finish()], seen


def run(first: int = 0) -> list[tuple[int, dict[str, Any]]]:
    """One event a record, at the offsets of their numbers."""
    events = delegating_run()
    last = len(events) - 1
    return [
        (n, envelope("claude-code", [event], n) | ({"end": "complete"} if n == last else {}))
        for n, event in enumerate(events)
        if n >= first
    ]


def test_a_sub_agents_turns_come_with_the_run_that_they_are_of() -> None:
    size = len(run())
    turns, seen = replayed(Span(0, size - 1, size, size), run())
    assert len({turn["thread_id"] for turn in turns}) == 2
    assert (seen.cut_runs, seen.open_runs) == (0, 0)


def test_a_sub_agents_turns_stay_away_with_a_run_that_ended_before_the_stretch() -> None:
    size = len(run())
    turns, seen = replayed(Span(0, size, size + 1, size + 1), run())
    assert turns == []
    assert (seen.cut_runs, seen.open_runs) == (0, 0)


def test_a_run_without_its_beginning_is_one_cut_run_with_its_sub_agents() -> None:
    size = len(run())
    turns, seen = replayed(Span(3, 3, size, size), run(3))
    assert turns == []
    assert (seen.cut_runs, len(seen.cut)) == (1, 1)

"""The turn records of a run say which of its events they hold: over every wire, whatever is missing, in any order."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.assembly.limits import Limits
from pipeline.assembly.offline import assemble
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from pipeline.turns.event_coverage import MAX_RANGES, Ranges, lacks_beginning
from tests.corpus.compare_wires import recordings
from tests.property.records import Envelope, envelope
from tests.support.assembled import START
from tests.support.ranges import ranges_over
from turnmill.wire.envelope import encode

RECORDED = [recording for wire in ("claude-code", "openai-agents", "langgraph") for recording in recordings(wire)]
KINDS = st.sampled_from(["text", "start", "user-turn", "agent-config", "thread-metadata", "x"])
HELD = st.sets(st.integers(0, 30), min_size=1)


def records_of(dialect: str, events: list[Any], ranges: Ranges) -> list[Envelope]:
    """A record for each range."""
    return [envelope(dialect, events[first : last + 1], first) for first, last in ranges]


# Spans have no numbers that follow each other.
@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "otel"])
@given(held=HELD, kinds=st.lists(KINDS, min_size=31, max_size=31), rng=st.randoms(use_true_random=False))
def test_whatever_is_missing(dialect: str, held: set[int], kinds: list[str], rng: random.Random) -> None:
    events: list[Any] = [{"type": kind, "title": kind} for kind in kinds]
    envelopes = records_of(dialect, events, ranges_over(held))
    doubled = [*envelopes, *rng.sample(envelopes, len(envelopes) // 2)]
    rng.shuffle(doubled)
    records, _ = assemble(DIALECTS[dialect], doubled)
    assert records
    for record in records:
        assert (record["ranges"], record["events"]) == (ranges_over(held), len(held))
        assert lacks_beginning(record) is (0 not in held)


@pytest.mark.parametrize("recording", RECORDED, ids=lambda recording: recording.stream.stem)
def test_turns_of_sub_agents_hold_what_their_run_holds(recording: Any) -> None:
    events = recording.events()
    rng = random.Random(recording.stream.stem)
    for _ in range(5):
        held = {seq for seq in range(len(events)) if rng.random() < 0.9} | {len(events) - 1}
        ranges = ranges_over(held)
        records, _ = assemble(DIALECTS[recording.dialect], records_of(recording.dialect, events, ranges))
        assert len(ranges) >= MAX_RANGES or all(record["ranges"] == ranges for record in records)
        assert {(record["ranges"][0][0], record["ranges"][-1][1]) for record in records} == {
            (ranges[0][0], ranges[-1][1])
        }


@pytest.mark.parametrize("dialect", ["thread-protocol", "vercel-ai"])
@given(first=st.sets(st.integers(0, 30), min_size=1), second=st.sets(st.integers(0, 30), min_size=1))
def test_a_run_that_is_reopened_holds_more_and_one_that_is_forgotten_begins_anew(
    dialect: str, first: set[int], second: set[int]
) -> None:
    events: list[Any] = [{"type": "start", "n": n} for n in range(31)]
    for limits, expected in (
        (Limits(), first | second),
        (Limits(reopen_ms=1, dedupe_ms=1), second),
        (Limits(closed_runs=0), second),
    ):
        partition = Partition(DIALECTS, limits, 0)
        offset, at = 0, START
        for held in (first, second):
            for one in records_of(dialect, events, ranges_over(held)):
                partition.feed([StoredRecord(encode(one), offset, at)])
                offset += 1
            at += 400_000  # longer than a run may be silent
            partition.tick(at)
            partition.tick(at + 10)
        assert not partition.out.dead or dialect == "thread-protocol"
        ranges = [record["ranges"] for record in partition.out.turns]
        assert ranges[0] == ranges_over(first)
        assert ranges[-1] == ranges_over(expected)

"""What a turn record holds of its run, and which one may take another one's place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.event_coverage import MAX_RANGES, Ranges, Verdict, Version, held_ranges, lacks_beginning, ranges_of
from tests.support.ranges import ranges_over
from turnmill.errors import InvalidRecord

KNOWN, LATE, REPLACES = Verdict.KNOWN, Verdict.LATE, Verdict.REPLACES


def seqs(ranges: Ranges) -> set[int]:
    return {seq for first, last in ranges for seq in range(first, last + 1)}


def version(held: set[int], decides: Any = 0) -> Version:
    return Version(ranges_over(held), (len(held), decides))


def record(events: int, missing: Any = None, **fields: Any) -> Any:
    turn = {} if missing is None else {"meta:missing": missing}
    return {"events": events, "turn": turn, **fields}


@pytest.mark.parametrize(
    ("events", "missing", "ranges"),
    [
        (0, [], []),
        (3, [], [[0, 2]]),
        (3, [[0, 4]], [[5, 7]]),
        (5, [[2, 3]], [[0, 1], [4, 6]]),
        (5, [[2, 3], [5, 5]], [[0, 1], [4, 4], [6, 7]]),
        (2, [[2, 9]], [[0, 1]]),  # an end without events waits behind the hole
        (0, [[0, 9]], []),
        (1, [[5, 6]], [[0, 0]]),  # more holes than events: no record of ours
    ],
)
def test_ranges_of_events_and_holes(events: int, missing: Ranges, ranges: Ranges) -> None:
    assert held_ranges(events, missing) == ranges


@given(st.sets(st.integers(0, 60)))
def test_ranges_are_those_of_the_set(held: set[int]) -> None:
    last = max(held, default=-1)
    assert held_ranges(len(held), ranges_over({*range(last)} - held)) == ranges_over(held)


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.integers(0, 2), st.integers(0, 2))
def test_a_version_is_replaced_by_one_that_holds_all_of_it(one: set[int], two: set[int], a: int, b: int) -> None:
    expected = REPLACES if one > two or (one == two and a > b) else KNOWN if one <= two else LATE
    assert version(one, a).beside(version(two, b)) is expected


def test_many_ranges_are_cut_to_one_that_reaches_over_the_rest() -> None:
    held = {*range(0, 4 * MAX_RANGES, 2)}
    ranges = held_ranges(len(held), ranges_over({*range(max(held))} - held))
    assert len(ranges) == MAX_RANGES
    assert ranges[:-1] == ranges_over(held)[: MAX_RANGES - 1]
    assert ranges[-1] == [2 * MAX_RANGES - 2, max(held)]
    cut = Version(ranges, (len(held), 0))
    more = Version(ranges, (len(held) + 1, 0))
    assert more.beside(cut) is REPLACES  # the run went on
    assert cut.beside(more) is KNOWN
    assert version(held | {1}).beside(cut) is LATE  # what the cut one holds can't be known
    assert version({*range(4 * MAX_RANGES)}).beside(cut) is REPLACES
    assert Version(ranges, (len(held), 1)).beside(cut) is REPLACES
    assert version({0, 2, 2 * MAX_RANGES + 1}).beside(cut) is KNOWN
    assert version({1}).beside(cut) is LATE


@pytest.mark.parametrize("ranges", [[], [[0, 2]], [[7, 9]], [[0, 1], [4, 4], [6, 7]]])
def test_the_ranges_that_a_record_states(ranges: Ranges) -> None:
    assert ranges_of(record(3, [[0, 1]], ranges=ranges)) == ranges


@pytest.mark.parametrize(
    "ranges", ["many", None, [3], [[3]], [[1, 0]], [[4, 5], [1, 2]], [[0, 1.5]], [[True, True]], [[-5, -1]]]
)
def test_ranges_that_are_none(ranges: Any) -> None:
    with pytest.raises(InvalidRecord, match="turn record whose ranges are"):
        ranges_of(record(3, ranges=ranges))
    with pytest.raises(InvalidRecord, match="turn record whose ranges are None"):
        ranges_of(record(3))


def test_a_record_without_the_beginning_of_its_run() -> None:
    assert lacks_beginning(record(3, ranges=[[2, 4]]))
    assert lacks_beginning(record(0, [[0, 1]], ranges=[]))
    assert not lacks_beginning(record(3, [[1, 1]], ranges=[[0, 0], [2, 3]]))
    assert not lacks_beginning(record(0, ranges=[]))
    assert not lacks_beginning(record(0, [], ranges=[]))
    assert version({2}).headless
    assert version(set()).headless
    assert not version({0, 2}).headless

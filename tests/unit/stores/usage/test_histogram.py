"""Histograms with logarithmic bins: their error, and that they add up."""

from collections import Counter
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.usage.histogram import (
    AT_ONCE,
    ERROR,
    LASTS,
    VALUES,
    Histogram,
    added,
    bin_of,
    of_times,
    percentiles,
    possible,
    text_of,
)
from pipeline.turns.times import LAST_MS

TIMES: Final = st.integers(0, LAST_MS) | st.integers(0, 100_000)
HISTOGRAMS: Final = st.dictionaries(TIMES, st.integers(1, 2**40), max_size=20).map(of_times)


@given(TIMES)
def test_a_bin_stands_for_each_of_its_times(ms: int) -> None:
    place = bin_of(ms)
    assert abs(VALUES[place] - ms) * 100 <= ERROR * ms
    assert (LASTS[place - 1] if place else -1) < ms <= LASTS[place]


def test_short_times_are_exact_and_the_longest_has_a_bin() -> None:
    assert [VALUES[bin_of(ms)] for ms in range(50)] == list(range(50))
    assert LASTS[-1] >= LAST_MS > LASTS[-2]


@given(st.lists(TIMES, min_size=1, max_size=50), st.integers(1, 100))
def test_a_percentile_is_near_the_measured_one(times: list[int], percent: int) -> None:
    exact = sorted(times)[-(-len(times) * percent // 100) - 1]
    (found,) = percentiles(of_times(Counter(times)), [percent])
    assert found is not None
    assert abs(found - exact) * 100 <= ERROR * exact


def test_nothing_has_no_percentile_and_no_text() -> None:
    assert percentiles(of_times({}), [50, 99]) == [None, None]
    assert text_of(of_times({7: 0})) == ""
    assert added(["", ""]) == 0
    assert possible(0)


@given(st.dictionaries(TIMES, st.integers(1, 2**40), min_size=1, max_size=20))
def test_a_text_holds_each_count_where_it_is(times: dict[int, int]) -> None:
    counts: Counter[int] = Counter()
    for ms, count in times.items():
        counts[bin_of(ms)] += count
    first, width, digits = text_of(of_times(times)).split(".")
    parts = [digits[at : at + int(width)] for at in range(0, len(digits), int(width))]
    assert {int(first) + n: int(part, 16) for n, part in enumerate(reversed(parts)) if int(part, 16)} == counts
    assert all(part.startswith("000") for part in parts)


@given(st.lists(HISTOGRAMS, max_size=6), st.sampled_from([1, 3, AT_ONCE]))
def test_texts_add_up(histograms: list[Histogram], times: int) -> None:
    assert added([text_of(one) for one in histograms] * times) == sum(histograms) * times


@given(HISTOGRAMS, HISTOGRAMS)
def test_what_was_added_can_be_taken_away(one: Histogram, other: Histogram) -> None:
    both = added([text_of(one), text_of(other)])
    assert text_of(both - other) == text_of(one)


@given(st.dictionaries(TIMES, st.integers(-3, 3), max_size=20))
def test_what_was_not_there_can_t_be_taken_away(times: dict[int, int]) -> None:
    counts: Counter[int] = Counter()
    for ms, count in times.items():
        counts[bin_of(ms)] += count
    assert possible(of_times(times)) == (min(counts.values(), default=0) >= 0)

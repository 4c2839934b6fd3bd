"""Histograms with logarithmic bins: their error, and that they add up."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.histogram import AT_ONCE, ERROR, LASTS, VALUES, added, bin_of, of_times, percentile, text_of
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
    found = percentile(of_times(Counter(times)), percent)
    assert found is not None
    assert abs(found - exact) * 100 <= ERROR * exact


def test_nothing_has_no_percentile_and_no_text() -> None:
    assert percentile(of_times({}), 50) is None
    assert text_of(of_times({7: 0})) == ""
    assert added(["", ""]) == Counter()


@given(st.lists(HISTOGRAMS, max_size=6), st.sampled_from([1, 3, AT_ONCE]))
def test_texts_add_up(histograms: list[Counter[int]], times: int) -> None:
    right: Counter[int] = Counter()
    for one in histograms:
        for place, count in one.items():
            right[place] += count * times
    assert added([text_of(one) for one in histograms] * times) == right


@given(HISTOGRAMS, HISTOGRAMS)
def test_what_was_added_can_be_taken_away(one: Counter[int], other: Counter[int]) -> None:
    both = added([text_of(one), text_of(other)])
    both.subtract(other)
    assert text_of(both) == text_of(one)

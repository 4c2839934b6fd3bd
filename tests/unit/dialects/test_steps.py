"""What the wires of agents share: of a text that repeats itself, the period."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dialects.steps import _period

TEXTS = st.text("ab", min_size=1, max_size=40)


def by_comparison(text: str) -> int:
    periods = (n for n in range(1, len(text) // 2 + 1) if text[n:] == text[:-n])
    return next(periods, len(text))


@given(
    TEXTS | st.builds(lambda text, times, more: text * times + text[:more], TEXTS, st.integers(1, 5), st.integers(0, 9))
)
def test_a_period_is_the_shortest_that_each_comparison_gives(text: str) -> None:
    assert _period(text) == by_comparison(text)


@pytest.mark.parametrize("text", ["a" * 200_000 + "b", "ab" * 100_000 + "b", "x".join(map(str, range(50_000)))])
def test_a_long_text_that_does_not_repeat_itself_is_read_once(text: str) -> None:
    """Compared with each of its ends, it would take hours."""
    assert _period(text) == len(text)

"""Ids of turns inside the database."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.database.ids import LATEST, NUMBERS, first_id

times = st.integers(-(2**70), 2**70)


@given(times, times)
def test_ids_sort_by_time_and_fit_into_a_column(one: int, other: int) -> None:
    first, second = sorted((one, other))
    assert 0 <= first_id(first) <= first_id(LATEST) + NUMBERS - 1 < 2**63 or first_id(first) == first_id(LATEST + 1)
    if max(first, 0) < min(second, LATEST):
        assert first_id(first) + NUMBERS - 1 < first_id(second)

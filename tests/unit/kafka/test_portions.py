"""Portions are all records, in order, and small."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.kafka.reading import portions


def size_of(records: list[Any]) -> int:
    return sum(len(record.value or b"") for record in records)


@given(st.lists(st.integers(0, 120), max_size=40), st.integers(1, 10))
def test_portions_are_all_records_in_order_and_as_large_as_they_may_be(sizes: list[int], most: int) -> None:
    whole = [SimpleNamespace(value=b"x" * size or None) for size in sizes]
    found = [list(portion) for portion in portions(whole, most, 100)]
    assert [record for portion in found for record in portion] == whole
    assert all(len(portion) == 1 or (len(portion) <= most and size_of(portion) <= 100) for portion in found)
    assert all(len(one) == most or size_of([*one, other[0]]) > 100 for one, other in pairwise(found))

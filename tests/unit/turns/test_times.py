from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.turns.times import LAST_MS, epoch_ms, iso, passed


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (1_768_928_342_002, "2026-01-20T16:59:02.002Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-5, "1970-01-01T00:00:00.000Z"),
        (LAST_MS, "9999-12-31T23:59:59.999Z"),
        (10**30, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_iso(ms: int, text: str) -> None:
    assert iso(ms) == text


@pytest.mark.parametrize(
    ("start", "end", "took"), [(5, 9, 4), (5, 5, 0), (9, 5, None), (None, 5, None), (5, None, None)]
)
def test_what_times_that_contradict_each_other_took_is_unknown(
    start: int | None, end: int | None, took: int | None
) -> None:
    assert passed(start, end) == took


@given(st.integers(0, LAST_MS))
def test_there_and_back(ms: int) -> None:
    assert epoch_ms(iso(ms)) == ms


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("2026-01-20T16:59:02.002Z", 1_768_928_342_002),
        ("2026-01-20T17:59:02.002+01:00", 1_768_928_342_002),
        ("2026-01-20T16:59:02.002", 1_768_928_342_002),
        ("2026-01-20T16:59:02.002999Z", 1_768_928_342_002),
        ("1969-12-31T23:59:59Z", 0),
        (1_768_928_342_002, 1_768_928_342_002),
        (1.9, 1),
        (0, 0),
        (-1, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**30, None),
        (True, None),
        (None, None),
        ("", None),
        ("yesterday", None),
        ([], None),
        ("0001-01-01T00:00:00+23:59", 0),
        ("9999-12-31T23:59:59.999-23:59", LAST_MS),
    ],
)
def test_epoch_ms(value: Any, ms: int | None) -> None:
    assert epoch_ms(value) == ms


@given(st.one_of(st.text(), st.floats(), st.integers(), st.datetimes().map(str)))
def test_whatever_it_is_it_can_be_written(value: Any) -> None:
    ms = epoch_ms(value)
    assert ms is None or epoch_ms(iso(ms)) == ms

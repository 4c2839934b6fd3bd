from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.usage.time_buckets import HOUR, MAX_BUCKETS, MINUTE, edges, label, moment, zone
from turnmill.errors import CallerError

BERLIN, NEW_YORK, KATHMANDU = zone("Europe/Berlin"), zone("America/New_York"), zone("Asia/Kathmandu")
NOW = 1_768_928_342_000  # 2026-01-20T16:59:02Z


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def labels(bucket: str, first: str, last: str, tz: str) -> list[str]:
    return [label(edge, zone(tz)) for edge in edges(bucket, ms(first), ms(last), zone(tz))]


def test_months_of_a_zone_begin_at_its_own_midnight_also_across_the_year_and_the_clocks_change() -> None:
    assert labels("month", "2025-12-31T23:30:00+00:00", "2026-04-01T00:00:00+00:00", "Europe/Berlin") == [
        "2026-01-01T00:00:00+01:00",
        "2026-02-01T00:00:00+01:00",
        "2026-03-01T00:00:00+01:00",
        "2026-04-01T00:00:00+02:00",
    ]
    assert labels("month", "2025-12-31T23:30:00+00:00", "2026-01-01T00:00:00+00:00", "UTC") == [
        "2025-12-01T00:00:00+00:00",
        "2026-01-01T00:00:00+00:00",
    ]
    assert labels("month", "2028-02-29T12:00:00+00:00", "2028-03-01T00:00:00+00:00", "UTC") == [
        "2028-02-01T00:00:00+00:00",
        "2028-03-01T00:00:00+00:00",
    ]


def test_days_have_23_and_25_hours_where_clocks_change() -> None:
    spring = edges("day", ms("2026-03-28T12:00:00+00:00"), ms("2026-03-30T12:00:00+00:00"), BERLIN)
    autumn = edges("day", ms("2026-10-24T12:00:00+00:00"), ms("2026-10-26T12:00:00+00:00"), BERLIN)
    assert [(b - a) // HOUR for a, b in pairwise(spring)] == [24, 23]
    assert [(b - a) // HOUR for a, b in pairwise(autumn)] == [24, 25]


def test_the_hour_that_comes_twice_is_two_buckets() -> None:
    assert labels("hour", "2026-11-01T05:10:00+00:00", "2026-11-01T07:00:00+00:00", "America/New_York") == [
        "2026-11-01T01:00:00-04:00",
        "2026-11-01T01:00:00-05:00",
        "2026-11-01T02:00:00-05:00",
    ]


def test_hours_begin_with_the_local_clock() -> None:
    assert labels("hour", "2026-01-20T10:00:00+00:00", "2026-01-20T10:20:00+00:00", "Asia/Kathmandu") == [
        "2026-01-20T15:00:00+05:45",
        "2026-01-20T16:00:00+05:45",
    ]


def test_weeks_begin_on_monday() -> None:
    assert labels("week", "2026-01-01T00:00:00+00:00", "2026-01-12T00:00:00+00:00", "UTC") == [
        "2025-12-29T00:00:00+00:00",
        "2026-01-05T00:00:00+00:00",
        "2026-01-12T00:00:00+00:00",
    ]


@given(
    st.sampled_from(["minute", "hour", "day", "week", "month"]),
    st.sampled_from(
        ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"]
    ),
    st.integers(0, 4_000_000_000_000),
    st.integers(0, 40),
)
def test_every_time_is_in_a_bucket_and_edges_ascend(bucket: str, tz: str, first: int, more: int) -> None:
    size = {"minute": MINUTE, "hour": HOUR, "day": 24 * HOUR, "week": 168 * HOUR, "month": 720 * HOUR}[bucket]
    last = first + more * size
    found = edges(bucket, first, last, zone(tz))
    assert found[0] <= first
    assert found[-1] <= last
    assert all(0 < b - a <= 2 * size for a, b in pairwise(found))
    assert last - found[-1] <= 2 * size


def test_moments() -> None:
    assert moment("2026-01-20", BERLIN, NOW) == ms("2026-01-20T00:00:00+01:00")
    assert moment("2026-01-20T10:00", NEW_YORK, NOW) == ms("2026-01-20T10:00:00-05:00")
    assert moment("2026-01-20T10:00:00Z", NEW_YORK, NOW) == ms("2026-01-20T10:00:00+00:00")
    assert moment("90m", UTC, NOW) == NOW - 90 * MINUTE
    assert moment("2w", KATHMANDU, NOW) == NOW - timedelta(weeks=2) // timedelta(milliseconds=1)


@pytest.mark.parametrize("text", ["", "yesterday", "7", "7y", "2026-13-01", "0001-01-01\0", "9" * 400, "²d"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(CallerError, match="is no time"):
        moment(text, UTC, NOW)


@pytest.mark.parametrize("name", ["", "Mars/Base", "../../etc/passwd", "/etc/localtime", "a\0b", "x" * 5000])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(CallerError, match="no time zone"):
        zone(name)


def test_too_many_buckets_and_times_outside_the_calendar_are_refused() -> None:
    with pytest.raises(CallerError, match="shorter time"):
        edges("minute", 0, (MAX_BUCKETS + 1) * MINUTE, UTC)
    with pytest.raises(CallerError, match="outside the calendar"):
        edges("month", ms("9999-12-01T00:00:00+00:00"), 2**60, UTC)
    with pytest.raises(CallerError, match="no bucket 'year'"):
        edges("year", 0, 1, UTC)

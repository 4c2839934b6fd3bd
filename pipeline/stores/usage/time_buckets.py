"""Calendar buckets in a time zone: where each begins, in epoch ms. Pure.

A day has 23 or 25 hours when clocks change, a month 28 to 31 days. So the edges are computed here, and the database
only finds the two edges around a time: its time zone tables don't matter.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from turnmill.errors import CallerError

MAX_BUCKETS: Final = 2_000  # buckets of a report
MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
AGO: Final = re.compile(r"(\d{1,6})([mhdw])")
Starts = Callable[[int, tzinfo], Iterator[int]]  # (any time, zone) -> the beginnings of buckets from there on
UNITS: Final = {"m": MINUTE, "h": HOUR, "d": 24 * HOUR, "w": 168 * HOUR}


def zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name, such as `Europe/Berlin`; its str() is the name. Raises CallerError."""
    if name == "UTC":  # also without the system's time zones
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CallerError(f"no time zone {name[:80]!r}: give an IANA name, as UTC or Europe/Berlin") from None


def moment(text: str, tz: tzinfo, now: int) -> int:
    """Return epoch ms of an ISO date or time (in `tz` by default), or `24h`, `7d` before `now`. Raises CallerError."""
    if ago := AGO.fullmatch(text):
        return max(now - int(ago[1]) * UNITS[ago[2]], 0)
    try:
        at = datetime.fromisoformat(text)
        return _ms(at if at.tzinfo is not None else at.replace(tzinfo=tz))
    except (ValueError, OverflowError):
        raise CallerError(
            f"{text[:80]!r} is no time: give a date (2026-01-20), a time (2026-01-20T10:00), or how long ago (24h, 7d)"
        ) from None


def edges(bucket: str, first: int, last: int, tz: tzinfo) -> list[int]:
    """Return the beginnings of all buckets with a time from `first` to `last`, ascending. Raises CallerError."""
    if bucket not in STARTS:
        raise CallerError(f"no bucket {bucket[:80]!r}: there are {', '.join(STARTS)}")
    starts: list[int] = []
    try:
        for start in STARTS[bucket](first, tz):
            if start > last:
                break
            starts.append(start)
            if len(starts) > MAX_BUCKETS:
                raise CallerError(
                    f"over {MAX_BUCKETS:,} buckets of a {bucket}: ask for a shorter time, or for larger buckets"
                )
    except (OverflowError, ValueError, OSError):
        raise CallerError("the time is outside the calendar: ask for one between the years 1970 and 9999") from None
    return starts


def label(start: int, tz: tzinfo) -> str:
    """Return the beginning of a bucket as ISO 8601, with its UTC offset at that time."""
    return datetime.fromtimestamp(start / 1000, tz).isoformat()


def _steps(size: int) -> Starts:
    """Return the `Starts` of minutes or hours of the local clock; the hour that autumn repeats is two buckets."""

    def start_of(at: int, tz: tzinfo) -> int:
        offset = datetime.fromtimestamp(at / 1000, tz).utcoffset() or timedelta()
        return at - (at + offset // timedelta(milliseconds=1)) % size

    def starts(first: int, tz: tzinfo) -> Iterator[int]:
        start = start_of(first, tz)
        while True:
            yield start
            start = max(start_of(start + size, tz), start + 1)

    return starts


def _dates(first_of: Callable[[date], date], following: Callable[[date], date]) -> Starts:
    """Return the `Starts` of days, weeks or months: local midnights."""

    def starts(first: int, tz: tzinfo) -> Iterator[int]:
        day = first_of(datetime.fromtimestamp(first / 1000, tz).date())
        while True:
            yield _ms(datetime.combine(day, time(), tz))
            day = following(day)

    return starts


def _ms(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


STARTS: Final[dict[str, Starts]] = {
    "minute": _steps(MINUTE),
    "hour": _steps(HOUR),
    "day": _dates(lambda day: day, lambda day: day + timedelta(days=1)),
    "week": _dates(lambda day: day - timedelta(days=day.weekday()), lambda day: day + timedelta(weeks=1)),
    "month": _dates(lambda day: day.replace(day=1), lambda day: (day.replace(day=1) + timedelta(32)).replace(day=1)),
}

"""Times: epoch milliseconds inside, ISO 8601 in UTC outside."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
LAST_MS: Final = 253_402_300_799_999  # the end of year 9999
CACHED_CHARACTERS: Final = 40  # longer texts, with more digits of a second, are not cached


FRACTIONS: Final = tuple(f".{ms:03d}Z" for ms in range(1000))  # of a second


def iso(ms: int) -> str:
    """Return '2026-01-20T16:59:02.002Z' for 1768928342002; a time out of range is clamped."""
    if not 0 <= ms <= LAST_MS:
        ms = bounded(ms)
    return _second(ms // 1000) + FRACTIONS[ms % 1000]


def bounded(ms: int) -> int:
    """Return a time or a duration clamped to the range of `iso`."""
    return ms if 0 <= ms <= LAST_MS else min(max(ms, 0), LAST_MS)  # nearly always it is in range


@lru_cache(maxsize=4096)
def _second(epoch: int) -> str:
    """Return the text of a second, cached, since turns that end at about the same time share their seconds."""
    return datetime.fromtimestamp(epoch, UTC).isoformat().removesuffix("+00:00")


def passed(start: int | None, end: int | None) -> int | None:
    """Return how many ms passed from `start` to `end`; None if either is unknown, or if they contradict each other."""
    return None if start is None or end is None or end < start else end - start


def epoch_ms(value: object) -> int | None:
    """Return epoch ms of ISO 8601 text or a number of epoch ms; None if it is neither. Naive times are UTC."""
    if isinstance(value, str):
        return _remembered(value) if len(value) <= CACHED_CHARACTERS else _moment(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if 0 <= value <= LAST_MS else None
    return None


def _moment(value: str) -> int | None:
    try:
        stamp = datetime.fromisoformat(value)
    except ValueError:
        return None
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=UTC)
    return min(max(0, (stamp - EPOCH) // MILLISECOND), LAST_MS)


_remembered: Final = lru_cache(maxsize=4096)(_moment)  # a turn has each of its times several times

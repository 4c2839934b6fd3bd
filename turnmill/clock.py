"""The time of records, turns and requests: milliseconds since 1970, as the broker counts them."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the current time, epoch ms."""
    return time.time_ns() // 1_000_000

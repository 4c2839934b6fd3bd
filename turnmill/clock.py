"""The time of records, turns and requests: milliseconds since 1970, as the broker counts them."""

import time


def now_ms() -> int:
    """Return the current time, epoch ms."""
    return time.time_ns() // 1_000_000

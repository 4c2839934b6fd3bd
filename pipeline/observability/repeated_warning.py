"""A warning that may come for each record: what is logged of it does not grow with their number."""

from __future__ import annotations

import logging
import time
from typing import Final

EVERY: Final = 60.0  # seconds between two lines of one kind


class RepeatedWarning:
    """Logs the first warning of a kind at once, and later ones at most every EVERY seconds, with the number of those
    that were left out. There are to be few kinds: each is remembered.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._kinds: dict[str, tuple[float, int]] = {}  # when the next line may come, how many were left out

    def __call__(self, kind: str, message: str, *values: object) -> None:
        """Log `message % values`, unless a line of this kind was logged just now."""
        now = time.monotonic()
        due, left_out = self._kinds.get(kind, (now, 0))
        if now < due:
            self._kinds[kind] = due, left_out + 1
            return
        self._kinds[kind] = now + EVERY, 0
        if left_out:
            message, values = f"{message} (%d more like this since the last line)", (*values, left_out)
        self._log.warning(message, *values)

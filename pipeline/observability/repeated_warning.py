"""A warning that may come for each record: its log lines are bounded, however many records there are."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

INTERVAL: Final = 60.0  # seconds


@dataclass(slots=True)
class _Kind:
    ends: float  # when its next lines may be logged
    lines: int = 0
    left_out: int = 0


class RepeatedWarning:
    """A warning that is logged at most `most` times in INTERVAL seconds for each kind.

    The first line after a pause has the number of lines that were left out. All kinds are remembered, so there must be
    few.
    """

    def __init__(self, log: logging.Logger, most: int = 1) -> None:
        self._log = log
        self._most = most
        self._kinds: dict[str, _Kind] = {}

    def __call__(
        self, kind: str, message: str, *values: object, extra: Callable[[], dict[str, Any]] | None = None
    ) -> None:
        """Log `message % values` with the fields that `extra` returns, unless enough of its kind was logged lately."""
        now = time.monotonic()
        found = self._kinds.setdefault(kind, _Kind(now + INTERVAL))
        left_out = 0
        if now >= found.ends:
            left_out, found.ends, found.lines, found.left_out = found.left_out, now + INTERVAL, 0, 0
        if found.lines >= self._most:
            found.left_out += 1
            return
        found.lines += 1
        if left_out:
            message, values = f"{message} (%d more like this since the last line)", (*values, left_out)
        self._log.warning(message, *values, extra=extra and extra())

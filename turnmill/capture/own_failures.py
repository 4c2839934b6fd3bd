"""Log our own failures in a program's process: each kind once, since the program's log is not ours."""

from __future__ import annotations

import logging
import sys


class OwnFailures:
    """A log of failures in one part of the capture. Call it in the handler of the exception."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged: set[str] = set()

    def __call__(self, message: str) -> None:
        """Log the exception that is being handled, unless one of its type was logged with this message."""
        error = sys.exc_info()[1]
        kind = f"{message} {type(error).__name__}"
        if kind not in self._logged:
            self._logged.add(kind)
            self._log.error("%s; more of the kind are not logged", message, exc_info=error)

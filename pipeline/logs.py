"""Log lines: for people on a terminal, or one JSON object a line for collectors."""

from __future__ import annotations

import logging
import sys
import time
from datetime import UTC, datetime
from typing import Final

import orjson

from pipeline.settings import Settings

# Faust, its service framework, and aiokafka tell much that is normal in a rebalance.
QUIET: Final = ("faust", "mode", "aiokafka", "kafka", "alembic.runtime.plugins")
REPEAT_AFTER: Final = 10.0  # seconds


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the error where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """-> the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


class Chatter(logging.Filter):
    """What libraries say that tells nobody anything.

    A client library's line comes once in `REPEAT_AFTER`: while the broker is away, aiokafka writes 250 lines a second.
    Services of Faust announce each start and stop under our own modules' names. And a group that has never been there
    before is no error.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """-> whether the line is written."""
        if record.levelno <= logging.INFO and str(record.msg).startswith("[^"):
            return False
        if record.name.partition(".")[0] not in QUIET:
            return True
        if (
            record.name == "aiokafka.consumer.group_coordinator"
            and "GroupCoordinatorNotAvailable" in record.getMessage()
        ):
            return False
        now, line = time.monotonic(), (record.name, str(record.msg))
        if now - self._last.get(line, -REPEAT_AFTER) < REPEAT_AFTER:
            return False
        self._last[line] = now
        return True


def set_up(settings: Settings) -> None:
    """Log to standard error as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(Chatter())
    if settings.log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(settings.log_level)))

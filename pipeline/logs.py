"""Log lines: for people on a terminal, or one JSON object a line for collectors."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import orjson

from pipeline.settings import Settings

# Faust, its service framework, and aiokafka tell much that is normal in a rebalance.
QUIET = ("faust", "mode", "aiokafka", "kafka")


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


def set_up(settings: Settings) -> None:
    """Log to standard error as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(settings.log_level)))

"""Log lines: for people on a terminal, or one JSON object a line for collectors."""

from __future__ import annotations

import logging
import sys
import time
from datetime import UTC, datetime
from typing import Final

from pipeline.settings import Settings
from topics import json_text
from topics import traceparent as w3c

# Faust, its service framework, and aiokafka tell much that is normal in a rebalance; OpenTelemetry of a collector
# that is away.
QUIET: Final = ("faust", "mode", "aiokafka", "kafka", "alembic.runtime.plugins", "opentelemetry")
REPEAT_AFTER: Final = 10.0  # seconds
IDS: Final = ("thread_id", "run_id", "trace_id")


def of_run(thread_id: object, run_id: object, traceparent: object) -> dict[str, object]:
    """`extra` of a line that is about a run, as far as that is known: thread_id, run_id, and the trace's id."""
    span = w3c.parse(traceparent)
    names = {"thread_id": thread_id, "run_id": run_id, "trace_id": None if span is None else span.trace_id}
    return {name: value for name, value in names.items() if isinstance(value, str)}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the ids of the run that it is about, the error."""

    def format(self, record: logging.LogRecord) -> str:
        """-> the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: vars(record)[name] for name in IDS if name in vars(record)}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json_text.line(line)


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

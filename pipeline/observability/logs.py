"""The format of log lines: text for people on a terminal, or one JSON object a line for collectors."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Final

from pipeline.observability.audit import audit
from topics import json_text
from turnmill.kafka.client_log import QUIET, Chatter

IDS: Final = ("thread_id", "run_id", "trace_id")


class JsonFormatter(logging.Formatter):
    """A formatter of one JSON object a line.

    Its fields: time, level, logger, message, the ids of the run that the line is about, the error, and the name of this
    process if a worker has several.
    """

    def __init__(self, process: str | None = None) -> None:
        super().__init__()
        self._process = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._process,
        }
        line |= {name: vars(record)[name] for name in IDS if name in vars(record)}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json_text.line(line)


def set_up(level: str, form: str, process: str | None = None) -> None:
    """Log to standard error. `level`, `form`: see TURNMILL_LOG_LEVEL and TURNMILL_LOG_FORMAT.

    `process`: the name of this process, if a worker has several.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(Chatter())
    if form == "json":
        handler.setFormatter(JsonFormatter(process))
    else:
        who = "" if process is None else f"[{process}] "
        handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)-7s {who}%(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    audit.setLevel(logging.INFO)  # independent of the level of all others
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))

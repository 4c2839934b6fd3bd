"""What services say: the format of log lines, how many of them, and why a port can't be opened.

Lines are text for people on a terminal, or one JSON object a line for collectors.
"""

import errno
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pipeline.observability.audit import audit
from pipeline.policies.pools import WARNINGS
from topics import json_text
from turnmill.kafka.client_log import QUIET, Chatter
from turnmill.remembered import Remembered

IDS: Final = ("thread_id", "run_id", "trace_id")
INTERVAL: Final = 60.0  # seconds
KIND_BYTES: Final = 150  # of memory, of what is known of a kind


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


@dataclass(slots=True)
class _Kind:
    ends: float  # when its next lines may be logged
    lines: int = 0
    left_out: int = 0


class RepeatedWarning:
    """A warning that is logged at most `most` times in INTERVAL seconds for each kind.

    The first line after a pause has the number of lines that were left out.
    """

    def __init__(self, log: logging.Logger, most: int = 1) -> None:
        self._log = log
        self._most = most
        self._kinds: Remembered[str, _Kind] = Remembered(WARNINGS, lambda _: KIND_BYTES)

    def __call__(
        self, kind: str, message: str, *values: object, extra: Callable[[], dict[str, Any]] | None = None
    ) -> None:
        """Log `message % values` with the fields that `extra` returns, unless enough of its kind was logged lately."""
        now = time.monotonic()
        if (state := self._kinds.get("", kind)) is None:
            self._kinds.put("", kind, state := _Kind(now + INTERVAL))
        left_out = 0
        if now >= state.ends:
            left_out, state.ends, state.lines, state.left_out = state.left_out, now + INTERVAL, 0, 0
        if state.lines >= self._most:
            state.left_out += 1
            return
        state.lines += 1
        if left_out:
            message, values = f"{message} (%d more like this since the last line)", (*values, left_out)
        self._log.warning(message, *values, extra=extra and extra())


def why_not_listening(host: str, port: int, error: OSError, prefix: str = "TURNMILL") -> str:
    """Return why a port could not be opened, as a sentence; the settings are `prefix` with _HOST and _PORT."""
    where = f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use by another program: set {prefix}_PORT to another port, or to 0 for a free one"
    if error.errno == errno.EACCES:
        return f"{where} is not allowed to this user: set {prefix}_PORT to a port above 1023"
    why = error.strerror or error
    return f"can't listen on {where} ({why}): set {prefix}_HOST to an address of this machine"

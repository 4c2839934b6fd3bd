"""Filters for log lines that repeat while a broker or a store is away: of client libraries, and ours."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from turnmill.pools import LOGGED
from turnmill.remembered import Remembered

Passes = Callable[[logging.LogRecord], bool]

LOGGERS: Final = (
    "aiokafka",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.producer.producer",
    "aiokafka.producer.sender",
)
# Faust, its service framework and aiokafka log many normal steps of a rebalance; OpenTelemetry logs each failed attempt
# to reach a collector.
QUIET: Final = ("faust", "mode", "aiokafka", "kafka", "alembic.runtime.plugins", "opentelemetry")
REPEAT_AFTER: Final = 60.0  # seconds
AWAY: Final = (  # texts by which to recognize the lines about a broker that does not answer
    *("Unable connect", "Unable to update metadata", "Unable to request metadata", "NodeNotReady"),
    *("KafkaConnectionError", "Marking the coordinator dead"),
)
NEEDLESS: Final = (
    ("aiokafka.consumer.group_coordinator", "GroupCoordinatorNotAvailable"),  # the group does not exist yet
    ("aiokafka.consumer.fetcher", "Not authorized to read"),  # aiokafka raises an error as well
)
_passes: ContextVar[Passes | None] = ContextVar("passes", default=None)


@contextmanager
def client_log(passes: Passes) -> Iterator[None]:
    """Write only log lines that pass, within the block and in tasks that are started in it.

    The filter depends on the context and not on the logger, since the program may have other Kafka clients.
    """
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_passing)
    token = _passes.set(passes)
    try:
        yield
    finally:
        _passes.reset(token)


def below_warning(record: logging.LogRecord) -> bool:
    """Return True if a line is below WARNING; failures are raised as errors of ours instead of logged."""
    return record.levelno < logging.WARNING


def _passing(record: logging.LogRecord) -> bool:
    passes = _passes.get()
    return passes is None or passes(record)


class Chatter(logging.Filter):
    """Drops repeated and useless log lines.

    A client library's line passes once in `REPEAT_AFTER`, with the number of similar lines dropped since. While the
    broker is away, aiokafka writes 250 lines a second, of eight kinds, which count as one here. Identical warnings of
    any other logger also pass once in that time: while the store is away, each part warns at each attempt. Lines by
    which Faust's services announce starts and stops under the names of our modules are dropped, and NEEDLESS ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: Remembered[str, tuple[float, int]] = Remembered(LOGGED)  # when, and how many were dropped since

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the line is to be written."""
        if record.levelno <= logging.INFO and str(record.msg).startswith("[^"):
            return False
        ours = record.name.partition(".")[0] not in QUIET
        if ours and (record.levelno < logging.WARNING or record.name == "pipeline.audit"):
            return True
        text = record.getMessage()
        if any(record.name == name and words in text for name, words in NEEDLESS):
            return False
        away = not ours and any(words in text for words in AWAY)
        now, line = time.monotonic(), "away" if away else f"{record.name}: {text if ours else record.msg}"
        last, dropped = self._lines.pop("", line) or (-REPEAT_AFTER, 0)
        if now - last < REPEAT_AFTER:
            self._lines.put("", line, (last, dropped + 1))
            return False
        self._lines.put("", line, (now, 0))
        if dropped:
            record.msg, record.args = f"{text} ({dropped} more like this since the last line)", ()
        return True


RARELY: Final = Chatter().filter  # else, while a broker is away, each attempt adds a line to the agent's log

"""Filters for log lines that come without end while something is away: of client libraries, and our own."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Passes = Callable[[logging.LogRecord], bool]

LOGGERS: Final = (
    "aiokafka",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.producer.producer",
    "aiokafka.producer.sender",
)
# Faust, its service framework and aiokafka log much that is normal in a rebalance; OpenTelemetry logs each try to
# reach a collector that is away.
QUIET: Final = ("faust", "mode", "aiokafka", "kafka", "alembic.runtime.plugins", "opentelemetry")
REPEAT_AFTER: Final = 60.0  # seconds
REMEMBERED: Final = 1_000  # lines that differ; then all are forgotten
AWAY: Final = (  # in the lines that say, each in its own words, that a broker does not answer
    *("Unable connect", "Unable to update metadata", "Unable to request metadata", "NodeNotReady"),
    *("KafkaConnectionError", "Marking the coordinator dead"),
)
NEEDLESS: Final = (
    ("aiokafka.consumer.group_coordinator", "GroupCoordinatorNotAvailable"),  # the group does not exist yet
    ("aiokafka.consumer.fetcher", "Not authorized to read"),  # it raises an error, too
)
_passes: ContextVar[Passes | None] = ContextVar("passes", default=None)


@contextmanager
def client_log(passes: Passes) -> Iterator[None]:
    """Within the block, and in the tasks that begin in it, only lines that pass are written.

    By context and not by logger: the program around us may have clients of its own.
    """
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_passing)
    token = _passes.set(passes)
    try:
        yield
    finally:
        _passes.reset(token)


def below_warning(record: logging.LogRecord) -> bool:
    """Return True if a line reports no failure; failures are raised as errors of ours."""
    return record.levelno < logging.WARNING


def _passing(record: logging.LogRecord) -> bool:
    passes = _passes.get()
    return passes is None or passes(record)


class Chatter(logging.Filter):
    """Drops lines that help nobody.

    A client library's line passes once in `REPEAT_AFTER`, with the number of those like it that were dropped since:
    while the broker is away, aiokafka writes 250 lines a second, of eight kinds, which count as one here. So does a
    warning of anybody else that says the very same, as each part does at each try while the store is away. Services of
    Faust announce each start and stop under the names of our own modules: these lines are dropped. So are
    NEEDLESS ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, str], float] = {}
        self._dropped: Counter[tuple[str, str]] = Counter()

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
        now, line = time.monotonic(), ("away", "") if away else (record.name, text if ours else str(record.msg))
        if len(self._last) >= REMEMBERED:
            self._last.clear()
            self._dropped.clear()
        if now - self._last.get(line, -REPEAT_AFTER) < REPEAT_AFTER:
            self._dropped[line] += 1
            return False
        self._last[line] = now
        if dropped := self._dropped.pop(line, 0):
            record.msg, record.args = f"{text} ({dropped} more like this since the last line)", ()
        return True


RARELY: Final = Chatter().filter  # while a broker is away, each try is a line in the log of the agent's program

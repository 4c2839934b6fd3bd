"""What aiokafka says of our own clients in the log: less, where our errors say it, or where it says it without end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Passes = Callable[[logging.LogRecord], bool]

LOGGERS: Final = (
    "aiokafka",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.producer.producer",
    "aiokafka.producer.sender",
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
    """Pass what is no failure: an error that is raised says the rest."""
    return record.levelno < logging.WARNING


def _passing(record: logging.LogRecord) -> bool:
    passes = _passes.get()
    return passes is None or passes(record)

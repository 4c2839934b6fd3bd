"""The error tree, by who is at fault. Each message says what to do.

ThreadmillError
├── CallerError      the settings or the arguments         exit 2
├── InvalidRecord    a producer's data (topics.errors)     exit 1, or a dead letter
├── BrokerError      Kafka refuses or can't be reached     exit 3
└── StoreError       the store refuses or can't be reached exit 4
"""

from __future__ import annotations

from topics.errors import InvalidRecord, Reason, ThreadmillError

__all__ = ["BrokerError", "CallerError", "InvalidRecord", "Reason", "StoreError", "ThreadmillError"]


class CallerError(ThreadmillError):
    """The call can't work as it was made: a bad setting, a missing file, a missing program."""

    exit_code = 2


class BrokerError(ThreadmillError):
    """Kafka is not there, refuses us, or lacks a topic."""

    exit_code = 3


class StoreError(ThreadmillError):
    """The thread store is not there, refuses us, or has another schema version.

    `transient`: the same call may work later without anyone changing the settings; a sink retries it.
    """

    exit_code = 4

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient

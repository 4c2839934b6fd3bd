"""The exceptions, by who is at fault. Each message says what to do.

TurnmillError
├── CallerError      the settings or the arguments          exit 2
├── InvalidRecord    a producer's data                      exit 1, or a dead letter
├── BrokerError      Kafka refuses or can't be reached      exit 3
└── StoreError       the store refuses or can't be reached  exit 4 (`pipeline.stores.database.errors`; in no agent)
"""

from enum import StrEnum


class TurnmillError(Exception):
    """The base of all errors that Turnmill reports; `exit_code` is the exit status of the command line."""

    exit_code = 1


class CallerError(TurnmillError):
    """The call can't work as it was made: a bad setting, a missing file, a missing program."""

    exit_code = 2


class BrokerError(TurnmillError):
    """Kafka can't be reached, refuses us, or lacks a topic."""

    exit_code = 3


class Reason(StrEnum):
    """Why a record or event became a dead letter. A closed list: dashboards and redrive select by it."""

    UNDECODABLE = "undecodable"  # not JSON in UTF-8, or nested too deeply to be read
    NOT_AN_ENVELOPE = "not_an_envelope"  # JSON, but not the record that turnmill/wire/envelope.py describes
    UNSUPPORTED_VERSION = "unsupported_version"  # an envelope of another version
    UNKNOWN_DIALECT = "unknown_dialect"  # no such wire protocol here
    INVALID_EVENT = "invalid_event"  # an event of the wrong shape
    PROTOCOL_VIOLATION = "protocol_violation"  # well-formed, but against its dialect's rules at this place
    TOO_LARGE = "too_large"  # larger than a record may be
    UNPROCESSABLE = "unprocessable"  # well-formed, but a stage fails on it, and no other record is to blame
    LATE_EVENT = "late_event"  # its turn is closed and can't be reopened, or is stored with events that this one lacks


class InvalidRecord(TurnmillError):
    """A producer's data is wrong: it becomes a dead letter with the original bytes, and never stops a partition."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

"""The exceptions, by who is at fault. Each message says what to do.

TurnmillError
├── CallerError      the settings or the arguments          exit 2
├── InvalidRecord    a producer's data                      exit 1, or a dead letter
├── BrokerError      Kafka refuses or can't be reached      exit 3
└── StoreError       the store refuses or can't be reached  exit 4 (`pipeline.stores.database.errors`; in no agent)
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

# What a value must be, by the type of pydantic's error; braces are facts of its context.
EXPECTED: Final = {
    "bool_parsing": "true or false is expected",
    "bool_type": "true or false is expected",
    "dict_type": "an object is expected",
    "extra_forbidden": "there is no such field",
    "finite_number": "a finite number is expected",
    "float_parsing": "a number is expected",
    "float_type": "a number is expected",
    "greater_than": "more than {gt} is expected",
    "greater_than_equal": "{ge} or more is expected",
    "int_from_float": "a whole number is expected",
    "int_parsing": "a whole number is expected",
    "int_type": "a whole number is expected",
    "json_invalid": "JSON is expected, and this is broken: {error}",
    "less_than": "less than {lt} is expected",
    "less_than_equal": "{le} or less is expected",
    "list_type": "a list is expected",
    "literal_error": "{expected} is expected",
    "missing": "it is missing",
    "model_type": "an object is expected",
    "string_pattern_mismatch": "a text that matches {pattern} is expected",
    "string_too_long": "at most {max_length} characters are expected",
    "string_too_short": "{min_length} or more characters are expected",
    "string_type": "a text is expected",
    "too_long": "at most {max_length} items are expected",
}


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


def expectation(error: Mapping[str, Any]) -> str:
    """Return in our words what one of pydantic's errors says."""
    words = EXPECTED.get(error["type"])
    return str(error["msg"]).removeprefix("Value error, ") if words is None else words.format(**error.get("ctx", {}))

"""The root of the error tree, and the one error that a record's data can cause.

`pipeline.errors` holds the rest of the tree; it lives here because the codecs of this package raise it
and nothing here may import `pipeline`.
"""

from __future__ import annotations

from enum import StrEnum


class ThreadmillError(Exception):
    """Anything that Threadmill reports in words; `exit_code` is what the command line returns for it."""

    exit_code = 1


class Reason(StrEnum):
    """Why a record or event became a dead letter. A closed list: dashboards and redrive select by it."""

    UNDECODABLE = "undecodable"  # not JSON in UTF-8, or nested too deeply to be read
    NOT_AN_ENVELOPE = "not_an_envelope"  # JSON, but not the record that topics/agent_event.py describes
    UNSUPPORTED_VERSION = "unsupported_version"  # an envelope of another version
    UNKNOWN_DIALECT = "unknown_dialect"  # no such wire protocol here
    INVALID_EVENT = "invalid_event"  # an event of the wrong shape
    PROTOCOL_VIOLATION = "protocol_violation"  # well-formed, but against its dialect's rules at this place
    TOO_LARGE = "too_large"  # over the size that a record may have
    LATE_EVENT = "late_event"  # its turn is closed, and can't be reopened


class InvalidRecord(ThreadmillError):
    """A producer's data is wrong: becomes a dead letter with the original bytes, never stops a partition."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

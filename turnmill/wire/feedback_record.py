"""A record of the feedback topic: a person's or a program's judgement of a thread, a turn or a message. Pure."""

from typing import Any, Final

from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import COMMENT_CHARACTERS, FEEDBACK_CHARACTERS, NAMED_CHARACTERS, TENANT_CHARACTERS
from turnmill.wire.envelope import loads

TOPIC: Final = "feedback"  # behind the prefix of the settings
VERSION: Final = 1
LONGEST: Final = {
    "id": NAMED_CHARACTERS,
    "thread_id": NAMED_CHARACTERS,
    "tenant": TENANT_CHARACTERS,
    "turn_id": NAMED_CHARACTERS,
    "run_id": NAMED_CHARACTERS,
    "name": FEEDBACK_CHARACTERS,
    "by": FEEDBACK_CHARACTERS,
    "by_id": NAMED_CHARACTERS,
    "comment": COMMENT_CHARACTERS,
}
NEEDED: Final = ("id", "thread_id", "name")
FIELDS: Final = (
    "v",
    "id",
    "thread_id",
    "name",
    "value",
    "at",
    "tenant",
    "turn_id",
    "run_id",
    "message",
    "comment",
    "by",
    "by_id",
)


def problem_of(record: dict[str, Any]) -> str | None:
    """Return what is wrong with a record; None if it is valid."""
    for name, most in LONGEST.items():
        text = record.get(name)
        if text is None and name not in NEEDED:
            continue
        if not isinstance(text, str) or not 0 < len(text) <= most or not _is_storable(text):
            return f"{name} is a text of 1 to {most:,} characters"
    if "value" not in record:
        return "there is no value"
    value, message = record["value"], record.get("message")
    if not (value is None or isinstance(value, bool | int | float | str)):
        return "value is a number, a text, true or false, or null"
    if isinstance(value, str) and (len(value) > FEEDBACK_CHARACTERS or not _is_storable(value)):
        return f"value: a text has at most {FEEDBACK_CHARACTERS:,} characters; say more in comment"
    if isinstance(value, float) and not abs(value) < float("inf"):
        return "value is no number of JSON"
    if isinstance(value, int) and abs(value) >= 2**53:
        return "value: a number is less than 2^53"
    if message is not None and (type(message) is not int or not 0 <= message < 2**31):
        return "message is the place of a message in its turn, from 0 on"
    return None


def record_of(value: bytes | None) -> dict[str, Any]:
    """Return the record in a value of the feedback topic, with the known fields only. Raises InvalidRecord."""
    record = loads(value) if value is not None else None
    if not isinstance(record, dict) or record.get("v") != VERSION or type(record.get("at")) is not int:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, "not a feedback record of version 1")
    if (problem := problem_of(record)) is not None:
        raise InvalidRecord(Reason.NOT_AN_ENVELOPE, f"feedback: {problem}")
    return {name: record[name] for name in FIELDS if record.get(name) is not None or name == "value"}


def _is_storable(text: str) -> bool:
    """Return True for a text that databases and UTF-8 can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text

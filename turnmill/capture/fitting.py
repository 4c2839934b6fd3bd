"""Bodies and events made small enough to travel, with a note of what was left out. Pure."""

from __future__ import annotations

from typing import Any, Final

from turnmill.capture.secrets import HISTORIES
from turnmill.envelope import encode, loads
from turnmill.errors import InvalidRecord

Fields = dict[str, Any]
EVENT_BYTES: Final = 800_000  # of one event: a record holds 900,000
BODY_BYTES: Final = 262_144  # of a request that is published whole
SETTINGS: Final = ("tools", "system", "instructions", "systemInstruction", "response_format", "text")
STEPS: Final = (65_536, 8_192, 1_024, 128)  # characters that are left of long texts, until all fits


def request_body(dialect: str, body: Any) -> Any:
    """Return a request's body as it travels: above 256 KB without settings, and from the model's last words on.

    The pipeline stores neither settings nor repeated history.
    """
    if not isinstance(body, dict) or len(encode(body)) <= BODY_BYTES:
        return body
    short = {key: value for key, value in body.items() if key not in SETTINGS}
    name = HISTORIES[dialect]
    history = short.get(name)
    if isinstance(history, list):
        short[name] = history[_newest(history) :]
    return fitted(short)


def fitted(event: Any, limit: int = EVENT_BYTES) -> Any:
    """JSON of at most `limit` bytes: long texts in it are cut, and say by how much. Without texts to cut it is gone."""
    for longest in (None, *STEPS):
        small = event if longest is None else _cut(event, longest)
        if len(encode({"event": small})) <= limit:
            return small
    return {"left_out": len(encode({"event": event}))}


def json_of(data: bytes) -> Any:
    """Bytes -> the JSON value; None where they are none."""
    try:
        return loads(data)
    except InvalidRecord:
        return None


def _newest(history: list[Any]) -> int:
    """Return the index where the model's last words begin; 0 where it has said nothing."""
    at = len(history)
    while at and not _is_own(history[at - 1]):
        at -= 1
    while at and _is_own(history[at - 1]):
        at -= 1
    return at


def _is_own(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    kind = message.get("type")
    of_model = isinstance(kind, str) and (kind == "reasoning" or kind.endswith("_call"))
    return of_model or message.get("role") in ("assistant", "model")


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        left_out = len(value) - longest
        return value if left_out <= 0 else f"{value[:longest]}… [{left_out:,} characters were left out]"
    if isinstance(value, list):
        return [_cut(one, longest) for one in value]
    if isinstance(value, dict):
        return {key: _cut(one, longest) for key, one in value.items()}
    return value

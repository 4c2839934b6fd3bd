"""Shorten bodies and events until they fit into a record, with a note of what was left out. Pure."""

from typing import Any, Final

from turnmill.capture.providers import APIS
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import encode, loads

Fields = dict[str, Any]
EVENT_BYTES: Final = 800_000  # of an event: a record holds 900,000
BODY_BYTES: Final = 262_144  # of a request that is published whole
CONFIGURING: Final = ("system", "developer")
STEPS: Final = (65_536, 8_192, 1_024, 128)  # characters to which long texts are cut, one step after the other


def request_body(dialect: str, body: Any) -> Any:
    """Return a request's body for publishing: above 256 KB, its history begins with the model's last message.

    The pipeline already has the earlier history, but stores the other fields of the body. So if the body is still too
    large for an event, texts of the history are cut first.
    """
    if not isinstance(body, dict) or len(encode(body)) <= BODY_BYTES:
        return body
    name = APIS[dialect].history
    history = body.get(name)
    if not isinstance(history, list):
        return fitted(body)
    newest = _newest(history)
    leading = [
        message for message in history[:newest] if isinstance(message, dict) and message.get("role") in CONFIGURING
    ]
    for longest in (None, *STEPS):
        recent = history[newest:] if longest is None else _cut(history[newest:], longest)
        short = {**body, name: [*leading, *recent]}
        if len(encode({"event": short})) <= EVENT_BYTES:
            return short
    return fitted(short)


def fitted(event: Any, limit: int = EVENT_BYTES) -> Any:
    """Return JSON of at most `limit` bytes: long texts are cut, and note by how much; if that isn't enough, a note."""
    for longest in (None, *STEPS):
        small = event if longest is None else _cut(event, longest)
        if len(encode({"event": small})) <= limit:
            return small
    return {"left_out": len(encode({"event": event}))}


def json_of(data: bytes) -> Any:
    """Return the JSON value in bytes; None if they are not JSON."""
    try:
        return loads(data)
    except InvalidRecord:
        return None


def _newest(history: list[Any]) -> int:
    """Return the index where the model's last message begins; 0 if it has said nothing."""
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
    of_model = isinstance(kind, str) and (kind == "reasoning" or kind.endswith(("_call", ".call", "model_output")))
    return of_model or message.get("role") in ("assistant", "model")


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        left_out = len(value) - longest
        return value if left_out <= 0 else f"{value[:longest]}… [{left_out:,} characters were left out]"
    if isinstance(value, list):
        return [_cut(item, longest) for item in value]
    if isinstance(value, dict):
        return {key: _cut(item, longest) for key, item in value.items()}
    return value

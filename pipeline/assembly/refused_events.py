"""The reasons of dead letters for events that can't be applied."""

from __future__ import annotations

import reprlib
from typing import Any

from turnmill.errors import InvalidRecord, Reason


def refusal(event: Any, kind: str, error: Exception) -> tuple[Reason, str]:
    """Return the reason and the detail of a handler's error. `kind`: the key of an event's type."""
    if isinstance(error, InvalidRecord):
        return error.reason, error.detail
    return Reason.INVALID_EVENT, _detail(event, kind, error)


def _detail(event: Any, kind: str, error: Exception) -> str:
    if not isinstance(event, dict):
        return f"an event must be a JSON object, got {reprlib.repr(event)}"
    if not isinstance(event.get(kind), str):
        return f"an event needs a string {kind!r}, got {reprlib.repr(event.get(kind))}"
    if isinstance(error, KeyError):
        missing = reprlib.repr(error.args[0]) if error.args else "something"
        return f"{event[kind]:.80}: {missing} is missing, or refers to nothing that is open"
    return f"{event[kind]:.80}: {type(error).__name__}: {error}"

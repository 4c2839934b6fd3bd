"""Single events of ADK, read without assembling them: for recognition, live readers, and the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.assembly.dialect import Shown


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire. Events have no type; each has an invocation id and an author."""
    match event:
        case {"invocationId": _, "author": _} | {"invocation_id": _, "author": _}:
            return True
    return False


def shows(event: Any) -> Sequence[Shown]:
    """Return text and thoughts of fragments, which the whole event repeats, and the calls of whole events."""
    match event:
        case {"content": {"parts": list(parts)}, "partial": True}:
            return list(_texts(parts))
        case {"content": {"parts": list(parts)}}:
            return list(_calls(parts))
    return ()


def _texts(parts: list[Any]) -> Iterator[Shown]:
    for part in parts:
        match part:
            case {"text": str(text)} if text:
                yield Shown("thinking" if part.get("thought") is True else "text", text)


def _calls(parts: list[Any]) -> Iterator[Shown]:
    for part in parts:
        match part:
            case {"functionCall": {"name": str(name)}} | {"function_call": {"name": str(name)}}:
                yield Shown("tool", name)
            case {"executableCode": {}} | {"executable_code": {}}:
                yield Shown("tool", "code_execution")

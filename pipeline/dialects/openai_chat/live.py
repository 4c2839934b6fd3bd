"""Single events of Chat Completions, read without assembling them: for recognition, live readers, and the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.dialects.model_calls import ERROR, REQUEST


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire. Some servers omit the type, and an error has none."""
    match event:
        case {"type": _}:
            return False
        case {"choices": list()} | {"error": {"message": _}}:
            return True
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Return the text and thoughts as they come, and the calls of tools."""
    pieces: list[Shown] = []
    for choice in _choices(event):
        match choice:
            case {"index": int(index)} if index != 0:
                continue
            case {"delta": dict(delta)} | {"message": dict(delta)}:
                pieces += _of_delta(delta)
    return pieces


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a stream: a `finish_reason` ends a call, the next request begins another.

    An error is not an end.
    """
    match event:
        case {"object": "turnmill.request" | "turnmill.error"}:
            return None
        case {"error": failure} if failure:
            return None
    for choice in _choices(event):
        match choice:
            case {"index": int(index)} if index != 0:
                continue
            case {"finish_reason": str(reason)} if reason and reason != "error":
                return "complete"
    return before


def _choices(event: Any) -> list[Any]:
    match event:
        case {"object": str(kind)} if kind in (REQUEST, ERROR):
            return []
        case {"choices": list(choices)}:
            return choices
    return []


def _of_delta(delta: dict[str, Any]) -> list[Shown]:
    thoughts = [delta.get("reasoning_content") or delta.get("reasoning")]
    audio, content = delta.get("audio"), delta.get("content")
    texts = [content, delta.get("refusal"), audio.get("transcript") if isinstance(audio, dict) else None]
    for piece in content if isinstance(content, list) else ():
        match piece:
            case {"type": "thinking", "thinking": list(items)}:
                thoughts += [item.get("text") for item in items if isinstance(item, dict)]
            case {"type": "thinking", "thinking": thought}:
                thoughts.append(thought)
            case {"type": "text", "text": text} | {"type": "refusal", "refusal": text}:
                texts.append(text)
    details = delta.get("reasoning_details")
    for detail in details if isinstance(details, list) and not thoughts[0] else ():
        match detail:
            case {"text": thought} | {"summary": thought}:
                thoughts.append(thought)
    calls = delta.get("tool_calls")
    tools = [_tool(call) for call in calls] if isinstance(calls, list) else []
    return [*_shown("thinking", thoughts), *_shown("text", texts), *_shown("tool", tools)]


def _tool(call: Any) -> Any:
    match call:
        case {"function": {"name": name}} | {"custom": {"name": name}}:
            return name
    return None


def _shown(kind: Literal["text", "thinking", "tool"], texts: Sequence[Any]) -> list[Shown]:
    return [Shown(kind, text) for text in texts if isinstance(text, str) and text]

"""What an event says, for people who look on: text, in any dialect. Pure; anything else says nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Event = Mapping[str, Any]


def _at(event: Any, *keys: str) -> Any:
    for key in keys:
        event = event.get(key) if isinstance(event, Mapping) else None
    return event


def _vercel(event: Event) -> Any:
    return event.get("delta") if event.get("type") == "text-delta" else None


def _pydantic(event: Event) -> Any:
    kind = event.get("event_kind")
    if kind == "part_start" and _at(event, "part", "part_kind") == "text":
        return _at(event, "part", "content")
    if kind == "part_delta" and _at(event, "delta", "part_delta_kind") == "text":
        return _at(event, "delta", "content_delta")
    return None


def _pi_agent(event: Event) -> Any:
    return _pi_proxy(event.get("assistantMessageEvent") or {}) if event.get("type") == "message_update" else None


def _pi_proxy(event: Event) -> Any:
    return _at(event, "delta") if _at(event, "type") == "text_delta" else None


def _agents_sdk(event: Event) -> Any:
    return _at(event, "data", "delta") if event.get("event") == "message.delta" else None


TEXTS: Final[dict[str, Callable[[Event], Any]]] = {
    "vercel-ai": _vercel,
    "pydantic-ai": _pydantic,
    "pi-agent": _pi_agent,
    "pi-proxy": _pi_proxy,
    "agents-sdk": _agents_sdk,
}


def text_of(dialect: str, events: list[Any]) -> str:
    """-> the text that these events add; empty where there is none, or where they are not as they should be."""
    find = TEXTS.get(dialect)
    if find is None:
        return ""
    found = (find(event) for event in events if isinstance(event, Mapping))
    return "".join(text for text in found if isinstance(text, str))

"""Histories as clients send them again: words of the user and of the agent in turn."""

from collections.abc import Mapping
from typing import Any


def ui(*texts: str, ids: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """As the AI SDK's UI messages; a message's id is its text, where `ids` has no other."""
    return [
        {"id": (ids or {}).get(text, text), "role": role(place), "parts": [{"type": "text", "text": text}]}
        for place, text in enumerate(texts)
    ]


def chat(*texts: str) -> list[dict[str, Any]]:
    """As messages of Chat Completions, behind a system prompt."""
    said = [{"role": role(place), "content": text} for place, text in enumerate(texts)]
    return [{"role": "system", "content": "be brief"}, *said]


def role(place: int) -> str:
    return ("user", "assistant")[place % 2]

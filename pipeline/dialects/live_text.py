"""The text, thoughts and tool calls that events of any wire show to live readers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.assembly.dialect import Shown
from pipeline.dialects import DIALECTS


def shown(dialect: str, event: Any) -> Sequence[Shown]:
    """Return the live text of an event; empty for an unknown wire or a malformed event."""
    known = DIALECTS.get(dialect)
    return known.shows(event) if known is not None else ()


def text_of(dialect: str, events: Iterable[Any]) -> str:
    """Return the text that these events add, without thoughts and tools."""
    return "".join(piece.text for event in events for piece in shown(dialect, event) if piece.kind == "text")

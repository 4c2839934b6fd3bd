"""What events show to people who look on, whatever wire they came over. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.assembly.dialect import Shown
from pipeline.dialects import DIALECTS


def shown(dialect: str, event: Any) -> Sequence[Shown]:
    """What one event adds; nothing where no wire has this name, or the event is not as it should be."""
    known = DIALECTS.get(dialect)
    return known.shows(event) if known is not None else ()


def text_of(dialect: str, events: Iterable[Any]) -> str:
    """The text that these events add, without thoughts and tools."""
    return "".join(piece.text for event in events for piece in shown(dialect, event) if piece.kind == "text")

"""Replaces methods of other people's classes, once each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

OURS: Final = "_turnmill_capture"


def patch(owner: type[Any], name: str, around: Callable[[Any], Any]) -> None:
    """Put `around(original)` in a method's place; one of ours stays."""
    original = getattr(owner, name)
    if not getattr(original, OURS, False):
        replacement = around(original)
        setattr(replacement, OURS, True)
        setattr(owner, name, replacement)

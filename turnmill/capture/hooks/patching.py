"""Replace methods of other libraries' classes, once each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

OWN_MARK: Final = "_turnmill_capture"


def patch(owner: type[Any], name: str, around: Callable[[Any], Any]) -> None:
    """Replace a method by `around(original)`, unless it was replaced before."""
    original = getattr(owner, name)
    if not getattr(original, OWN_MARK, False):
        replacement = around(original)
        setattr(replacement, OWN_MARK, True)
        setattr(owner, name, replacement)

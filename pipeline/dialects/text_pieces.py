"""Texts in pieces, as models stream them, and the arguments of calls as text. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from topics import json_text

PIECE: Final = re.compile(r".{1,24}(?:\s+|\Z)|.{1,24}", re.DOTALL)  # some words, or a part of a long one
INVALID: Final = "INVALID_JSON"  # the key of arguments that were not an object (`pipeline.turns.arguments`)


def pieces(text: str) -> list[str]:
    """Return a text cut into pieces of some words each."""
    return PIECE.findall(text)


def args_text(args: Any) -> str:
    """Return the arguments of a call as the model wrote them: JSON, or the text that was not JSON."""
    if isinstance(args, dict) and args.keys() == {INVALID} and isinstance(args[INVALID], str):
        return args[INVALID]
    return args if isinstance(args, str) else json_text.dumps({} if args is None else args)

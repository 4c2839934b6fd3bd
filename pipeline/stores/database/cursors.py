"""The cursors of lists: positions after a row, as text."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import orjson

from turnmill.errors import CallerError

LARGEST: Final = 2**63 - 1


def encode_cursor(value: int, number: int) -> str:
    """Return the position after a row as an opaque, URL-safe text: the value of its sort column, and its id."""
    return base64.urlsafe_b64encode(orjson.dumps([value, number])).decode().rstrip("=")


def decode_cursor(cursor: str, of: str = "list", most: tuple[int, int] = (LARGEST, LARGEST)) -> tuple[int, int]:
    """Return what `encode_cursor` was given. Raises CallerError for other texts, and for numbers above `most`."""
    try:
        position: Any = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        value, number = position
    except (binascii.Error, ValueError, TypeError):
        value = number = None
    if type(value) is not int or type(number) is not int or not (0 <= value <= most[0] and 0 <= number <= most[1]):
        raise CallerError(f"the cursor is not one that this {of} gave: start again without one")
    return value, number

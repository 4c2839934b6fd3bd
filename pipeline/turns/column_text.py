"""Any string -> one that every database takes as a column, and as the key of an index."""

from __future__ import annotations

import hashlib
from typing import Any

MAX_LENGTH = 500  # four bytes each still fit a Postgres index entry (2,704 bytes)
KEPT = 430


def column_text(value: Any, limit: int = MAX_LENGTH) -> str | None:
    """Text for a column: NUL and lone surrogates as escapes, and a hash for the end of what is too long.

    Two long ids stay different. The exact text is in the record's JSON.
    """
    if value is None:
        return None
    text = str(value).encode("utf-8", "backslashreplace").decode().replace("\0", "\\u0000")
    if len(text) <= limit:
        return text
    return text[:KEPT] + "…" + hashlib.sha256(text.encode()).hexdigest()


def snippet(text: str, length: int = 120) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: length * 4].split())
    return line if len(line) <= length else line[: length - 1] + "…"

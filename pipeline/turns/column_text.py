"""Makes of any string one that every database accepts as a column, and as the key of an index."""

import hashlib
import re
from typing import Any, Final

MAX_LENGTH = 500  # four bytes each still fit a Postgres index entry (2,704 bytes)
KEPT = 430
ESCAPE: Final = re.compile(r"\\(?=u(?:0000|005c|d[89a-f][0-9a-f]{2}))")  # a backslash that would be read as an escape
SHORTENED: Final = re.compile(rf".{{{KEPT}}}…[0-9a-f]{{64}}", re.DOTALL)


def column_text(value: Any) -> str | None:
    """Return text for a column: NUL and lone surrogates as escapes, and the end of a too long text as a hash.

    Different texts stay different, since the results are used as unique keys. So a backslash that would be read as one
    of these escapes is escaped itself, and a text that looks shortened is shortened. The record's JSON has the exact
    text.
    """
    if value is None:
        return None
    text = value if type(value) is str else str(value)
    if len(text) <= KEPT and text.isascii() and "\\" not in text and "\0" not in text:
        return text  # nearly always
    if "\\" in text:
        text = ESCAPE.sub(r"\\u005c", text)
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\u0000")
    if len(text) <= MAX_LENGTH and not SHORTENED.fullmatch(text):
        return text
    return text[:KEPT] + "…" + hashlib.sha256(text.encode()).hexdigest()


def snippet(text: str, length: int = 120) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text[: length * 4].split())
    return line if len(line) <= length else line[: length - 1] + "…"

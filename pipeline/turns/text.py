"""Text from JavaScript: surrogate pairs split over deltas, lone surrogates, unlimited numbers."""

import math
from typing import Any

MAX_I64 = 2**63
MAX_U64 = 2**64


def join(chunks: list[str]) -> str:
    """Join deltas to a text. Halves of a pair in two deltas are joined; a lone half becomes U+FFFD."""
    text = "".join(chunks)
    return text if text.isascii() else mend(text)


def mend(text: str) -> str:
    """Return text without surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def mended(value: Any) -> Any:
    """Return a JSON value that UTF-8 JSON with 64-bit integers can represent.

    Larger integers become text of their digits; a number beyond all floats (1e400), which is infinite, null.
    """
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -MAX_I64 <= value < MAX_U64 else str(value)
    if isinstance(value, dict):
        return {mend(key) if isinstance(key, str) else str(key): mended(item) for key, item in value.items()}
    return [mended(item) for item in value]

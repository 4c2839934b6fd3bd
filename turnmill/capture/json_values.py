"""Count the values in a JSON text before parsing it: three bytes may become a list of 64. Pure."""

from __future__ import annotations

from typing import Final

from turnmill.limits import JSON_VALUES

CHUNK_BYTES: Final = 1_048_576  # counted at a time, so that counting stops early if there are far too many


def too_many_values(data: bytes) -> bool:
    """Return True if JSON has more than JSON_VALUES arrays, objects and members. For other bytes it means nothing."""
    if not _more(data):
        return False
    unescaped = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # brackets and commas in strings don't count
    if unescaped.count(b'"') > 4 * JSON_VALUES:  # the quotes of keys and strings
        return True
    return _more(b"".join(unescaped.split(b'"')[::2]))


def _more(data: bytes) -> bool:
    found = quotes = 0
    for at in range(0, len(data), CHUNK_BYTES):
        part = data[at : at + CHUNK_BYTES]
        found += part.count(b",") + part.count(b"[") + part.count(b"{")
        quotes += part.count(b'"')
        if found > JSON_VALUES or quotes > 4 * JSON_VALUES:
            return True
    return False

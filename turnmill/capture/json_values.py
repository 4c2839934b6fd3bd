"""The number of values in a JSON text, counted before they are made: three bytes may become a list of 64. Pure."""

from __future__ import annotations

from typing import Final

from turnmill.limits import JSON_VALUES

PART: Final = 1_048_576  # bytes that are counted at a time, so that what has far too many is not read to its end


def too_many_values(data: bytes) -> bool:
    """Return True if JSON has more than JSON_VALUES arrays, objects and members. For other bytes it may say so, too."""
    if not _more(data):
        return False
    unescaped = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # structure in texts doesn't count
    if unescaped.count(b'"') > 4 * JSON_VALUES:  # those of keys and texts
        return True
    return _more(b"".join(unescaped.split(b'"')[::2]))


def _more(data: bytes) -> bool:
    found = quotes = 0
    for at in range(0, len(data), PART):
        part = data[at : at + PART]
        found += part.count(b",") + part.count(b"[") + part.count(b"{")
        quotes += part.count(b'"')
        if found > JSON_VALUES or quotes > 4 * JSON_VALUES:
            return True
    return False

"""The deepest nesting of JSON that is read: the same on every machine, whatever its interpreter could take.

orjson reads LEVELS and no more, whoever calls it: that is its documented bound, and a test says so. Where it refuses a
text for another reason, and the standard library reads it, the same bound is counted here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from turnmill.limits import LEVELS

PASSES: Final = 16
MAX_DEPTH: Final = 10_000  # calls within each other, where JSON is nested deeply
STRUCTURE: Final = b"[]{}"
OTHERS: Final = bytes(sorted(set(range(256)) - set(STRUCTURE)))

T = TypeVar("T")


def too_deep(data: bytes, levels: int = LEVELS) -> bool:
    """Return True if JSON has more levels of arrays and objects than `levels`.

    For other bytes the answer means nothing.

    The innermost pairs are removed until few are left, as each pass takes a level; only a deep rest is counted bracket
    by bracket.
    """
    unescaped = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = b"".join(unescaped.split(b'"')[::2]).translate(None, OTHERS).translate(bytes.maketrans(b"{}", b"[]"))
    passes = min(PASSES, levels)
    for _ in range(passes):
        if not left:
            return False
        left = left.replace(b"[]", b"")
    depth = passes
    for bracket in left:
        depth += 1 if bracket == STRUCTURE[0] else -1
        if depth > levels:
            return True
    return False


def text_too_deep(text: str) -> bool:
    """Return True if a text is nested too deeply; for most the number of brackets decides."""
    return text.count("[") + text.count("{") > LEVELS and too_deep(text.encode("utf-8", "surrogatepass"))


def with_room(call: Callable[[], T]) -> T:
    """Call with room for deep nesting: what follows JSON calls itself once a level or more."""
    try:
        return call()
    except RecursionError:
        with _ROOM.more():
            return call()


class _Room:
    """The interpreter's one limit for all threads: raised by the first who needs it, lowered by the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._usual = 0

    @contextmanager
    def more(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._usual = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._usual, MAX_DEPTH))
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    sys.setrecursionlimit(self._usual)


_ROOM: Final = _Room()

"""The deepest nesting of JSON that is accepted: the same on every machine, whatever its interpreter could parse.

orjson reads at most LEVELS levels in any case: that is its documented limit, and a test checks it. If orjson refuses a
text for another reason and the standard library parses it, the same limit is checked here.
"""

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

    For bytes that are not JSON the result means nothing.

    Each pass removes the innermost pairs of brackets, which is one level. Brackets that remain after some passes are
    counted.
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
    """Return True if a text is nested too deeply; most texts have so few brackets that counting them is enough."""
    return text.count("[") + text.count("{") > LEVELS and too_deep(text.encode("utf-8", "surrogatepass"))


def with_room(call: Callable[[], T]) -> T:
    """Call with a raised recursion limit if need be: code that walks JSON recurses once or more per level."""
    try:
        return call()
    except RecursionError:
        with _ROOM.more():
            return call()


class _Room:
    """The recursion limit, which all threads share: the first user raises it, the last one restores it."""

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

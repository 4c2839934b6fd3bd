"""JSON text <-> values, without loss.

orjson where it can; the standard library for what orjson refuses or rounds: integers over 64 bits, lone surrogates,
more than 254 levels of nesting.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import orjson

# orjson reads an integer over 64 bits as a float. 20 digits in a row may be one; in text they cost only time.
MAYBE_LARGE = re.compile(r"\d{20}")
MAX_DEPTH = 10_000

Fields = dict[str, Any]  # a JSON object

# Line ends to Unicode, though not to JSON: readers that split text by them must not cut a value in two.
LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

T = TypeVar("T")


def dumps(value: Any) -> str:
    """-> JSON text in ASCII or UTF-8; NUL and lone surrogates come out as escapes."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return with_room(lambda: json.dumps(value, separators=(",", ":")))


def line(value: Any) -> str:
    """-> JSON text that is one line to every reader."""
    return dumps(value).translate(LINE_ENDS)


def loads(text: str) -> Any:
    """JSON text -> value."""
    if not MAYBE_LARGE.search(text):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass
    return with_room(lambda: json.loads(text))


def with_room(call: Callable[[], T]) -> T:
    """Call with room for deep nesting: the codec's C code recurses once a level, and counts as Python frames."""
    limit = sys.getrecursionlimit()
    try:
        return call()
    except RecursionError:
        sys.setrecursionlimit(MAX_DEPTH)
        try:
            return call()
        finally:
            sys.setrecursionlimit(limit)

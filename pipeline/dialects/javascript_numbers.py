"""Numbers that JavaScript can read, in messages for its SDKs.

It reads an integer beyond 2^53 as the nearest double, as its SDKs do with every stream. A number beyond the largest
double becomes infinity, which it writes as null; to keep the number, it is sent as text.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from turnmill.wire.nesting import with_room

LARGEST: Final = int(sys.float_info.max)


def readable(value: Any) -> Any:
    """Return a JSON value with integers beyond the largest double as text."""
    return with_room(lambda: _readable(value))


def _readable(value: Any) -> Any:
    match value:
        case dict():
            return {key: _readable(item) for key, item in value.items()}
        case list():
            return [_readable(item) for item in value]
        case int() if not -LARGEST <= value <= LARGEST:
            return str(value)
    return value

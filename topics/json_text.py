"""Convert values to JSON text and back without loss.

By orjson if it can; by `turnmill.wire.deep_json` for values that orjson refuses or rounds: integers over 64 bits, lone
surrogates, more than 254 levels of nesting.
"""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from turnmill.limits import OWN_LEVELS
from turnmill.wire import deep_json
from turnmill.wire.nesting import too_deep

# orjson reads an integer over 64 bits as a float. 20 digits in a row may be one, as may 19 behind a minus; in a string,
# they only cost time.
MAYBE_LARGE = re.compile(r"[-\d]\d{19}")

Fields = dict[str, Any]  # a JSON object

# Line ends in Unicode that JSON does not escape: a reader that splits lines at them would cut a value in two.
LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def present(fields: Mapping[str, Any]) -> Fields:
    """Return the fields that are not None."""
    return {key: value for key, value in fields.items() if value is not None}


def filled(fields: Mapping[str, Any]) -> Fields:
    """Return the fields that are neither None, nor empty, False or 0."""
    return {key: value for key, value in fields.items() if value}


def object_of(value: Any) -> Fields:
    """Return an object as it is, {} for any other value."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return a list as it is, [] for any other value."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[Fields]:
    """Return the objects of a list; none if it is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def to_bytes(value: Any) -> bytes:
    """Return a value as JSON, for sending: floats, key order and text exactly as they are in it."""
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates, integers over 64 bits, deep nesting
        return deep_json.dumps(value).encode()


def dumps(value: Any) -> str:
    """Return a value as JSON text; NUL and lone surrogates are written as escapes."""
    return to_bytes(value).decode()


def encoded(record: Any) -> bytes:
    """Return a record as JSON, for keeping."""
    return trimmed(to_bytes(record))


def trimmed(data: bytes) -> bytes:
    """Return a copy of a result of `orjson.dumps` without unused memory, for keeping.

    orjson returns its text in the larger buffer where it was written: with 4 KB more for a small text, and up to nine
    times the size for a large one.
    """
    return b"".join((data, b""))


def size_of(value: Any, levels: int = 6) -> int:
    """Return the number of bytes of `dumps`.

    Values are encoded one by one down to `levels` levels, never all at once.
    """
    if levels and value and isinstance(value, dict):
        return 1 + sum(len(dumps(key).encode()) + 2 + size_of(item, levels - 1) for key, item in value.items())
    if levels and value and isinstance(value, list):
        return 1 + sum(1 + size_of(item, levels - 1) for item in value)
    return len(dumps(value).encode())


def line(value: Any) -> str:
    """Return a value as JSON text that every reader takes for one line."""
    return dumps(value).translate(LINE_ENDS)


def loads(text: str) -> Any:
    """Parse JSON text. Raises ValueError, also for more than OWN_LEVELS levels of nesting."""
    if not MAYBE_LARGE.search(text):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass
    if too_deep(text.encode("utf-8", "surrogatepass"), OWN_LEVELS):
        raise ValueError(f"JSON is nested too deeply: at most {OWN_LEVELS:,} levels are read")
    return deep_json.loads(text)

"""Parse and write JSON nested to any depth, with the same results and error messages on every version of Python.

The standard library's parser and writer recurse once per level. Their limit and their error messages depend on Python's
version. They are tried first, since they are fast; what they refuse is parsed and written here without recursion.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

SPACE: Final = re.compile(r"[ \t\n\r]*")
SUSPECT: Final = re.compile(r"\d[eE]\+?\d{3}|\d{309}")  # a number that may be beyond the range of a double
COMPACT: Final = (",", ":")

Number = Callable[[str], Any]


def loads(data: str | bytes, parse_constant: Number | None = None, parse_float: Number | None = None) -> Any:
    """Parse JSON, with the arguments of `json.loads`. Raises ValueError; a JSONDecodeError names the position."""
    try:
        return json.loads(data, parse_constant=parse_constant, parse_float=parse_float)
    except (ValueError, RecursionError):
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
        return _read(text, json.JSONDecoder(parse_constant=parse_constant, parse_float=parse_float))


def dumps(value: Any) -> str:
    """Return JSON text in ASCII, without spaces. Raises TypeError, and ValueError for a value that contains itself."""
    try:
        return json.dumps(value, separators=COMPACT)
    except RecursionError:
        return "".join(_written(value))


def _read(text: str, decoder: json.JSONDecoder) -> Any:
    around: list[tuple[Any, str]] = []  # open arrays and objects, outermost first, with the key of the value being read
    at = _behind_space(text, 0)
    while True:
        opened = text[at : at + 1]
        if opened in ("[", "{"):
            value: Any = [] if opened == "[" else {}
            at = _behind_space(text, at + 1)
            if text[at : at + 1] != _end_of(value):
                key, at = _key(text, at, decoder) if opened == "{" else ("", at)
                around.append((value, key))
                continue
            at += 1
        else:
            value, at = decoder.raw_decode(text, at)
        while around:  # close containers until one has a further value
            container, key = around.pop()
            if isinstance(container, list):
                container.append(value)
            else:
                container[key] = value
            at = _behind_space(text, at)
            if text[at : at + 1] == ",":
                at = _behind_space(text, at + 1)
                key, at = _key(text, at, decoder) if isinstance(container, dict) else ("", at)
                around.append((container, key))
                break
            if text[at : at + 1] != _end_of(container):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            value, at = container, at + 1
        else:
            if (end := _behind_space(text, at)) != len(text):
                raise json.JSONDecodeError("Extra data", text, end)
            return value


def _key(text: str, at: int, decoder: json.JSONDecoder) -> tuple[str, int]:
    """Return the key that begins at `at`, and the index where its value begins."""
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
    key, at = decoder.raw_decode(text, at)
    at = _behind_space(text, at)
    if text[at : at + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
    return key, _behind_space(text, at + 1)


def _behind_space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def _end_of(container: list[Any] | dict[str, Any]) -> str:
    return "]" if isinstance(container, list) else "}"


def _written(value: Any) -> Iterator[str]:
    left: list[tuple[str, Any]] = [("", value)]  # a stack of (text before the value, value); _END: only the text
    while left:
        before, item = left.pop()
        yield before
        if isinstance(item, (list, tuple)) and item:
            yield "["
            left.append(("]", _END))
            left.extend((",", inner) for inner in reversed(item[1:]))
            left.append(("", item[0]))
        elif isinstance(item, dict) and item:
            yield "{"
            left.append(("}", _END))
            keys = [json.dumps({key: 0}, separators=COMPACT)[1:-2] for key in item]
            pairs = list(zip(keys, item.values(), strict=True))
            left.extend((f",{key}", inner) for key, inner in reversed(pairs[1:]))
            left.append(pairs[0])
        elif item is not _END:
            yield json.dumps(item, separators=COMPACT)


_END: Final = object()


def parse_float(text: str) -> Callable[[str], float | str] | None:
    """Return a number parser that keeps numbers beyond a double as text; None if the text can't have one.

    Such as 1e400: JavaScript reads Infinity, which JSON can't express.
    """
    return _float_or_digits if SUSPECT.search(text) else None


def _float_or_digits(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits

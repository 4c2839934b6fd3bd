"""JSON text <-> values at any depth, and in the same words where it is wrong: the same on every version of Python.

The standard library's reader and writer call themselves once a level, and how often they may is each version's own; so
is what they say of a text that is no JSON. They go first, as they are quick; what they refuse is read and written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

SPACE: Final = re.compile(r"[ \t\n\r]*")
COMPACT: Final = (",", ":")

Number = Callable[[str], Any]


def loads(data: str | bytes, parse_constant: Number | None = None, parse_float: Number | None = None) -> Any:
    """JSON text -> value, with the same arguments as `json.loads`. Raises ValueError; JSONDecodeError has the place."""
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
    around: list[tuple[Any, str]] = []  # the arrays and objects that are open, with the key that waits for its value
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
        while around:  # until one goes on
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
    found = SPACE.match(text, at)
    return found.end() if found else at


def _end_of(container: list[Any] | dict[str, Any]) -> str:
    return "]" if isinstance(container, list) else "}"


def _written(value: Any) -> Iterator[str]:
    left: list[tuple[str, Any]] = [("", value)]  # a text that goes before a value, the next one last; _END: no value
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

"""JSON documents in files: one per file, or one per line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from turnmill.errors import CallerError
from turnmill.limits import LEVELS
from turnmill.wire import deep_json
from turnmill.wire.nesting import text_too_deep


class Unreadable(Exception):
    """A file is not JSON in UTF-8: the reason, and line and column from 1, or 0 if the place is unknown."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


def read(name: str) -> bytes:
    """Return the bytes of a file, or of standard input for `-`. Raises Unreadable."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise Unreadable(f"can't be read: {error.strerror or error}") from None


def documents(data: bytes) -> Iterator[tuple[int | None, Any]]:
    """Yield (None, document), or (line, document) for each line. Raises Unreadable at the first invalid part."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        raise Unreadable("is not UTF-8", before.count(b"\n") + 1, error.start - before.rfind(b"\n")) from None
    if not text.strip():
        raise Unreadable("is empty: a thread document is expected")
    try:
        yield None, _parsed(text)
    except Unreadable:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2 or not _is_json(lines[0][1]):  # one broken document, not JSON lines
            raise
    else:
        return
    for number, line in lines:
        try:
            yield number, _parsed(line)
        except Unreadable as problem:
            raise Unreadable(problem.reason, number, problem.column) from None


def _is_json(line: str) -> bool:
    try:
        _parsed(line)
    except Unreadable:
        return False
    return True


def _parsed(text: str) -> Any:
    if text_too_deep(text):
        raise Unreadable(f"is nested too deeply: at most {LEVELS:,} levels are read")
    try:
        return deep_json.loads(text, _not_json)
    except json.JSONDecodeError as error:
        raise Unreadable(f"is not JSON: {error.msg}", error.lineno, error.colno) from None
    except ValueError as error:
        raise Unreadable(f"is not JSON: {error}") from None


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def place(source: str, line: int | None, column: int = 0) -> str:
    """Return FILE, FILE:LINE or FILE:LINE:COLUMN, as compilers write it."""
    return ":".join([source, *(str(number) for number in (line, column) if number)])


def each_value(names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield (place, JSON value) of all files. Raises CallerError if one can't be read."""
    for name in names:
        try:
            for line, value in documents(read(name)):
                yield place(name, line), value
        except Unreadable as problem:
            raise CallerError(f"{place(name, problem.line, problem.column)}: {problem.reason}") from None


def each_object(names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, JSON object) of all files. Raises CallerError if one can't be read, or has another value."""
    for found, value in each_value(names):
        if not isinstance(value, dict):
            raise CallerError(f"{found}: a JSON object is expected, one in the file or on each line")
        yield found, value

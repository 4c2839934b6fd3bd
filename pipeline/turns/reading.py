"""Lenient reading of JSON objects of unknown shape: a value of the wrong type is skipped, and counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from topics.json_text import Fields

Path = tuple[str, ...]

MAX_NUMBER: Final = 2**63  # a larger number counts as this one


class Reading:
    """One object. `malformed`: number of values of the wrong type so far."""

    def __init__(self, data: Fields) -> None:
        self.data = data
        self.malformed = 0

    def first(self, paths: Iterable[Path]) -> tuple[Path, Any] | None:
        """Return the first of `paths` that leads to a value, and this value.

        An object does not count as a value; a longer path leads inside.

        None if no path leads to one; null counts as absent.
        """
        return next(self._values(paths), None)

    def number(self, paths: Iterable[Path], *, text: bool = False, below: float = math.inf) -> float | None:
        """Return the first value under `paths`, if it is a number from 0 to `below`; else count it as malformed.

        With `text`, a decimal that is written as text is a number, too.
        """
        first = self.first(paths)
        if first is None:
            return None
        value = first[1]
        if text and isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                value = None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < below:
            return min(value, MAX_NUMBER)
        self.malformed += 1
        return None

    def text(self, paths: Iterable[Path]) -> str | None:
        """Return the first text under `paths` that is not empty."""
        return next((value for _, value in self._values(paths) if isinstance(value, str) and value), None)

    def _values(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Any]]:
        for path in paths:
            value = at(self.data, path)
            if value is not None:
                yield path, value


def at(value: Any, path: Path) -> Any:
    """Return the value at a path; None if there is none, or an object."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return None if isinstance(value, dict) else value

"""JSON paths, the part of RFC 9535 that names places: `$.a['b'][0][*]..c`. Filters and slices are not supported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

Place = tuple[str | int, ...]

SEGMENT: Final = re.compile(
    r"""(?P<deep>\.\.)?\[(?:(?P<every>\*)|(?P<index>-?\d{1,9})|'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)")\]
    | (?P<dots>\.\.?)(?:(?P<all>\*)|(?P<name>[^\s.\[\]'"*@?$()]+))""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Segment:
    """One step: a member's name, an element's index, or (None) every child. `deep`: at any depth below."""

    key: str | int | None
    deep: bool


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path from the root of a JSON value to any number of places in it."""

    segments: tuple[Segment, ...]

    def replaced(self, root: Any, change: Callable[[Place, Any], Any]) -> Any:
        """Return `root` with `change(path, value)` at each path: a copy if anything differs, else itself."""
        return self._at(root, 0, (), change)

    def _at(self, value: Any, step: int, path: Place, change: Callable[[Place, Any], Any]) -> Any:
        if step == len(self.segments):
            return change(path, value)
        segment = self.segments[step]
        copy: Any = None
        for key, child in _children(value):
            new = child
            if segment.key is None or segment.key == key or _from_the_end(value, segment.key) == key:
                new = self._at(new, step + 1, (*path, key), change)
            if segment.deep:
                new = self._at(new, step, (*path, key), change)
            if new is not child:
                if copy is None:
                    copy = value.copy()
                copy[key] = new
        return value if copy is None else copy


def parse(text: str) -> JsonPath:
    """Return the path of a text such as `$.messages[*].parts[*].args.ssn`. Raises ValueError with the position."""
    if not text.startswith("$"):
        raise ValueError("a JSON path begins with $")
    at, segments = 1, []
    while at < len(text):
        match = SEGMENT.match(text, at)
        if match is None:
            raise ValueError(
                f"can't be read from {text[at:]!r:.40}: .name, ['name'], [0], [*], .* and ..name are known"
            )
        at = match.end()
        segments.append(_segment(match))
    if not segments:
        raise ValueError("it must lead below the root")
    return JsonPath(tuple(segments))


def _segment(match: re.Match[str]) -> Segment:
    deep = match["deep"] == ".." or match["dots"] == ".."
    if match["every"] or match["all"]:
        return Segment(None, deep)
    if match["index"] is not None:
        return Segment(int(match["index"]), deep)
    quoted = match["single"] if match["single"] is not None else match["double"]
    return Segment(match["name"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted), deep)


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value)) if isinstance(value, list) else iter(())


def _from_the_end(value: Any, key: str | int) -> int | None:
    return len(value) + key if isinstance(value, list) and isinstance(key, int) and key < 0 else None

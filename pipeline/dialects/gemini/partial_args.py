"""Arguments of a call that come in pieces, each with its path: `{"jsonPath": "$.stops[0].city", "stringValue": "Pa"}`.

Text for a path that already has a text is appended, so that a text may come in several pieces. A list is padded with
null up to an index beyond its end.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

from pipeline.assembly.dialect import Violation
from topics.json_text import Fields

STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")
MAX_INDEX: Final = 10_000  # the largest list index: a path must not make us fill memory


def put(args: Fields, piece: Fields) -> None:
    """Put the value of a piece at its path. Raises Violation if the path is malformed."""
    steps = _steps(piece.get("jsonPath"))
    name = next((key for key in VALUES if key in piece), None)
    if name is None or not steps:
        return
    holder: Any = args
    for step, following in pairwise(steps):
        inner = _at(holder, step)
        if not isinstance(inner, list if isinstance(following, int) else dict):
            inner = [] if isinstance(following, int) else {}
            _set(holder, step, inner)
        holder = inner
    value = None if name == "nullValue" else piece[name]
    before = _at(holder, steps[-1])
    if isinstance(before, str) and isinstance(value, str):
        value = before + value
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    _set(holder, steps[-1], value)


def _steps(path: Any) -> list[str | int]:
    """Return the steps of a path: "$.a[0]" -> ["a", 0]."""
    if not isinstance(path, str) or not path.startswith("$"):
        raise Violation(f"'jsonPath' is a path, got {path!r:.80}")
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        match = STEP.match(path, at)
        if match is None or (match[2] is not None and int(match[2][:6]) >= MAX_INDEX):
            raise Violation(f"'jsonPath' is a path, got {path!r:.80}")
        name = next((group for group in (match[1], match[3], match[4]) if group is not None), "")
        steps.append(int(match[2]) if match[2] is not None else name)
        at = match.end()
    return steps


def _at(holder: Any, step: str | int) -> Any:
    if isinstance(holder, dict):
        return holder.get(step)
    return holder[step] if isinstance(step, int) and step < len(holder) else None


def _set(holder: Any, step: str | int, value: Any) -> None:
    if isinstance(holder, list) and isinstance(step, int):
        holder.extend([None] * (step + 1 - len(holder)))
    holder[step] = value

"""Findings: the faults that checks of a document report, with their places."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a document.

    `rule`: 1 to 8 for the specification's validation rules, a word for all others. `path`: the path in the document,
    e.g. `turns[3].messages[1].parts[0].tool_call_id`; empty for all of it. `message`: what is wrong and what to do.
    """

    rule: int | str
    severity: Severity
    path: str
    message: str


def joined(path: str, *steps: str | int) -> str:
    """Return `path` extended by `steps`; always ASCII, so that any terminal can print it."""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{json.dumps(step)}]"
    return path


def shown(value: Any) -> str:
    """Return a value for a message: on one line, short, and ASCII. Of containers, only the type is named."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value[:100] if isinstance(value, str) else value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def objects(owner: Any, key: str, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (path, item) for the objects in the list under `key`; the schema check reports other items."""
    value = owner.get(key)
    if isinstance(value, list):
        for number, item in enumerate(value):
            if isinstance(item, dict):
                yield joined(path, key, number), item


def texts(*keys: str, of: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, text) for each of `keys` whose value is a text."""
    for key in keys:
        if isinstance(of.get(key), str):
            yield joined(path, key), of[key]

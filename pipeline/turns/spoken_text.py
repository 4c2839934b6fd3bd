"""The texts of a turn that are searched. Pure.

There are three kinds: texts of users and agents, with the names of tools; thoughts of agents; results of tools. Values
in the content store (`content_ref`, `meta:refs`) are not searched; nor are arguments of calls, files, and content that
an interrupted turn had shown, but does not keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from pipeline.turns.content import RETURNS
from topics.part_kinds import CALLS

Kind = Literal["said", "thinking", "results"]
KINDS: Final[tuple[Kind, ...]] = ("said", "thinking", "results")
MAX_LEVELS: Final = 50  # levels of a tool's result that are read
SEPARATOR: Final = "\n"

Spoken = tuple[Kind, str]


def spoken(turn: Mapping[str, Any] | None) -> Iterator[Spoken]:
    """Yield (kind, text) of each piece of a ThreadProtocol turn, in order."""
    if turn is None:
        return
    for part in _list(turn.get("parts")):
        yield from _part(part)
    for message in _list(turn.get("messages")):
        for part in _list(message.get("parts")):
            yield from _part(part)


def tools_called(turn: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the names of the tools that a ThreadProtocol turn calls, one per call."""
    for message in _list((turn or {}).get("messages")):
        for part in _list(message.get("parts")):
            if part.get("part_kind") in CALLS and isinstance(part.get("tool_name"), str):
                yield part["tool_name"]


def _part(part: dict[str, Any]) -> Iterator[Spoken]:
    kind, content = str(part.get("part_kind")), part.get("content")
    if kind in ("text", "user-prompt"):
        for text in content if isinstance(content, list) else [content]:
            value = text.get("content", text.get("text")) if isinstance(text, dict) else text
            if isinstance(value, str):
                yield "said", value
    elif kind == "thinking":
        if isinstance(content, str):
            yield "thinking", content
    elif kind in CALLS:
        if isinstance(part.get("tool_name"), str):
            yield "said", part["tool_name"]
    elif kind in RETURNS and "content_ref" not in part:
        yield "results", SEPARATOR.join(_texts(content, MAX_LEVELS))


def _list(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(value: Any, deep: int) -> Iterator[str]:
    """Yield the texts and numbers in a JSON value, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, dict | list) and deep > 0:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item, deep - 1)

"""The weight of a record: its bytes, and about the memory that the JSON of its events takes beyond them once parsed.

The answer depends on the record alone, so that every machine and every version of Python cuts a run at the same place.
The figures are about those of CPython with 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

# Tests set these: compiled code would not look again at what is Final.
LARGE_RECORD = 65_536  # bytes; smaller ones weigh their bytes as long as their run is light
LIGHT = 2_097_152  # of a run: what its small records may take beyond their bytes is little, whatever they are
USUAL: Final = 32  # members of an event; texts and numbers in them are not worth the counting
EVENT: Final = 256  # it may be a part of its own
OBJECT: Final = 64
MEMBERS: Final = 136  # of an object that has any, beside MEMBER for each
MEMBER: Final = 24
ARRAY: Final = 64
ELEMENT: Final = 8
TEXT: Final = 48
NUMBER: Final = 32


def weight(size: int, events: Sequence[Any], before: int) -> int:
    """Of a record of `size` bytes whose run weighs `before` without it."""
    if size <= LARGE_RECORD and before + size <= LIGHT:
        return size
    return size + structure(events)


def structure(events: Sequence[Any]) -> int:
    """Return the memory that events, and the arrays and objects in them, take beyond their bytes."""
    found = EVENT * len(events)
    nodes: list[Any] = []
    for event in events:
        if event.__class__ is dict and len(event) <= USUAL:
            nodes.extend([value for value in event.values() if value.__class__ is dict or value.__class__ is list])
        elif event.__class__ is dict or event.__class__ is list:
            nodes.append(event)
    while nodes:
        node = nodes.pop()
        if node.__class__ is dict:
            found += OBJECT + (MEMBERS + MEMBER * len(node) if node else 0)
            node = node.values()
        else:
            found += ARRAY + ELEMENT * len(node)
        for value in node:
            kind = value.__class__
            if kind is str:
                found += TEXT
            elif kind is dict or kind is list:
                nodes.append(value)
            else:
                found += NUMBER
    return found

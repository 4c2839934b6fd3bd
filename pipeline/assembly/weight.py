"""The weight of a record: its bytes, and approximately the additional memory of its events once they are parsed.

It depends on the record alone, so that every machine and every version of Python cuts a run at the same record. The
constants are approximately those of 64-bit CPython.
"""

import sys
from collections.abc import Sequence
from typing import Any, Final

import orjson

# Not Final, since tests set these: compiled code would not read them again.
LARGE_RECORD = 65_536  # bytes; the weight of smaller ones is their bytes, as long as their run is light
LIGHT = 2_097_152  # of a run; up to this weight, its small records can't take much additional memory
USUAL_MEMBERS: Final = 32  # members of an event; up to this number, texts and numbers in them are not counted
EVENT: Final = 256  # it may become a message part
OBJECT: Final = 64
MEMBERS: Final = 136  # of an object that has any, in addition to MEMBER for each
MEMBER: Final = 24
ARRAY: Final = 64
ELEMENT: Final = 8
TEXT: Final = 48
NUMBER: Final = 32


def weight(size: int, events: Sequence[Any], before: int) -> int:
    """Return the weight of a record of `size` bytes; `before`: the weight of its run without it."""
    if size <= LARGE_RECORD and before + size <= LIGHT:
        return size
    return size + structure(events)


def unparsed_structure(value: bytes, most: int) -> int:
    """Return the additional memory of a record's events once it is parsed; `most`: as in `structure`."""
    try:
        return structure(orjson.loads(value)["events"], most)
    except (ValueError, TypeError, KeyError):  # it becomes a dead letter, as it is
        return 0


def structure(events: Sequence[Any], most: int = sys.maxsize) -> int:
    """Return the memory of events, arrays and objects beyond their bytes; above `most` it is not counted to its end."""
    total = EVENT * len(events)
    nodes: list[Any] = []
    for event in events:
        if event.__class__ is dict and len(event) <= USUAL_MEMBERS:
            nodes.extend([value for value in event.values() if value.__class__ is dict or value.__class__ is list])
        elif event.__class__ is dict or event.__class__ is list:
            nodes.append(event)
    while nodes and total <= most:
        node = nodes.pop()
        if node.__class__ is dict:
            total += OBJECT + (MEMBERS + MEMBER * len(node) if node else 0)
            node = node.values()
        else:
            total += ARRAY + ELEMENT * len(node)
        for value in node:
            kind = value.__class__
            if kind is str:
                total += TEXT
            elif kind is dict or kind is list:
                nodes.append(value)
            else:
                total += NUMBER
    return total

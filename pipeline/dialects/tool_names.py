"""Names and ids of tool calls as models' servers take them: they refuse a conversation that has others.

Threads hold what each wire said: names with dots and slashes, of other scripts or none at all, and ids that some SDK
made up. A character that servers refuse becomes `_`; an empty name or id becomes a word. Where an id stands for several
calls, as servers that count from 0 in each answer give them, the later ones get a number behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count
from typing import Final

ODD: Final = re.compile(r"[^a-zA-Z0-9_-]")


def tool_name(name: object) -> str:
    """-> letters, digits, `_` and `-`."""
    return ODD.sub("_", str(name or "unnamed"))


def call_id(identity: object) -> str:
    """-> letters, digits, `_` and `-`, as Anthropic's API asks."""
    return ODD.sub("_", str(identity or "call"))


class OwnIds:
    """Gives each call of a conversation one id, in the order of calls and results. `known`: the ids that it has."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)
        self._begun: set[str] = set()
        self._open: dict[str, list[str]] = {}  # of each id, what the calls are named whose results are to come

    def of_call(self, identity: str) -> str:
        """What the next call of this id is named."""
        name = identity
        if identity in self._begun:
            name = next(name for number in count(2) if (name := f"{identity}_{number}") not in self._known)
            self._known.add(name)
        self._begun.add(identity)
        self._open.setdefault(identity, []).append(name)
        return name

    def of_result(self, identity: str) -> str:
        """What the call of the next result of this id is named."""
        waiting = self._open.get(identity)
        return waiting.pop(0) if waiting else identity

"""The order, names and ids of exported messages, as servers of models take them.

Servers refuse a conversation in which a call lacks its result, or a result its call. Threads hold what each wire said:
names with dots and slashes, of other scripts or none at all, and ids that some SDK made up. A character that servers
refuse becomes `_`; an empty name or id becomes a word. Where an id stands for several calls, as servers that count from
0 in each answer give them, the later ones get a number behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final, Literal

from topics.json_text import Fields

Kind = Literal["asked", "answered"]

ODD: Final = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a format. `words`: the keys for which a message without calls is worth keeping."""

    role: str
    assistant: str
    tool: str
    answers: str  # the key of a result that names its call
    calls: tuple[str, ...]
    words: tuple[str, ...]


def paired(found: list[Fields], names: Names) -> list[Fields]:
    """Put the result of each call directly behind it; a call without one stays only at the end of the thread."""
    out: list[Fields] = []
    last = max((place for place, message in enumerate(found) if message[names.role] != names.tool), default=0)
    for place, message in enumerate(found):
        if message[names.role] == names.tool:
            continue
        if not any(message.get(key) for key in names.calls):
            out.append(message)
            continue
        behind = _results_behind(found, place, names)
        pending = place == last
        kept, answers = dict(message), list[Fields]()
        for key in names.calls:
            calls = []
            for call in kept.pop(key, ()):
                waiting = behind.get(call["id"])
                if waiting:  # calls of one id get their results in turn
                    answers.append(waiting.pop(0))
                    calls.append(call)
                elif pending:
                    calls.append(call)
            if key in message:
                kept[key] = calls
        if not any(kept.get(key) for key in names.calls):
            if not any(kept.get(key) for key in names.words):
                continue
            kept = {key: value for key, value in kept.items() if key not in names.calls}
        out += [kept, *answers]
    return out


def _results_behind(found: list[Fields], place: int, names: Names) -> dict[str, list[Fields]]:
    """Return the results up to the next answer, by the ids of their calls."""
    behind: dict[str, list[Fields]] = {}
    for later in map(found.__getitem__, range(place + 1, len(found))):  # a slice would copy the rest of the thread
        if later[names.role] == names.assistant:
            break
        if later[names.role] == names.tool:
            behind.setdefault(later[names.answers], []).append(later)
    return behind


def spoken(turn: Fields) -> Iterator[tuple[Kind, Fields]]:
    """Yield the `parts` of a turn in order, with who says them: a user turn or a request asks, a response answers.

    Other messages of the turn say nothing to a model.
    """
    if turn.get("turn_type") == "user":
        yield "asked", turn
        return
    for message in turn.get("messages", ()):
        if message.get("message_type") == "request":
            yield "asked", message
        elif message.get("message_type") == "response":
            yield "answered", message


def tool_name(name: object) -> str:
    """Return letters, digits, `_` and `-`."""
    return ODD.sub("_", str(name or "unnamed"))


def call_id(identity: object) -> str:
    """Return letters, digits, `_` and `-`, as Anthropic's API asks."""
    return ODD.sub("_", str(identity or "call"))


class OwnIds:
    """Gives each call of a conversation one id, in the order of calls and results. `known`: the ids that it has."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)
        self._begun: set[str] = set()
        self._open: dict[str, list[str]] = {}  # of each id, what the calls are named whose results are to come

    def of_call(self, identity: str) -> str:
        """Return the name of the next call of this id."""
        name = identity
        if identity in self._begun:
            name = next(name for number in count(2) if (name := f"{identity}_{number}") not in self._known)
            self._known.add(name)
        self._begun.add(identity)
        self._open.setdefault(identity, []).append(name)
        return name

    def of_result(self, identity: str) -> str:
        """Return the name of the call of the next result of this id."""
        waiting = self._open.get(identity)
        return waiting.pop(0) if waiting else identity

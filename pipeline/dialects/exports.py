"""The order, names, ids and arguments of exported messages, as model servers accept them; texts in streamed pieces.

Servers refuse a conversation with a call without a result, or a result without a call. Threads keep what each wire
sent: names with dots and slashes, in other scripts or empty, and ids that some SDK made up. A character that servers
refuse becomes `_`; an empty name or id becomes a word. If several calls have one id, since a server counts from 0 in
each answer, a number is appended to that of the later ones.

JavaScript reads an integer beyond 2^53 as the nearest double, as its SDKs do with every stream. A number beyond the
largest double becomes infinity, which it writes as null; to keep the number, it is sent as text.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal

from pipeline.turns.asides import is_aside
from topics import json_text
from topics.json_text import Fields
from turnmill.wire.nesting import with_room

Kind = Literal["asked", "answered"]

ODD: Final = re.compile(r"[^a-zA-Z0-9_-]")

PIECE: Final = re.compile(r".{1,24}(?:\s+|\Z)|.{1,24}", re.DOTALL)  # some words, or a part of a long one

INVALID: Final = "INVALID_JSON"  # the key of arguments that were not an object (`pipeline.turns.arguments`)

LARGEST: Final = int(sys.float_info.max)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a format. `words`: keys for which a message is kept even without calls."""

    role: str
    assistant: str
    tool: str
    answers: str  # the key of a result that refers to its call
    calls: tuple[str, ...]
    words: tuple[str, ...]


def paired(messages: list[Fields], names: Names) -> list[Fields]:
    """Put each call's result directly after it; a call without result is kept only at the end of the thread."""
    out: list[Fields] = []
    last = max((index for index, message in enumerate(messages) if message[names.role] != names.tool), default=0)
    for index, message in enumerate(messages):
        if message[names.role] == names.tool:
            continue
        if not any(message.get(key) for key in names.calls):
            out.append(message)
            continue
        behind = _results_behind(messages, index, names)
        pending = index == last
        kept, answers = dict(message), list[Fields]()
        for key in names.calls:
            calls = []
            for call in kept.pop(key, ()):
                waiting = behind.get(call["id"])
                if waiting:  # calls with the same id get their results in order
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


def _results_behind(messages: list[Fields], index: int, names: Names) -> dict[str, list[Fields]]:
    """Return the results up to the next answer, by the ids of their calls."""
    behind: dict[str, list[Fields]] = {}
    # Not of a slice, which would copy the rest of the thread.
    for later in map(messages.__getitem__, range(index + 1, len(messages))):
        if later[names.role] == names.assistant:
            break
        if later[names.role] == names.tool:
            behind.setdefault(later[names.answers], []).append(later)
    return behind


def spoken(turn: Fields) -> Iterator[tuple[Kind, Fields]]:
    """Yield the `parts` of a turn in order, each with its kind: a user turn or a request asks, a response answers.

    A model gets no other messages of the turn.
    """
    if turn.get("turn_type") == "user":
        yield "asked", turn
        return
    for message in turn.get("messages", ()):
        if message.get("message_type") == "request":
            yield "asked", message
        elif message.get("message_type") == "response" and not is_aside(message):
            yield "answered", message


def tool_name(name: object) -> str:
    """Return the name in letters, digits, `_` and `-`."""
    return ODD.sub("_", str(name or "unnamed"))


def call_id(identity: object) -> str:
    """Return the id in letters, digits, `_` and `-`, as Anthropic's API requires."""
    return ODD.sub("_", str(identity or "call"))


class OwnIds:
    """Gives each call of a conversation a unique id, in the order of calls and results. `known`: the existing ids."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)
        self._begun: set[str] = set()
        self._open: dict[str, list[str]] = {}  # by id: the new ids of calls whose results have not come yet

    def of_call(self, identity: str) -> str:
        """Return the new id of the next call with this id."""
        name = identity
        if identity in self._begun:
            name = next(name for number in count(2) if (name := f"{identity}_{number}") not in self._known)
            self._known.add(name)
        self._begun.add(identity)
        self._open.setdefault(identity, []).append(name)
        return name

    def of_result(self, identity: str) -> str:
        """Return the new id of the call that the next result with this id answers."""
        waiting = self._open.get(identity)
        return waiting.pop(0) if waiting else identity


def pieces(text: str) -> list[str]:
    """Return a text cut into pieces of some words each."""
    return PIECE.findall(text)


def args_text(args: Any) -> str:
    """Return the arguments of a call as the model wrote them: JSON, or the text that was not JSON."""
    if isinstance(args, dict) and args.keys() == {INVALID} and isinstance(args[INVALID], str):
        return args[INVALID]
    return args if isinstance(args, str) else json_text.dumps({} if args is None else args)


def readable(value: Any) -> Any:
    """Return a JSON value with integers beyond the largest double as text."""
    return with_room(lambda: _readable(value))


def _readable(value: Any) -> Any:
    match value:
        case dict():
            return {key: _readable(item) for key, item in value.items()}
        case list():
            return [_readable(item) for item in value]
        case int() if not -LARGEST <= value <= LARGEST:
            return str(value)
    return value

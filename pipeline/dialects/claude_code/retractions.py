"""Lines of Claude Code that take back earlier lines: answers that the model refused, or whose calls it could not parse.

`supersedes` of an `assistant` line and `retracted_message_uuids` of a `system` line name earlier lines by their uuids
(Claude Code 2.1.332; `sdk.d.ts` of its Agent SDK). Unknown names, and those of lines that are gone already, change
nothing. What is taken back is in `meta:retracted` of the turn.
"""

from collections.abc import Iterable
from typing import Any, Final

from pipeline.assembly.parts import Message, Part
from pipeline.dialects.asked_parts import retract
from pipeline.dialects.claude_code.session import Session, Thread
from topics.json_text import Fields

PURPOSE: Final = "retracted"


def named(event: Fields) -> list[str]:
    """Return the uuids of the lines that a line takes back."""
    for key in ("supersedes", "retracted_message_uuids"):
        if isinstance(event.get(key), list):
            return [name for name in event[key] if isinstance(name, str)]
    return []


def take_back(session: Session, names: Iterable[str]) -> None:
    """Take the parts of these lines out of the conversation."""
    gone = {id(part) for name in names for part in session.said.pop(name, ())}
    for thread in session.threads.values() if gone else ():
        taken = [(message, [part for part in message.parts if id(part) in gone]) for message in thread.builder.messages]
        taken = [(message, parts) for message, parts in taken if parts]
        if taken:
            _take(thread, taken, gone)


def _take(thread: Thread, taken: list[tuple[Message, list[Part]]], gone: set[int]) -> None:
    builder = thread.builder
    retract(builder, taken)
    for message, _ in taken:
        message.parts = [part for part in message.parts if id(part) not in gone]
    empty = [message for message, _ in taken if not message.parts]
    builder.messages = [message for message in builder.messages if not _is_in(message, empty)]
    builder.calls = {name: entry for name, entry in builder.calls.items() if id(entry[1]) not in gone}
    for message in builder.messages:
        if _is_in(message.request, empty):
            message.request = None
    if _is_in(builder.response, empty):
        builder.response = None
        thread.shut()
    for message in empty:
        if builder.context.imported:  # no `result` follows, whose sums have it
            builder.bill(PURPOSE, message.fields)


def _is_in(message: Any, messages: list[Message]) -> bool:
    return any(message is other for other in messages)

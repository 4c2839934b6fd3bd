"""Whole AG-UI messages: of a snapshot, of the request, of a history."""

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Part
from pipeline.dialects.ag_ui.content import call_fields
from pipeline.dialects.ag_ui.stream import Item, Stream, get, note, objects, text_of
from pipeline.dialects.ag_ui.text import CALL, THOUGHT
from pipeline.turns.arguments import arguments
from topics.json_text import Fields

SPEAKERS: Final = frozenset({"assistant", "reasoning", "user", "system", "developer", "tool"})
OF_MESSAGE: Final = ("name", "encryptedValue")
OF_RESULT: Final = ("toolCallId", "content", "error", "encryptedValue")


def item_of(message: Fields, at: int) -> Item | None:
    """Return a message's entry in the flat list; None if its role is unknown."""
    role, message_id = message.get("role"), get(message, "id")
    if role not in SPEAKERS:
        return None
    item = Item(role, message_id if isinstance(message_id, str) else "", at, at)
    content = message.get("content")
    if role == "tool":
        text_of(message, "toolCallId")
        item.attrs = {"content": "", **_named_fields(message, OF_RESULT)}
        return item
    item.attrs = _named_fields(message, OF_MESSAGE)
    if role == "user":
        item.attrs["content"] = content
    elif isinstance(content, str) and content:
        kind = "thinking" if role == "reasoning" else "text"
        item.texts.append(Part({"part_kind": kind, "content": content}, done=True))
    for call in objects(get(message, "toolCalls")):
        item.calls.append(_call(call))
    return item


def _named_fields(message: Fields, names: tuple[str, ...]) -> Fields:
    return {name: get(message, name) for name in names if get(message, name) is not None}


def _call(call: Fields) -> Part:
    function = call["function"]
    written, encrypted = function.get("arguments"), get(call, "encryptedValue")
    part = Part(call_fields(text_of(call, "id"), text_of(function, "name")), done=True)
    part.chunks = [written] if isinstance(written, str) else []
    part.fields["args"] = arguments(written) if isinstance(written, str) else written or {}
    note(part.fields, {"encryptedValue": encrypted})
    return part


def call_id_of(part: Part) -> str:
    """Return a call's id as the wire has it."""
    fields = part.fields
    if fields["part_kind"] == "tool-call":
        return str(fields["tool_call_id"])
    return f"pyd_ai_builtin|{fields.get('provider_name', '')}|{fields['tool_call_id']}"


def replace(builder: Builder, stream: Stream, messages: list[Any]) -> None:
    """Replace the streamed messages by the whole conversation.

    A message with a known id is replaced, a missing one is removed, the others are appended. Thoughts stay if the
    snapshot has none at all. Messages older than the run are not part of its turn.
    """
    given = [item for item in (item_of(message, builder.at) for message in objects(messages)) if item is not None]
    new = given[_begins(stream, given) :]
    wanted = {(item.role, item.id): item for item in new if item.id}
    thoughts = any(item.role == "reasoning" for item in given)
    kept: list[Item] = []
    for item in stream.items:
        other = wanted.get((item.role, item.id))
        if item.role == "event" or item.given or (item.role == "reasoning" and not thoughts):
            kept.append(item)
        elif other is not None and other not in kept:
            other.at, other.last_at, other.usage = item.at, item.last_at, item.usage
            _go_on(builder, stream, item, other)
            kept.append(other)
        else:
            _forget(builder, stream, item)
    write_items(stream, kept + [item for item in new if item not in kept])


def write_items(stream: Stream, items: list[Item]) -> None:
    """Set the flat list to these items."""
    stream.items = items
    for item in items:
        for part in item.calls:
            stream.calls[call_id_of(part)] = (item, part)


def _begins(stream: Stream, given: list[Item]) -> int:
    """Return where the run's messages begin: after the last one of the request, or after the user's last one."""
    streamed = {(item.role, item.id) for item in stream.items if not item.given}
    old = [n for n, item in enumerate(given) if item.id in stream.known and (item.role, item.id) not in streamed]
    if not old:
        old = [n for n, item in enumerate(given) if item.role == "user" and (item.role, item.id) not in streamed]
    return old[-1] + 1 if old else 0


def _go_on(builder: Builder, stream: Stream, item: Item, other: Item) -> None:
    """Let open parts of a message continue after the snapshot's text of it."""
    key = stream.key(THOUGHT + item.id if item.role == "reasoning" else item.id)
    if key in builder.open_text:
        if not other.texts:
            other.texts.append(Part({"part_kind": "thinking" if item.role == "reasoning" else "text", "content": ""}))
        other.texts[-1].done = False
        builder.open_text[key] = other.texts[-1]
    for part in other.calls:
        key = stream.key(CALL + call_id_of(part))
        if key in builder.open_text:
            part.done = False
            builder.open_text[key] = part


def _forget(builder: Builder, stream: Stream, item: Item) -> None:
    for part in item.calls:
        stream.calls.pop(call_id_of(part), None)
        builder.open_text.pop(stream.key(CALL + call_id_of(part)), None)
    builder.open_text.pop(stream.key(THOUGHT + item.id if item.role == "reasoning" else item.id), None)

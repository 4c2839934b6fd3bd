"""Fragments: the partial output of an agent. The whole event repeats all of it, and replaces them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.google_adk.event import Event
from pipeline.dialects.google_adk.memory import Fragments, Memory
from pipeline.dialects.speakers import speaker
from topics.json_text import Fields

VARIED: Final = dict.fromkeys(("content", "id", "timestamp"))  # fields in which fragments always differ


def add(builder: Builder, event: Event) -> None:
    """Append a fragment to its agent's current output, as parts without an end.

    A call in a fragment may lack arguments that come in pieces: only the call of the whole event counts.
    """
    pieces = [piece for part in event.parts.values() if (piece := _part_and_text(part)) is not None]
    if not pieces:
        return
    begun = _begun(builder, event)
    for fields, text in pieces:
        last = begun.message.parts[-1] if begun.message.parts else None
        if last is None or "args" in fields or last.fields["part_kind"] != fields["part_kind"]:
            last = Part(fields)
            begun.message.parts.append(last)
        last.chunks.append(text)
        builder.open_text[event.voice] = last


class Text(NamedTuple):
    """The text of a fragment, and the kind of its part."""

    kind: str
    text: str


def text_of(event: Any) -> Text | None:
    """Return the text of a fragment that consists of one text; None for any other event."""
    if event.__class__ is not dict or event.get("partial") is not True or event.get("id").__class__ is not str:
        return None
    content = event.get("content")
    parts = content.get("parts") if content.__class__ is dict else None
    if parts.__class__ is not list or len(parts) != 1 or parts[0].__class__ is not dict:
        return None
    part = parts[0]
    text = part.get("text")
    if text.__class__ is not str or not text:
        return None
    if len(part) == 1:
        return Text("text", text)
    return Text("thinking", text) if len(part) == 2 and part.get("thought") is True else None


def _begun(builder: Builder, event: Event) -> Fragments:
    """Return the agent's current response; a new response if earlier events were lost."""
    memory: Memory = builder.scratch
    begun = memory.open.get(event.voice)
    if begun is not None and event.voice not in builder.open_text:  # cleared when events are missing
        builder.messages.remove(begun.message)
        begun = None
    if begun is None:
        fields: Fields = {"agent_id": speaker(builder, event.author)}
        begun = memory.open[event.voice] = Fragments(Message("response", builder.at, fields=fields), event.id)
        begun.message.first_part_at = builder.at
        builder.messages.append(begun.message)
    begun.event_id = event.id
    return begun


def _part_and_text(part: Fields) -> tuple[Fields, str] | None:
    """Return an incomplete part, and the text that the fragment adds."""
    match part:
        case {"text": str(text)}:
            return {"part_kind": "thinking" if part.get("thought") is True else "text", "content": ""}, text
        case {"functionCall": {"name": str(name), **call}}:
            call_id = call.get("id") if isinstance(call.get("id"), str) else ""
            return {"part_kind": "tool-call", "tool_name": name, "tool_call_id": call_id, "args": call.get("args")}, ""
    return None

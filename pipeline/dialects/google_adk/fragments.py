"""Fragments: what an agent has said so far. The whole event brings all of it again, so they count for nothing then."""

from __future__ import annotations

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.google_adk.event import Event
from pipeline.dialects.google_adk.memory import Fragments, Memory
from pipeline.dialects.speakers import speaker
from topics.json_text import Fields

KINDS = {True: "thinking", False: "text"}


def add(builder: Builder, event: Event) -> None:
    """Append a fragment to what its agent is saying, as parts without an end.

    A call in a fragment is shown without its arguments, which may come in pieces: it is real in the whole event only.
    """
    pieces = [piece for part in event.parts.values() if (piece := _piece(part)) is not None]
    if not pieces:
        return
    begun = _begun(builder, event)
    for kind, text in pieces:
        last = begun.message.parts[-1] if begun.message.parts else None
        if kind == "tool-call":
            last = Part({"part_kind": kind, "tool_name": text, "tool_call_id": event.id, "args": None})
            begun.message.parts.append(last)
        else:
            if last is None or last.fields["part_kind"] != kind:
                last = Part({"part_kind": kind, "content": ""})
                begun.message.parts.append(last)
            last.chunks.append(text)
        builder.open_text[event.voice] = last


def _begun(builder: Builder, event: Event) -> Fragments:
    """The agent's response under way; a new one where events before this one were lost."""
    memory: Memory = builder.scratch
    begun = memory.open.get(event.voice)
    if begun is not None and event.voice not in builder.open_text:  # they are cleared where events are missing
        builder.messages.remove(begun.message)
        begun = None
    if begun is None:
        fields: Fields = {"agent_id": speaker(builder, event.author)}
        begun = memory.open[event.voice] = Fragments(Message("response", builder.at, fields=fields), event.id)
        begun.message.first_part_at = builder.at
        builder.messages.append(begun.message)
    begun.event_id = event.id
    return begun


def _piece(part: Fields) -> tuple[str, str] | None:
    match part:
        case {"text": str(text)}:
            return KINDS[part.get("thought") is True], text
        case {"functionCall": {"name": str(name)}}:
            return "tool-call", name
    return None

"""Text and reasoning of a UI message stream: the hot path."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Part
from pipeline.dialects.vercel_ai.stream import Event, note, provider_fields, text_of

OF_TEXT: Final = ("id", "provider_name", "provider_details")
OF_THINKING: Final = ("signature", "provider_name", "provider_details")


def text_start(builder: Builder, event: Event) -> None:
    """Begin a text part. An open one with the same id stays unfinished."""
    _describe_text(builder.text_start(text_of(event, "id")), event)


def text_delta(builder: Builder, event: Event) -> None:
    """Append to an open text."""
    delta = event["delta"]
    if delta.__class__ is not str:
        raise Violation(f"text-delta: 'delta' must be a string, got {delta!r:.80}")
    part = builder.open_text[event["id"]]
    part.chunks.append(delta)
    if len(event) > 3:
        _describe_text(part, event)


def text_end(builder: Builder, event: Event) -> None:
    """Complete the text."""
    part = builder.open_text[event["id"]]
    _describe_text(part, event)
    note(part.fields, {"citations": event.get("citations")})
    builder.text_end(event["id"])


def reasoning_start(builder: Builder, event: Event) -> None:
    """Begin a thinking part. An open one with the same id stays unfinished."""
    part = builder.thinking_start(text_of(event, "id"))
    note(part.fields, {"id": event["id"]})
    _describe_thinking(part, event)


def reasoning_delta(builder: Builder, event: Event) -> None:
    """Append to an open thinking part."""
    delta = event["delta"]
    if delta.__class__ is not str:
        raise Violation(f"reasoning-delta: 'delta' must be a string, got {delta!r:.80}")
    part = builder.open_thinking[event["id"]]
    part.chunks.append(delta)
    if len(event) > 3:
        _describe_thinking(part, event)


def reasoning_end(builder: Builder, event: Event) -> None:
    """Complete the thinking part; its signature usually comes with this event."""
    _describe_thinking(builder.open_thinking[event["id"]], event)
    builder.thinking_end(event["id"])


def _describe_text(part: Part, event: Event) -> None:
    metadata = event.get("providerMetadata")
    if metadata is not None:
        note(part.fields, {"providerMetadata": metadata})
        fields = provider_fields(metadata)
        part.fields.update({key: fields[key] for key in OF_TEXT if key in fields})


def _describe_thinking(part: Part, event: Event) -> None:
    metadata = event.get("providerMetadata")
    if metadata is not None:
        note(part.fields, {"providerMetadata": metadata})
        fields = provider_fields(metadata)
        part.fields.update({key: fields[key] for key in OF_THINKING if key in fields})
        if "id" in fields:
            part.fields["thinking_id"] = fields["id"]

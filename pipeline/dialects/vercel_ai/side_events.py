"""Handlers of a UI message stream's files, sources, data, steering messages and unknown events."""

from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Part
from pipeline.assembly.telemetry import FEEDBACK
from pipeline.dialects.tp_events import interpret
from pipeline.dialects.vercel_ai import from_pydantic_ai as pydantic
from pipeline.dialects.vercel_ai.content import file_content, user_prompt
from pipeline.dialects.vercel_ai.stream import OF_TEXT, Event, note, provider_fields, stream_of, text_of
from topics.json_text import Fields, present
from turnmill.identity import turn_id


def file(builder: Builder, event: Event) -> None:
    """Add a file that the model made, or (reasoning-file) used in its reasoning."""
    url, media_type = text_of(event, "url"), text_of(event, "mediaType")
    fields: Fields = {"part_kind": "file", "content": file_content(url, media_type)}
    provider = provider_fields(event.get("providerMetadata"))
    fields.update({key: provider[key] for key in OF_TEXT if key in provider})
    by_value = "data" in fields["content"] and not url.startswith(f"data:{media_type};base64,")
    kind = event["type"] if event["type"] != "file" else None
    note(fields, {"type": kind, "url": url if by_value else None, "providerMetadata": event.get("providerMetadata")})
    builder.add_part(fields)


def custom(builder: Builder, event: Event) -> None:
    """Add a provider's kind of content."""
    fields: Fields = {"part_kind": f"custom:{text_of(event, 'kind')}"}
    note(fields, {"providerMetadata": event.get("providerMetadata")})
    builder.add_part(fields)


def source_url(builder: Builder, event: Event) -> None:
    """Add a source by its address."""
    fields = {"source_id": event["sourceId"], "url": text_of(event, "url"), "title": event.get("title")}
    _source(builder, "source.url", fields, event)


def source_document(builder: Builder, event: Event) -> None:
    """Add a source by its title."""
    fields = {"source_id": event["sourceId"], "media_type": event["mediaType"], "title": text_of(event, "title")}
    _source(builder, "source.document", {**fields, "filename": event.get("filename")}, event)


def _source(builder: Builder, event_type: str, fields: Fields, event: Event) -> None:
    message = builder.system(event_type, present(fields))
    note(message.fields, {"providerMetadata": event.get("providerMetadata")})


def data(builder: Builder, event: Event) -> None:
    """Handle data-*: telemetry, ThreadProtocol's or the application's. The same type and id replaces its data."""
    kind, value = event["type"], event.get("data")
    key = (kind, event["id"]) if isinstance(event.get("id"), str) else None
    if kind.startswith("data-sys-"):
        builder.sys_event(kind, value)
    elif kind.startswith("data-tp-"):
        interpret(builder, kind, value)
    elif kind == FEEDBACK:
        interpret(builder, kind, value if key is None else _of_part(builder, event["id"], value))
    if event.get("transient") and not kind.startswith("data-tp-"):
        return
    if kind == "data-compaction" and pydantic.compaction(builder, event):
        return
    if kind == "data-enqueued-messages":
        pydantic.enqueued_messages(builder, event)
    known = stream_of(builder).data
    if key in known:
        known[key].fields["event_data"] = value
        return
    message = builder.system(kind, value)
    note(message.fields, {name: value for name, value in event.items() if name not in ("type", "data")})
    if key is not None:
        known[key] = message


def _of_part(builder: Builder, part: str, value: Any) -> Any:
    """Return feedback with an id made from its part's: the next one in a part with that id replaces it."""
    context = builder.context
    name = turn_id(context.thread_id, context.run_id, f"feedback in {part}")
    return {"id": name, **value} if isinstance(value, dict) else value


def unknown(builder: Builder, event: Event) -> None:
    """Handle data-* of any name; keep events of other kinds as the application's."""
    kind = event["type"]
    if not isinstance(kind, str):
        raise TypeError(kind)
    if kind.startswith("data-"):
        data(builder, event)
    else:
        builder.system(f"data-app-{kind}", {name: value for name, value in event.items() if name != "type"})


def steering_message(builder: Builder, event: Event) -> None:
    """Add the user's message during the run: a prompt after the results of the step."""
    parts = event["parts"]
    prompt = user_prompt(parts)
    if prompt is not None:
        note(prompt, {"id": event.get("id"), "steering": parts})
        builder.close_response(keep_open=True)
        builder.request_after(None).parts.append(Part(prompt, done=True))

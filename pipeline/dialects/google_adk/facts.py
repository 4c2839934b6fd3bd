"""Facts beside the conversation in events, as system messages: state, artifacts, transfers, errors, sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.dialects.google_adk.event import SILENT, Event, Memory
from pipeline.dialects.google_adk.parts import META, camel
from pipeline.dialects.speakers import hand_off
from pipeline.dialects.wire_values import objects
from topics import json_text
from topics.json_text import Fields

PREFIX: Final = "custom:google-adk."
AUTH: Final = "requestedAuthConfigs"  # contains client secrets
IN_RETURN: Final = frozenset({"skipSummarization", "setModelResponse"})  # repeated in the return, or without content


def tell(builder: Builder, event: Event) -> None:
    """Add a system message for each new fact of a whole event."""
    memory: Memory = builder.scratch
    facts = [*_actions(event), *_sources(event), *_rest(event), *_error(event, memory)]
    if not facts or not memory.is_new(event.id, "facts", facts):
        return
    for event_type, data in facts:
        if event_type == "handoff":
            hand_off(builder, data["from"], data["to"], **{META: event.identity})
        else:
            builder.system(event_type, data, **{META: event.identity})


def fail(builder: Builder, line: Fields) -> None:
    """Fail the run by the server's last line, `{"error": …}`. ADK 2 has the reason in an earlier event."""
    memory: Memory = builder.scratch
    text = line["error"] if isinstance(line["error"], str) else json_text.dumps(line["error"])
    details = line.get("errorDetails")
    reason = details.get("error_message", details.get("errorMessage")) if isinstance(details, dict) else None
    if memory.error is None or reason != memory.error:
        builder.system("error", {"message": text} | ({"details": details} if details is not None else {}))
    builder.error_text = text
    builder.ended = "error"


def _actions(event: Event) -> Iterator[tuple[str, Any]]:
    for name, value in event.actions.items():
        if name == "transferToAgent" and isinstance(value, str):
            yield "handoff", {"from": event.author, "to": value}
        elif name == AUTH:
            yield PREFIX + name, {"tool_call_ids": sorted(value) if isinstance(value, dict) else []}
        elif name not in IN_RETURN:
            yield PREFIX + name, value


def _sources(event: Event) -> Iterator[tuple[str, Any]]:
    """Yield the pages that a response is based on, or quotes."""
    for number, (url, title) in enumerate(pages(event.fields).items()):
        source = {"source_id": f"{event.id}:{number}", "url": url}
        yield "source.url", source if title is None else {**source, "title": title}


def pages(fields: Fields) -> dict[str, Any]:
    """Return the pages in `groundingMetadata` and `citationMetadata`: URL -> title, or None."""
    chunks = _objects_under(fields.get("groundingMetadata"), "groundingChunks")
    pages = [page for chunk in chunks for page in (chunk.get("web"), chunk.get("retrievedContext"))]
    urls: dict[str, Any] = {}
    for page in [*pages, *_objects_under(fields.get("citationMetadata"), "citations")]:
        if isinstance(page, dict) and isinstance(page.get("uri"), str):
            urls[page["uri"]] = urls.get(page["uri"]) or page.get("title")
    return urls


def _objects_under(holder: Any, name: str) -> list[Fields]:
    if not isinstance(holder, dict):
        return []
    return objects(next((value for key, value in holder.items() if camel(key) == name), None))


def _rest(event: Event) -> Iterator[tuple[str, Any]]:
    """Yield the facts of an event without parts; with parts, the message contains them."""
    rest = {key: value for key, value in event.fields.items() if key not in SILENT and value not in ([], {})}
    if rest and not event.parts:
        yield f"{PREFIX}event", rest


def _error(event: Event, memory: Memory) -> Iterator[tuple[str, Any]]:
    """Yield an error. It doesn't end the run: the model may have been cut short, or may be called again."""
    code, text = event.fields.get("errorCode"), event.fields.get("errorMessage")
    if code is not None and not event.parts:
        memory.error = text if isinstance(text, str) else None
        yield "error", {"code": code} | ({"message": text} if text is not None else {})

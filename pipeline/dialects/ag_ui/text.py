"""Texts, thoughts and calls of an AG-UI stream, from deltas: the hot path."""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Delta, Stretch, Violation
from pipeline.assembly.parts import Part
from pipeline.dialects.ag_ui.stream import (
    BUILTIN,
    SNAKE,
    Item,
    Stream,
    get,
    note,
    stream_of,
    tanstack,
    text_of,
    unknown_fields,
)
from pipeline.dialects.signatures import SIGNATURE
from pipeline.turns.arguments import arguments
from pipeline.turns.text import join
from topics.json_text import Fields

JOIN_AFTER: Final = 256  # deltas of one part that are joined: as separate short texts they take three times the memory
CALL: Final = "call:"  # prefix of a call's key among the builder's open parts, which are closed when events are missing
THOUGHT: Final = "reasoning:"
PREFIXES: Final = {"text": "", "thinking": THOUGHT, "arguments": CALL}


def text_start(builder: Builder, event: Fields) -> None:
    """Begin a message, or continue the one with this id."""
    stream, message_id = stream_of(builder, event), text_of(event, "messageId")
    part = _open_part(builder, stream, "", message_id, get(event, "role"))
    note(part.fields, {"name": event.get("name"), "fields": unknown_fields(event)})


def text_content(builder: Builder, event: Fields) -> None:
    """Append to a message; one without a start begins here."""
    stream, message_id, delta = stream_of(builder, event), text_of(event, "messageId"), text_of(event, "delta")
    _append(_open_part(builder, stream, "", message_id, begins=False), delta)


def text_end(builder: Builder, event: Fields) -> None:
    """End the message; a later start with its id continues it."""
    stream, message_id = stream_of(builder, event), text_of(event, "messageId")
    _end(builder, stream, message_id, stream.key(message_id))


def text_chunk(builder: Builder, event: Fields) -> None:
    """Handle START and CONTENT in one event; without an id it continues the previous chunk."""
    _chunk(builder, event, "")


def thought_start(builder: Builder, event: Fields) -> None:
    """Begin a thought; thoughts of 0.x have no id."""
    stream, message_id = stream_of(builder, event), get(event, "messageId")
    if message_id is None:
        stream.thoughts += 1
    part = _open_part(builder, stream, THOUGHT, _thought_id(stream, event))
    note(part.fields, {"fields": unknown_fields(event)})


def thought_content(builder: Builder, event: Fields) -> None:
    """Append to a thought."""
    stream, delta = stream_of(builder, event), text_of(event, "delta")
    _append(_open_part(builder, stream, THOUGHT, _thought_id(stream, event), begins=False), delta)


def thought_end(builder: Builder, event: Fields) -> None:
    """End the thought."""
    stream = stream_of(builder, event)
    message_id = _thought_id(stream, event)
    _end(builder, stream, message_id, stream.key(THOUGHT + message_id))


def thought_chunk(builder: Builder, event: Fields) -> None:
    """Handle START and CONTENT of a thought in one event."""
    _chunk(builder, event, THOUGHT)


def _chunk(builder: Builder, event: Fields, prefix: str) -> None:
    stream, message_id, delta = stream_of(builder, event), get(event, "messageId"), get(event, "delta")
    part = builder.open_text.get(stream.chunked) if message_id is None and stream.chunked is not None else None
    if part is None:
        message_id = text_of(event, "messageId")
        key = stream.key(prefix + message_id)
        if stream.chunked != key:
            end_chunks(builder, stream)
        part = _open_part(builder, stream, prefix, message_id, get(event, "role"), begins=False)
        stream.chunked = key
    _append(part, text_of(event, "delta") if delta is not None else "")


def call_start(builder: Builder, event: Fields) -> None:
    """Begin a call in the message that it names; an unanswered call with the same id continues."""
    stream, call_id, name = stream_of(builder, event), text_of(event, "toolCallId"), text_of(event, "toolCallName")
    _open_call(builder, stream, call_id, name, get(event, "parentMessageId"))
    call = stream.calls[call_id][1]
    note(call.fields, {"fields": unknown_fields(event)})
    metadata = event.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("thoughtSignature"), str):  # TanStack, of Gemini's calls
        call.fields[SIGNATURE] = metadata["thoughtSignature"]


def call_args(builder: Builder, event: Fields) -> None:
    """Append to the text of the arguments."""
    stream, call_id, delta = stream_of(builder, event), text_of(event, "toolCallId"), text_of(event, "delta")
    _append(builder.open_text[stream.key(CALL + call_id)], delta)


def call_end(builder: Builder, event: Fields) -> None:
    """End the call's arguments; TanStack's end has those that were not streamed."""
    stream, call_id = stream_of(builder, event), text_of(event, "toolCallId")
    end_call(builder, stream, call_id)
    given = event.get("input", tanstack(event).get("input"))
    known = stream.calls.get(call_id)
    if isinstance(given, dict) and known is not None and not known[1].chunks:
        known[1].fields["args"] = given


def call_chunk(builder: Builder, event: Fields) -> None:
    """Handle START and ARGS in one event; another id ends the previous call."""
    stream, call_id, delta = stream_of(builder, event), get(event, "toolCallId"), get(event, "delta")
    key = stream.chunked if call_id is None else stream.key(CALL + text_of(event, "toolCallId"))
    if call_id is not None and key != stream.chunked:
        name = text_of(event, "toolCallName")
        end_chunks(builder, stream)
        _open_call(builder, stream, call_id, name, get(event, "parentMessageId"))
        stream.chunked = key
    if key is None:
        raise Violation("TOOL_CALL_CHUNK: the first chunk of a call needs its 'toolCallId'")
    _append(builder.open_text[key], text_of(event, "delta") if delta is not None else "")


def end_chunks(builder: Builder, stream: Stream) -> None:
    """End parts that came only in chunks, when something else begins."""
    part = builder.open_text.pop(stream.chunked, None) if stream.chunked is not None else None
    stream.chunked = None
    if part is not None:
        close(part)


def end_call(builder: Builder, stream: Stream, call_id: str) -> None:
    """End a call; its result may have ended it. Raises KeyError if it is not open."""
    if stream.key(CALL + call_id) not in builder.open_text and stream.answered(call_id):
        return
    part = builder.open_text.pop(stream.key(CALL + call_id))
    stream.calls[call_id][0].last_at = builder.at
    close(part)


def close(part: Part) -> None:
    """Close a text, a thought or a call."""
    if "args" in part.fields:
        part.fields["args"] = arguments(join(part.chunks))
    part.done = True


def stretch(kind: str | None, delta: Delta) -> Stretch:
    """Return the stretch of consecutive events of a type. Chunks may omit the part's name."""
    of_type = _chunks if str(kind).endswith("_CHUNK") else _contents
    return of_type(str(kind), str(delta.key), PREFIXES[delta.kind])


def _contents(kind: str, key: str, prefix: str) -> Stretch:
    def stretch(builder: Builder, events: list[Any], start: int) -> int:
        stream: Stream = builder.scratch["stream"]
        name = events[start].get(key)
        part = builder.open_text.get(prefix + name) if isinstance(name, str) else None
        if part is None or stream.chunked is not None or stream.over:
            return start
        texts: list[str] = []
        for at in range(start, len(events)):
            event = events[at]
            if not _is_plain(event, kind) or event.get(key) != name:
                break
            texts.append(event["delta"])
        return _append_all(part, texts, start)

    return stretch


def _chunks(kind: str, key: str, prefix: str) -> Stretch:
    def stretch(builder: Builder, events: list[Any], start: int) -> int:
        stream: Stream = builder.scratch["stream"]
        part = builder.open_text.get(stream.chunked) if stream.chunked is not None else None
        if part is None or stream.over:
            return start
        texts: list[str] = []
        for at in range(start, len(events)):
            event = events[at]
            if not _is_plain(event, kind) or SNAKE[key] in event:
                break
            name = event.get(key)
            if name is not None and (name.__class__ is not str or prefix + name != stream.chunked):
                break
            texts.append(event["delta"])
        return _append_all(part, texts, start)

    return stretch


def _is_plain(event: Any, kind: str) -> bool:
    return (
        event.__class__ is dict
        and event.get("type") == kind
        and event.get("delta").__class__ is str
        and "subagentRunId" not in event
        and "subagent_run_id" not in event
    )


def _append_all(part: Part, texts: list[str], start: int) -> int:
    if texts:
        _append(part, "".join(texts))
    return start + len(texts)


def call_fields(call_id: str, name: str) -> Fields:
    """Return a call's part without its arguments; if the provider ran it, with the provider's id."""
    head, _, rest = call_id.partition("|")
    provider, bar, identity = rest.partition("|")
    if head != BUILTIN or not bar:
        return {"part_kind": "tool-call", "tool_name": name, "tool_call_id": call_id, "args": None}
    kind = {"part_kind": "builtin-tool-call", "tool_name": name, "tool_call_id": identity, "args": None}
    return {**kind, "provider_name": provider} if provider else kind


def _open_part(
    builder: Builder, stream: Stream, prefix: str, message_id: str, role: Any = None, *, begins: bool = True
) -> Part:
    """Return the open text or thought of a message. Raises KeyError if its start was lost with other events."""
    key = stream.key(prefix + message_id)
    part = builder.open_text.get(key)
    if part is None:
        if builder.lossy and not begins:
            raise KeyError(message_id)
        part = Part({"part_kind": "thinking" if prefix else "text", "content": ""})
        speaker = "reasoning" if prefix else role if isinstance(role, str) else "assistant"
        stream.message(speaker, message_id, builder.at).texts.append(part)
        builder.open_text[key] = part
    return part


def _open_call(builder: Builder, stream: Stream, call_id: str, name: str, parent: Any) -> None:
    known = stream.calls.get(call_id)
    if known is not None and not stream.answered(call_id):
        part = known[1]
        part.done = False
    else:
        part = Part(call_fields(call_id, name))
        if isinstance(parent, str) and parent:
            item = stream.message("assistant", parent, builder.at)
        elif known is None:
            item = stream.message("assistant", call_id, builder.at)
        else:  # another call reuses the id of an answered one
            item = Item("assistant", call_id, builder.at, builder.at)
            stream.items.append(item)
        item.calls.append(part)
        stream.calls[call_id] = (item, part)
    builder.open_text[stream.key(CALL + call_id)] = part


def _end(builder: Builder, stream: Stream, message_id: str, key: str) -> None:
    """End an open part; ignore any other."""
    part = builder.open_text.pop(key, None)
    if part is not None:
        part.done = True
        for item in reversed(stream.items):
            if item.id == message_id and part in item.texts:
                item.last_at = builder.at
                break


def _thought_id(stream: Stream, event: Fields) -> str:
    message_id = get(event, "messageId")
    return text_of(event, "messageId") if message_id is not None else f"thinking-{stream.thoughts}"


def _append(part: Part, delta: str) -> None:
    part.chunks.append(delta)
    if len(part.chunks) % JOIN_AFTER == 0:
        part.compact()

"""LangGraph's streams, and the messages of LangChain."""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Format, Shown, StreamEnd
from pipeline.dialects.langgraph import events, formats, request
from pipeline.dialects.langgraph.shapes import MODES, V3, StreamEvent, message_of, stream_event
from pipeline.dialects.langgraph.stream import OF_TOOLS
from pipeline.dialects.records import dialect
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Loss
from topics.json_text import Fields, list_of

LANGGRAPH: Final = (
    Loss("response id", "not there, but for some providers", drop.response_fields("provider_response_id")),
    Loss("provider of texts and thoughts", "the response's", drop.part_fields("thinking", "provider_name")),
    Loss("why a call failed", "error", drop.answers(drop.failure)),
    Loss("ids of texts", "not there", drop.part_fields("text", "id", "provider_name", "provider_details")),
)


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire, by its mode, or by its messages if it has none: events have no type."""
    parsed = _heard(event)
    match parsed:
        case None:
            return False
        case StreamEvent(mode="error", data=data):
            return isinstance(data, dict) and isinstance(data.get("error"), str) and "type" not in data
        case StreamEvent(mode="messages", data=[raw, dict()]):
            return message_of(raw) is not None
        case StreamEvent(mode="updates", data=dict(nodes)) if nodes is event:
            return any(isinstance(wrote, dict) and _has_messages(wrote) for wrote in nodes.values())
        case StreamEvent(mode="values", data=dict(state)) if state is event:
            return _has_messages(state)
    return parsed.mode in MODES or parsed.mode.startswith(f"{V3}:")


def _has_messages(state: Fields) -> bool:
    messages = state.get("messages")
    return isinstance(messages, list) and any(message_of(raw) is not None for raw in messages)


def shows(event: Any) -> Sequence[Shown]:
    """Return text and thoughts of chunks, and the calls of tools; not of agents inside tools, nor of hidden calls."""
    parsed = _heard(event)
    if parsed is None or (parsed.namespace and parsed.namespace[0].startswith(OF_TOOLS)):
        return ()
    match parsed:
        case StreamEvent(mode="messages", data=[dict() as raw, dict()]):
            return _of_chunk(raw)
        case StreamEvent(
            mode="events", data={"event": "on_chat_model_stream", "data": {"chunk": dict() as raw}} as data
        ):
            tags = data.get("tags")
            return () if isinstance(tags, list) and events.HIDDEN in tags else _of_chunk(raw)
        case StreamEvent(mode="v3:messages", data={"delta": dict() as delta} | [{"delta": dict() as delta}, _]):
            return _of_delta(delta)
        case StreamEvent(mode="v3:tools", data={"event": "tool-started", "tool_name": str(name)}):
            return [Shown("tool", name)]
    return ()


def _of_chunk(raw: Fields) -> list[Shown]:
    message = message_of(raw)
    if message is None or message["type"] != "ai" or not message["chunk"]:
        return []
    content = message.get("content")
    shown = []
    for block in content if isinstance(content, list) else [content]:
        match block:
            case str(text) | {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)} if text:
                shown.append(Shown("text", text))
            case {"type": "thinking", "thinking": str(text)} | {"type": "reasoning", "reasoning": str(text)} if text:
                shown.append(Shown("thinking", text))
    for piece in list_of(message.get("tool_call_chunks")):
        match piece:
            case {"name": str(name)} if name:
                shown.append(Shown("tool", name))
    return shown


def _of_delta(delta: Fields) -> list[Shown]:
    match delta:
        case {"type": "text-delta", "text": str(text)}:
            return [Shown("text", text)]
        case {"type": "reasoning-delta", "reasoning": str(text)} | {"type": "reasoning-delta", "text": str(text)}:
            return [Shown("thinking", text)]
    return []


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """Return the end of a stream, in forms that have one: old servers, `astream_events` (the root's end), v3."""
    match _heard(event):
        case StreamEvent(mode="end", namespace=()):
            return "complete"
        case StreamEvent(mode="events", data={"event": "on_chain_end"} as data) if not data.get("parent_ids"):
            return "complete"
        case StreamEvent(mode="v3:lifecycle", namespace=(), data={"event": "completed" | "interrupted"}):
            return "complete"
    return before


def conversation(event: Any) -> str | None:
    """Return the graph's thread, from the metadata of messages."""
    match _heard(event):
        case StreamEvent(mode="messages", data=[_, {"thread_id": str(thread)}]):
            return thread or None
        case StreamEvent(mode="events", data={"metadata": {"thread_id": str(thread)}}):
            return thread or None
    return None


def _heard(event: Any) -> StreamEvent | None:
    try:
        return stream_event(event)
    except (TypeError, KeyError, AttributeError, ValueError):
        return None


DIALECT: Final = dialect(
    __name__,
    LANGGRAPH,
    unknown=events.read,
    begin=request.begin,
    history=request.repeated,
    formats=(Format("langchain", formats.messages, formats.READER),),
)

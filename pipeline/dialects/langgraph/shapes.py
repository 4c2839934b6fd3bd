"""LangGraph's streams, recognized by shape: platform SSE, tuples of `astream`, `astream_events` v2, protocol v3.

Every form is converted to a mode, a namespace (of the sub-graph; empty for the root) and data.
"""

from typing import Any, Final, NamedTuple

from topics.json_text import Fields

MODES: Final = frozenset(
    {"values", "updates", "messages", "custom", "tasks", "checkpoints", "debug", "events", "error", "end", "metadata"}
    | {"messages/metadata", "messages/partial", "messages/complete", "feedback"}
)
V3: Final = "v3"  # prefix of the methods of protocol v3, which may be named like modes
CLASSES: Final = {
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "assistant": "ai",
    "HumanMessage": "human",
    "HumanMessageChunk": "human",
    "user": "human",
    "ToolMessage": "tool",
    "ToolMessageChunk": "tool",
    "SystemMessage": "system",
    "SystemMessageChunk": "system",
    "developer": "system",
    "RemoveMessage": "remove",
}
KINDS: Final = frozenset({"ai", "human", "tool", "system", "remove", "function", "chat"})


class StreamEvent(NamedTuple):
    """One event. `token`: equal in a replay of the same event."""

    mode: str
    namespace: tuple[str, ...]
    data: Any
    token: Any = None


def stream_event(event: Fields) -> StreamEvent:
    """Return an event as mode, namespace and data. Raises TypeError if it has none of the shapes."""
    name = event.get("event")
    if isinstance(name, str):
        if name.startswith("on_") and "data" in event and "run_id" in event:
            return StreamEvent("events", (), event)
        data = event.get("data")
        if isinstance(data, dict) and data.get("type") == "event" and "method" in data:
            return _v3(data)
        if name == "data":  # LangServe, and servers of 2024: the data's shape decides
            return stream_event(data) if isinstance(data, dict) else _tuple(data)
        mode, *namespace = name.split("|")
        return StreamEvent(mode, tuple(namespace), data)
    if event.get("type") == "event" and "method" in event:
        return _v3(event)
    if "event" in event and "data" in event:
        return _tuple(event["data"])
    if isinstance(event.get("type"), str) and "ns" in event and "data" in event:
        return StreamEvent(event["type"], _namespace(event["ns"]), event["data"])
    return _alone(event)


def _v3(event: Fields) -> StreamEvent:
    params = event["params"]
    token = event.get("event_id", event.get("seq"))
    return StreamEvent(f"{V3}:{event['method']}", _namespace(params.get("namespace")), params.get("data"), token)


def _tuple(value: Any) -> StreamEvent:
    """Return a tuple that `astream` yields: of several modes, of sub-graphs, or of messages alone."""
    if not isinstance(value, list) or len(value) not in (2, 3):
        raise TypeError(f"neither a tuple nor an object: {value!r:.80}")
    if len(value) == 3:
        namespace, mode, data = value
        if not isinstance(mode, str):
            raise TypeError(f"a mode is a text, got {mode!r:.80}")
        return StreamEvent(mode, _namespace(namespace), data)
    first, second = value
    if isinstance(first, str):
        return StreamEvent(first, (), second)
    if isinstance(first, list):
        if isinstance(second, list):
            return StreamEvent("messages", _namespace(first), second)
        return _alone(second)._replace(namespace=_namespace(first))
    return StreamEvent("messages", (), value)


def _alone(data: Any) -> StreamEvent:
    """Return a state, or an update: {node: its output}."""
    if not isinstance(data, dict):
        raise TypeError(f"neither a state nor an update: {data!r:.80}")
    return StreamEvent("values" if isinstance(data.get("messages"), list) else "updates", (), data)


def _namespace(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def message_of(raw: Any) -> Fields | None:
    """Return a message in any of its serialisations as its fields.

    `type` is one of KINDS, `chunk` is set where it is a piece of one.
    """
    if not isinstance(raw, dict):
        return None
    fields, kind = raw, raw.get("type", raw.get("role"))
    if raw.get("lc") and isinstance(raw.get("kwargs"), dict):
        names = raw.get("id")
        fields, kind = raw["kwargs"], names[-1] if isinstance(names, list) and names else None
    elif isinstance(raw.get("data"), dict) and "content" not in raw:
        fields = raw["data"]
    if not isinstance(kind, str):
        return None
    plain = CLASSES.get(kind, kind)
    if plain not in KINDS:
        return None
    return {**fields, "type": plain, "chunk": kind.endswith("Chunk")}

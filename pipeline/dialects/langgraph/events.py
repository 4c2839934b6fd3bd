"""LangGraph's streams (dialect `langgraph`) in four forms: the platform's SSE, tuples, `astream_events`, protocol v3.

| mode or event | what it does |
|---|---|
| values | the whole state; the first is from before the run, the root's last is authoritative |
| updates | a node's output: whole messages, which replace chunks |
| … with RemoveMessage `__remove_all__` | a history that is written anew: what was said stays |
| a human message with `lc_source`, or new in such a history | SystemMessage custom:langgraph.notification |
| `__interrupt__` in both | SystemMessage custom:langgraph.interrupt |
| messages | chunks, added up by task and id; whole messages that were not streamed |
| messages/metadata, messages/partial, messages/complete | a message's metadata; the message so far; the whole message |
| on_chat_model_stream, on_chat_model_end | the same of `astream_events` |
| … with the tag `nostream` | if no state contains its message, a response beside the answer |
| on_chain_start, on_chain_stream, on_chain_end | of the root: its input, what nodes wrote, its last state and the end |
| lifecycle (v3) | of the root: completed, interrupted: the turn is complete; failed: it is not |
| on_chain_start, lifecycle running, of the root | from then on, only the root's end makes the turn complete |
| messages (v3) | content blocks of a message, and its tokens |
| input.requested (v3) | SystemMessage custom:langgraph.interrupt |
| tools (v3) | results, if no state contains them |
| on_tool_start, on_tool_end | nothing: the state has the results |
| custom, on_custom_event | {type: data-sys-*, data}: telemetry; else SystemMessage custom:langgraph.custom |
| {type: data-feedback, data} in them | feedback, too |
| error | SystemMessage `error`; the turn is interrupted |
| end | the turn is complete; an error after it is kept beside the answer |
| checkpoints, debug | the ids of checkpoints: if this run is another version of one; debug also has request headers |
| metadata, feedback, tasks | nothing |
| any other | SystemMessage data-app-MODE |

Source: langchain-ai/langgraph (pregel, langgraph-api), and how `add_messages` changes the state.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Stretch
from pipeline.assembly.parts import Message
from pipeline.assembly.telemetry import FEEDBACK
from pipeline.dialects.langgraph import request
from pipeline.dialects.langgraph.protocol_v3 import message_event
from pipeline.dialects.langgraph.shapes import V3, StreamEvent, message_of, stream_event
from pipeline.dialects.langgraph.stream import TASK, Stream, is_text
from pipeline.dialects.langgraph.turn import write
from pipeline.dialects.wire_values import text_or_none
from topics.json_text import Fields, list_of, object_of

SPOKEN: Final = {"on_chat_model_stream": "chunk", "on_chat_model_end": "output"}
HIDDEN: Final = "nostream"  # the tag of a model's call that LangGraph does not stream
SUMMARISER: Final = "SummarizationMiddleware"  # in the names of its nodes

Mode = Callable[[Builder, Stream, StreamEvent], None]


def read(builder: Builder, event: Fields) -> None:
    """Handle any event, whatever its form. After the end, only errors and unknown events are kept."""
    stream: Stream = builder.scratch["stream"]
    parsed = stream_event(event)
    if parsed.token is not None:
        if parsed.token in stream.replays:
            return
        stream.replays.add(parsed.token)
    mode = MODES.get(parsed.mode)
    if mode is None:
        _add_system_message(builder, stream, f"data-app-{parsed.mode.removeprefix(f'{V3}:')}", parsed.data)
    elif not stream.over:
        mode(builder, stream, parsed)
    elif parsed.mode == "error":
        _add_system_message(builder, stream, "error", parsed.data)


def chunks(builder: Builder, events: list[Any], start: int) -> int:
    """Append consecutive chunks of only text (a Stretch), but the last: `read` takes its time as the message's."""
    stream: Stream = builder.scratch["stream"]
    first = _chunk(events[start])
    if first is None or stream.over:
        return start
    name, task = first.message.get("id"), first.metadata.get(TASK)
    entry = stream.open.get(name) if isinstance(name, str) else None
    if entry is None or entry.whole or name not in entry.ids or not isinstance(entry.message.get("content"), str):
        return start
    if task is not None and (not isinstance(task, str) or stream.open.get(task) is not entry):
        return start
    texts, form = [], events[start].get("event")
    for at in range(start, len(events)):
        chunk = _chunk(events[at])
        if chunk is None or chunk.message.get("id") != name or chunk.metadata.get(TASK) != task:
            break
        if events[at].get("event") != form or not is_text(chunk.message):
            break
        texts.append(chunk.message["content"])
    if len(texts) < 2:
        return start
    entry.append("".join(texts[:-1]))
    return start + len(texts) - 1


class Chunk(NamedTuple):
    """A chunk of a message in its simplest forms: SSE, and the tuples of one mode or of several."""

    message: Fields
    metadata: Fields


def _chunk(event: Any) -> Chunk | None:
    if event.__class__ is not dict or event.get("event") not in (None, "messages") or len(event) != 2:
        return None
    data = event.get("data")
    if event["event"] is None and data.__class__ is list and len(data) == 2 and data[0] == "messages":
        data = data[1]
    if data.__class__ is not list or len(data) != 2:
        return None
    message, metadata = data
    if message.__class__ is not dict or metadata.__class__ is not dict or message.get("type") != "AIMessageChunk":
        return None
    return None if message.get("lc") else Chunk(message, metadata)


def finish(builder: Builder, end: str) -> None:
    """Set the end before the turn is built. A stream with the root's start but without its end has broken off."""
    stream: Stream = builder.scratch["stream"]
    builder.history = request.history(builder, stream)
    if end == "complete" and builder.ended is None and stream.begun:
        write(builder, stream, "disconnected")
        builder.end_turn("disconnected")
    else:
        write(builder, stream, end)


def _values(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    if event.namespace:
        return
    state = event.data
    if isinstance(state, dict):
        _interrupts(builder, stream, state.get("__interrupt__"))
        rest = {key: value for key, value in state.items() if key not in ("messages", "__interrupt__")}
        state = state.get("messages")
        if stream.based and rest:
            stream.rest = rest
    if isinstance(state, list):
        stream.set(state, builder.at)


def _updates(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    if not isinstance(event.data, dict):
        raise TypeError(f"an update is an object, got {event.data!r:.80}")
    for node, wrote in event.data.items():
        if node == "__interrupt__":
            if not event.namespace:
                _interrupts(builder, stream, wrote)
        elif node != "__metadata__":
            for update in wrote if isinstance(wrote, list) else [wrote]:
                _wrote(builder, stream, event.namespace, node, update)


def _wrote(builder: Builder, stream: Stream, namespace: tuple[str, ...], node: str, update: Any) -> None:
    """Apply an update of a node: messages, and other keys of the graph's state."""
    if not isinstance(update, dict):
        return
    update = update["update"] if isinstance(update.get("update"), dict) and "graph" in update else update
    if message_of(update) is not None:  # the state is a list of messages
        update = {"messages": [update]}
    messages = update.get("messages")
    messages = messages if isinstance(messages, list) else [messages] if messages is not None else []
    if namespace:
        for message in filter(None, map(message_of, messages)):
            stream.snapshot(message, namespace, {}, builder.at, whole=True)
        return
    if messages:
        stream.write(messages, builder.at)
    rest = {key: value for key, value in update.items() if key != "messages" and value is not None}
    if rest:
        _add_system_message(builder, stream, "custom:langgraph.update", {"node": node, "update": rest})


def _messages(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    raw, metadata = event.data if isinstance(event.data, list) and len(event.data) == 2 else (event.data, {})
    _hear(builder, stream, event.namespace, raw, object_of(metadata))


def _hear(builder: Builder, stream: Stream, namespace: tuple[str, ...], raw: Any, metadata: Fields) -> None:
    message = message_of(raw)
    if message is None:
        raise TypeError(f"no message: {raw!r:.80}")
    if not namespace:
        request.record_start(stream, metadata)
    if message["type"] == "remove":
        return
    if message["chunk"]:
        stream.chunk(message, namespace, metadata, builder.at)
    else:
        stream.snapshot(message, namespace, metadata, builder.at, whole=True)


def _partial(*, whole: bool) -> Mode:
    def snapshots(builder: Builder, stream: Stream, event: StreamEvent) -> None:
        for message in filter(None, map(message_of, event.data)):
            known = stream.known.get(str(message.get("id")), {})
            final = whole or message["type"] != "ai"
            stream.snapshot(message, event.namespace, known, builder.at, whole=final)

    return snapshots


def _metadata(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    for message_id, known in event.data.items():
        stream.known[message_id] = object_of(object_of(known).get("metadata"))


def _custom(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    data = event.data
    kind = data.get("type", data.get("name")) if isinstance(data, dict) else None
    if not isinstance(kind, str) or not kind.startswith("data-sys-"):
        _add_system_message(builder, stream, "custom:langgraph.custom", data)
        if kind == FEEDBACK:
            builder.telemetry.append((builder.at, FEEDBACK, data.get("data", data.get("value"))))
        return
    value = data.get("data", data.get("value"))
    spoken = [entry for entry in (*stream.heard, *stream.state) if entry.message.get("type") == "ai" and not entry.old]
    if kind == "data-sys-usage" and isinstance(value, dict) and spoken:
        spoken[-1].usage = value  # used if its message has no tokens
    else:
        builder.telemetry.append((builder.at, kind, value))


def _error(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    error = event.data if isinstance(event.data, dict) else {"message": event.data}
    _add_system_message(builder, stream, "error", error)
    builder.error_text = text_or_none(error.get("message"))
    builder.ended, stream.over = "error", True


def _end(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    builder.ended, stream.over = "complete", True


def _events(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    """Handle `astream_events`: the root has no parents, its nodes one; in version 1, the root is the first to start."""
    raw = event.data
    kind, data, parents = raw["event"], raw["data"], raw.get("parent_ids") or []
    metadata = object_of(raw.get("metadata"))
    task = metadata.get("langgraph_checkpoint_ns")
    namespace = tuple(task.split("|")[:-1]) if isinstance(task, str) else ()
    if kind == "on_chain_start" and not parents and not stream.begun:
        stream.begun, stream.root = True, raw.get("run_id")
        request.record_start(stream, metadata)
    is_root = not parents and (not stream.begun or raw.get("run_id") == stream.root)
    if kind in SPOKEN:
        said = data[SPOKEN[kind]]
        _hear(builder, stream, namespace, said, metadata)
        if HIDDEN in (raw.get("tags") or ()) and isinstance(name := (message_of(said) or {}).get("id"), str):
            stream.hidden[name] = "summary" if SUMMARISER in str(metadata.get("langgraph_node")) else "background"
    elif kind == "on_chain_start" and len(parents) <= 1 and not stream.based:
        messages = object_of(data.get("input")).get("messages")
        if parents and isinstance(messages, list):  # the root's have no ids yet
            stream.set(messages, builder.at)
    elif kind == "on_chain_stream" and is_root and isinstance(data.get("chunk"), dict):
        _updates(builder, stream, StreamEvent("updates", (), data["chunk"]))
    elif kind == "on_chain_end" and len(parents) == 1 and metadata.get("langgraph_node") == raw.get("name"):
        _updates(builder, stream, StreamEvent("updates", (), {raw["name"]: data.get("output")}))
    elif kind == "on_chain_end" and is_root:
        if isinstance(data.get("output"), dict) and (stream.based or not stream.updated):
            _values(builder, stream, StreamEvent("values", (), data["output"]))
        builder.ended, stream.over = "complete", True
    elif kind == "on_custom_event":
        name = str(raw.get("name"))
        custom = {"type": name, "data": data} if name.startswith("data-sys-") or name == FEEDBACK else data
        _custom(builder, stream, StreamEvent("custom", (), custom))


def _checkpoint(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    if not event.namespace:
        request.record_checkpoint(stream, event.data)


def _debug(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    if not event.namespace and isinstance(event.data, dict) and event.data.get("type") == "checkpoint":
        request.record_checkpoint(stream, event.data.get("payload"))


def _lifecycle(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    kind = event.data["event"]
    if event.namespace:
        return
    if kind in ("started", "running"):
        stream.begun = True
    elif kind == "failed":
        _error(builder, stream, event._replace(data={"message": event.data.get("error")}))
    elif kind in ("completed", "interrupted"):
        builder.ended, stream.over = "complete", True


def _v3_tools(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    """Add a result; the state contains it, too, if it is streamed."""
    if event.data["event"] == "tool-finished":
        message = message_of(event.data.get("output"))
        if message is not None and message["type"] == "tool":
            stream.snapshot(message, event.namespace, {}, builder.at, whole=True)


def _v3_messages(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    """Apply an event of a message; of a model that doesn't stream, add the whole message."""
    data = event.data
    if isinstance(data, list) and data and "event" not in data[0] and message_of(data[0]) is not None:
        _messages(builder, stream, event)
    else:
        message_event(stream, event.namespace, data, builder.at)


def _requested(builder: Builder, stream: Stream, event: StreamEvent) -> None:
    _add_system_message(builder, stream, "custom:langgraph.interrupt", event.data)


def _interrupts(builder: Builder, stream: Stream, interrupts: Any) -> None:
    for interrupt in list_of(interrupts):
        known = [message.fields["event_data"] for message in stream.beside]
        if interrupt not in known:
            _add_system_message(builder, stream, "custom:langgraph.interrupt", interrupt)


def _add_system_message(builder: Builder, stream: Stream, event_type: str, data: Any) -> None:
    fields = {"event_type": event_type, "event_data": data}
    stream.beside.append(Message("system", builder.at, fields=fields, closed=True))


MODES: Final[dict[str, Mode]] = {
    "values": _values,
    "updates": _updates,
    "messages": _messages,
    "messages/metadata": _metadata,
    "messages/partial": _partial(whole=False),
    "messages/complete": _partial(whole=True),
    "custom": _custom,
    "events": _events,
    "error": _error,
    "end": _end,
    **dict.fromkeys(("checkpoints", f"{V3}:checkpoints"), _checkpoint),
    **dict.fromkeys(("debug", f"{V3}:debug"), _debug),
    **dict.fromkeys(("metadata", "feedback", "tasks", f"{V3}:tasks"), lambda builder, stream, event: None),
    f"{V3}:values": _values,
    f"{V3}:updates": _updates,
    f"{V3}:messages": _v3_messages,
    f"{V3}:lifecycle": _lifecycle,
    f"{V3}:custom": _custom,
    f"{V3}:input.requested": _requested,
    f"{V3}:tools": _v3_tools,
}

HANDLERS: Final[dict[str, Handler]] = {}  # the shape of an event shows its kind: all go to `read`
STRETCHES: Final[dict[str | None, Stretch]] = {"messages": chunks, None: chunks}

"""Protocol v3: messages as content blocks that begin, grow and end; states and updates as in the other forms."""

from typing import Any, Final

from pipeline.dialects.langgraph.stream import Entry, Stream
from topics.json_text import Fields, object_of

TYPES: Final = {"text-delta": "text", "reasoning-delta": "reasoning", "tool-call-delta": "tool_call_chunk"}


def message_event(stream: Stream, namespace: tuple[str, ...], data: Any, at: int) -> None:
    """Handle an event of a message; streamed within the process, it comes with its metadata."""
    event, metadata = (data[0], data[1]) if isinstance(data, list) else (data, {})
    task = object_of(metadata).get("langgraph_checkpoint_ns")
    key = f"v3:{task or '|'.join(namespace)}"
    if event["event"] == "message-start":
        if event.get("role", "ai") not in ("ai", "assistant"):
            stream.open.pop(key, None)
            return
        message: Fields = {"type": "ai", "id": event.get("id"), "content": []}
        entry = Entry(message, at, at, namespace)
        if isinstance(event.get("id"), str):
            entry.ids.add(event["id"])
        stream.heard.append(entry)
        stream.open[key] = entry
        return
    held = stream.open.get(key)
    if held is not None:
        held.last_at = at
        _grow(held, event, at)
        if held.whole:
            stream.open.pop(key, None)


def _grow(entry: Entry, event: Fields, at: int) -> None:
    blocks: list[Fields] = entry.message["content"]
    kind = event["event"]
    if kind == "content-block-start":
        blocks.append({**event["content"], "index": event.get("index")})
        entry.first_at = at if entry.first_at is None else entry.first_at
    elif kind == "content-block-delta" and isinstance(event.get("delta"), dict):
        _add(blocks, event.get("index"), event["delta"])
    elif kind == "content-block-finish":
        whole = {**event["content"], "index": event.get("index")}
        at_index = [n for n, block in enumerate(blocks) if block.get("index") == whole["index"]]
        same = [n for n in at_index if _like(blocks[n].get("type"), whole.get("type"))]
        if same or at_index:
            blocks[(same or at_index)[-1]] = whole
        else:
            blocks.append(whole)
    elif kind == "message-finish":
        told = {"usage_metadata": event.get("usage"), "response_metadata": event.get("metadata")}
        entry.message |= {key: value for key, value in told.items() if isinstance(value, dict)}
        entry.whole = True


def _like(left: Any, other: Any) -> bool:
    """Return True if two types occur in one block: a call's block begins as a piece of one."""
    return left == other or {left, other} <= {"tool_call_chunk", "tool_call", "invalid_tool_call"}


def _add(blocks: list[Fields], index: Any, delta: Fields) -> None:
    """Add a delta; if its type is not that of its block, it begins a new one."""
    fields = object_of(delta.get("fields"))
    kind = TYPES.get(str(delta.get("type")), fields.get("type"))
    block = next((block for block in reversed(blocks) if block.get("index") == index), None)
    if block is None or (kind is not None and not _like(block.get("type"), kind)):
        block = {"type": kind, "index": index}
        blocks.append(block)
    if fields:  # cumulative
        block.update({key: value for key, value in fields.items() if key != "type"})
        return
    for key in ("text", "reasoning", "args"):
        if isinstance(delta.get(key), str):
            name = "reasoning" if kind == "reasoning" else key
            block[name] = str(block.get(name) or "") + delta[key]

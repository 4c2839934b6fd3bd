"""`stream_event`: the raw events of the API, while a message is streamed.

A whole message's content is read from its lines, and only tokens and stop reason from these events. A message that
broke off has only these events. A text that is open when events are missing is not continued.
"""

from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Part
from pipeline.dialects.anthropic.message import merged
from pipeline.dialects.claude_code.blocks import begun, delta_text
from pipeline.dialects.claude_code.lines import open_message, stopped
from pipeline.dialects.claude_code.session import Session, Thread, name_of, normal, thread_of
from topics.json_text import Fields

USAGE = "usage"


def stream_event(builder: Builder, event: Fields) -> None:
    """Apply an event of the API to the thread that the line names."""
    inner = event["event"]
    kind, name = inner["type"] + "", name_of(event)
    match kind:
        case "message_start":
            message = inner["message"]
            message["id"] + ""
            thread = thread_of(builder, event)
            builder.ended = None if not name else builder.ended
            if not (thread.streams and thread.message_id == message["id"] and not thread.streamed):
                _start(thread, message)  # else the same event again
        case "content_block_start":
            index, fields = inner["index"], begun(inner["content_block"])
            thread = _open(builder, event)
            part = thread.builder.add_part(fields, done=False)
            thread.streamed[index] = part
            thread.awaited.append(part)
            builder.open_text[_key(name, index)] = part
        case "content_block_delta":
            text = delta_text(inner["delta"])
            part = _streamed(builder, event, inner["index"])
            if not part.done:
                part.chunks.append(text)
        case "content_block_stop":
            builder.open_text.pop(_key(name, inner["index"]), None)
        case "message_delta":
            delta, usage = inner["delta"], inner.get("usage")
            reason = delta.get("stop_reason")
            _delta(_open(builder, event), reason, usage)
        case "message_stop":
            thread = _open(builder, event)
            response = thread.builder.current_response()
            if not thread.awaited:  # the program itself writes the end of a broken message
                response.closed, response.last_at = True, thread.builder.at
        case "error":
            builder.system("error", inner.get("error"))


def stream_events(builder: Builder, events: list[Any], start: int) -> int:
    """Append consecutive deltas of a block of the main conversation (a Stretch); sub-agents have own clocks."""
    session: Session = builder.scratch
    thread, inner = session.main, events[start].get("event")
    if inner.__class__ is not dict or thread.builder.response is None or not thread.streams:
        return start
    index = inner.get("index")
    part = thread.streamed.get(index) if index.__class__ is int else None
    if part is None or part.done or _key("", index) not in builder.open_text:
        return start
    texts = []
    for at in range(start, len(events)):
        event = events[at]
        if event.__class__ is not dict or event.get("type") != "stream_event":
            break
        inner = event.get("event")
        if inner.__class__ is not dict or event.get("parent_tool_use_id") is not None:
            break
        if inner.get("type") != "content_block_delta" or inner.get("index") is not index or "delta" not in inner:
            break
        texts.append(delta_text(inner["delta"]))
    if texts:
        part.chunks.append("".join(texts))
    return start + len(texts)


def _start(thread: Thread, message: Fields) -> None:
    response = open_message(thread, message)
    thread.streams = True
    usage = message.get("usage")
    if normal(usage):
        thread.sent = usage
        response.fields["usage"] = {k: v for k, v in normal(usage).items() if k != "output_tokens"}


def _delta(thread: Thread, reason: Any, usage: Any) -> None:
    """Set the counts of the whole message: they replace those of its start; gateways leave some at 0."""
    response = thread.builder.current_response()
    if isinstance(reason, str):
        stopped(response, reason)
    if not isinstance(usage, dict):
        return
    counts = normal(merged({**(thread.sent or {}), "output_tokens": 0}, usage))
    if counts:
        response.fields["usage"] = counts
        if isinstance(reason, str):
            thread.exact.append(response)


def _open(builder: Builder, event: Fields) -> Thread:
    """Return the thread whose message is being streamed. Raises Violation if there is none."""
    thread = thread_of(builder, event)
    if not thread.streams or thread.builder.response is None:
        raise Violation(f"{event['event']['type']}: no message_start came before")
    return thread


def _streamed(builder: Builder, event: Fields, index: Any) -> Part:
    thread = _open(builder, event)
    if _key(thread.name, index) not in builder.open_text or index not in thread.streamed:
        raise Violation(f"content_block_delta: no block {index!r:.20} is open")
    return thread.streamed[index]


def _key(name: str, index: Any) -> str:
    return f"{name}\n{index}"

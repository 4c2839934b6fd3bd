"""pi-agent-core's proxy stream (dialect `pi-proxy`): one SSE body is one response of the model.

| event | what it does |
|---|---|
| start | nothing |
| text_start, thinking_start, toolcall_start | opens the block `contentIndex`, in place of one with this index |
| text_delta, thinking_delta, toolcall_delta | appends to it |
| text_end, thinking_end | closes it, with its signature; text that follows is still appended, as pi's client does |
| toolcall_end | closes it; of an unknown block: nothing |
| done | closes the message; blocks without end are dropped |
| error | the message is incomplete |
| any other | counted, ignored |

The first terminal event counts. An event at which pi's client throws makes the message incomplete: it is dropped, and
the turn is interrupted. The request body, not the stream, contains model, provider, user prompts and tool results.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Violation, nothing
from pipeline.dialects.pi_agent.messages import CUT_OFF, Received, span, write
from pipeline.dialects.pi_agent.parts import Block, show
from pipeline.dialects.wire_values import text_or_none
from pipeline.turns.lineage import History
from pipeline.turns.text import join
from topics.json_text import Fields, list_of, object_of, present
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import loads

ELEMENT: Final = re.compile(r"0|[1-9][0-9]{0,9}")
CLIENT_ENDS: Final = frozenset({"complete", "disconnected", "timeout"})  # the client then has the whole message


@dataclass(slots=True, eq=False)
class Body:
    """One SSE body: its request and its blocks. `over`: a terminal event came, or pi's client would have thrown."""

    request: Any
    model: Fields
    blocks: dict[int | str, Block] = field(default_factory=dict)
    first_part_at: int | None = None
    over: bool = False
    whole: bool = False  # `done` came
    calls_tools: bool = False  # it is complete, and the client's next request has the results


def new_messages(body: Fields) -> list[Received]:
    """Return the messages of a request body after the assistant's last."""
    tail: list[Received] = []
    for message in repeated(body).messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            continue
        if message["role"] == "assistant":
            tail.clear()
        elif message["role"] != "system":
            tail.append(Received(message))
    return tail


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats."""
    return History(list_of(object_of(object_of(body).get("context")).get("messages")))


def content(block: Block) -> Fields:
    """Return a block as a content block of a pi message. Arguments that are not JSON stay a text."""
    kind = block.fields["type"]
    if kind != "toolCall":
        return {**block.fields, kind: join(block.chunks)}
    if "arguments" in block.fields:
        return block.fields
    text = join(block.chunks)
    try:
        return {**block.fields, "arguments": loads(text.encode()) if text.strip() else {}}
    except InvalidRecord:
        return {**block.fields, "arguments": text}


def begin(builder: Builder) -> None:
    """Read the request body: model, provider, and the messages after the assistant's last."""
    builder.returns_by_call = False
    body = object_of(builder.context.request)
    model = body.get("model")
    model = model if isinstance(model, dict) else {"id": model}
    builder.scratch["body"] = Body(builder.context.request, model)
    builder.context.model_name = text_or_none(model.get("id")) or builder.context.model_name
    builder.context.provider_name = text_or_none(model.get("provider")) or builder.context.provider_name
    tail = new_messages(body)
    if builder.messages and tail and not any(item.message["role"] == "toolResult" for item in tail):
        builder.end_turn(builder.ended or "complete", builder.at)  # a new prompt of the user begins the next turn
    times = span(tail)
    if times is not None and not builder.messages:  # a body read from a file has no other time
        builder.first_at = max(builder.first_at, times[1])
    builder.ended = None
    write(builder, tail)


def _handler(apply: Callable[[Builder, Body, Fields], None]) -> Handler:
    """Wrap a handler of one body's events. It ignores events after the body's end; an error in one ends the body."""

    def handle(builder: Builder, event: Fields) -> None:
        body: Body = builder.scratch["body"]
        if builder.context.request != body.request and (body.over or not body.blocks):  # the run's next request
            begin(builder)
            body = builder.scratch["body"]
        if body.over:
            return
        try:
            apply(builder, body, event)
        except Exception as error:  # pi's client drops the message at any exception
            _break_off(builder, body, "error", str(error))
            raise

    return handle


def _start(kind: str) -> Handler:
    def start(builder: Builder, body: Body, event: Fields) -> None:
        index = _index(event)
        fields: Fields = {"type": kind}
        if kind == "toolCall":
            fields |= {"id": event.get("id", ""), "name": event["toolName"]}
            if not (isinstance(fields["id"], str) and isinstance(fields["name"], str) and fields["name"]):
                raise Violation("toolcall_start: a call needs a toolName, and its id is a text")
        body.blocks[index] = Block(fields)
        if body.first_part_at is None:
            body.first_part_at = builder.at

    return _handler(start)


def _delta(kind: str) -> Handler:
    def delta(builder: Builder, body: Body, event: Fields) -> None:
        block = _block(body, event, kind)
        if not (kind == "toolCall" and block.ended):
            block.chunks.append(_appended(event))

    return _handler(delta)


def _end(kind: str, signature: str) -> Handler:
    def end(builder: Builder, body: Body, event: Fields) -> None:
        block = _block(body, event, kind)
        block.ended = True
        if event.get("contentSignature") is not None:
            block.fields[signature] = event["contentSignature"]

    return _handler(end)


def _toolcall_end(builder: Builder, body: Body, event: Fields) -> None:
    """End a call. From 1.5 on, the event contains the whole call, with fields that the deltas lack."""
    block = body.blocks.get(_index(event))
    if block is None or block.fields["type"] != "toolCall":
        return
    block.ended = True
    if isinstance(event.get("toolCall"), dict):
        block.fields |= present(event["toolCall"])


def _done(builder: Builder, body: Body, event: Fields) -> None:
    if builder.lossy:
        raise Violation("done: events of this message were lost")
    if not isinstance(event.get("reason"), str) or event["reason"] in CUT_OFF:
        raise Violation(f"done: 'reason' must be stop, length or toolUse, got {event.get('reason')!r:.80}")
    elements = sorted((key, block) for key, block in body.blocks.items() if isinstance(key, int))
    complete = [content(block) for _, block in elements if block.ended]
    _write(builder, body, event, complete, event["reason"])
    body.over = body.whole = True
    body.calls_tools = event["reason"] == "toolUse" or any(block["type"] == "toolCall" for block in complete)
    builder.ended = None if body.calls_tools else "complete"


def _error(builder: Builder, body: Body, event: Fields) -> None:
    reason = "aborted" if event.get("reason") == "aborted" else "error"
    _write(builder, body, event, [], reason)  # its tokens count
    _break_off(builder, body, reason, str(event.get("errorMessage") or reason))


def _write(builder: Builder, body: Body, event: Fields, blocks: list[Fields], stop: str) -> None:
    """Write the message that pi's client builds from the body."""
    at = max(builder.at, builder.first_at)
    message = {
        "role": "assistant",
        "content": blocks,
        "api": body.model.get("api"),
        "provider": body.model.get("provider"),
        "model": body.model.get("id"),
        "usage": event.get("usage"),
        "stopReason": stop,
    }
    write(builder, [Received(present(message), body.first_part_at, at)])


def _break_off(builder: Builder, body: Body, end: Any, why: str) -> None:
    body.over = True
    builder.ended = end
    builder.error_text = why


def finish(builder: Builder, end: str) -> None:
    """End the turn as complete if its last message calls tools: another body with their results may never come.

    The partial output of a response that broke off is kept beside the turn.
    """
    body: Body = builder.scratch["body"]
    if body.calls_tools and end in CLIENT_ENDS:
        builder.end_turn("complete")
    elif not body.whole and end != "complete":
        shown = sorted((key, block) for key, block in body.blocks.items() if isinstance(key, int))
        show(builder, [block for _, block in shown], body.first_part_at)


def _block(body: Body, event: Fields, kind: str) -> Block:
    block = body.blocks.get(_index(event))
    if block is None or block.fields["type"] != kind:
        raise Violation(f"{event['type']}: block {event['contentIndex']} is not a {kind} block that was started")
    return block


def _index(event: Fields) -> int | str:
    """Return the key of a block, as in JavaScript: "0" is 0. Blocks under other texts are not in the message."""
    index = event["contentIndex"]
    if isinstance(index, str):
        return int(index) if ELEMENT.fullmatch(index) else index
    if isinstance(index, bool) or not isinstance(index, int):
        raise Violation(f"{event['type']}: 'contentIndex' must be a number, got {index!r:.80}")
    return index if index >= 0 else str(index)


def _appended(event: Fields) -> str:
    """Return the text that pi's client appends: JavaScript makes texts of a missing delta and of a null."""
    delta = event.get("delta", "undefined")
    if delta is None:
        return "null"
    if not isinstance(delta, str):
        raise Violation(f"{event['type']}: 'delta' must be a text, got {delta!r:.80}")
    return delta


HANDLERS: Final[dict[str, Handler]] = {
    "start": nothing,
    "text_start": _start("text"),
    "text_delta": _delta("text"),
    "text_end": _end("text", "textSignature"),
    "thinking_start": _start("thinking"),
    "thinking_delta": _delta("thinking"),
    "thinking_end": _end("thinking", "thinkingSignature"),
    "toolcall_start": _start("toolCall"),
    "toolcall_delta": _delta("toolCall"),
    "toolcall_end": _handler(_toolcall_end),
    "done": _handler(_done),
    "error": _handler(_error),
}

unknown: Final = _handler(
    lambda builder, body, event: builder.sys_event("data-sys-unknown_event", {"type": str(event["type"])})
)

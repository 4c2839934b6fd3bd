"""Conversion of messages and calls of the Agents SDK wire to responses and parts of the builder.

One message of the wire contains several calls of the model, and messages may be interleaved: `builder.scratch` maps
`messages` (messageId -> Open) and `calls` (toolCallId -> OpenCall).
"""

from dataclasses import dataclass
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects import ends
from pipeline.dialects.vercel_ai.keys import META
from pipeline.dialects.wire_values import note_under
from pipeline.turns.text import join
from topics.json_text import Fields
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import loads

FINISH: Final = {**ends.CHAT, **ends.AI_SDK, "tool_call": "tool_call"}


@dataclass(slots=True, eq=False)
class Open:
    """A message of the wire: the response that gets its content, and its last part if that is text."""

    response: Message
    text: Part | None = None


@dataclass(slots=True, eq=False)
class OpenCall:
    """A tool call: its message, and the deltas of its arguments; `has_input`: tool.call contained them."""

    message_id: str
    part: Part
    deltas: list[str]
    has_input: bool = False


def message_id_of(builder: Builder, data: Fields) -> str:
    """Return the id of an event's message. An event without one belongs to the newest message."""
    message_id = data.get("messageId")
    if not isinstance(message_id, str):
        return str(builder.scratch["newest"])
    builder.scratch["newest"] = message_id
    return message_id


def call_id_of(data: Fields) -> str:
    """Return the toolCallId of an event. Raises Violation if it is not a text."""
    call_id = data["toolCallId"]
    if not isinstance(call_id, str):
        raise Violation(f"'toolCallId' must be a text, got {call_id!r:.80}")
    return call_id


def call_of(builder: Builder, data: Fields) -> OpenCall:
    """Return the call of an event; the first event of a call adds it to its message."""
    call_id = call_id_of(data)
    call: OpenCall | None = builder.scratch["calls"].get(call_id)
    if call is None:
        message_id = message_id_of(builder, data)
        fields = {"part_kind": "tool-call", "tool_name": "", "tool_call_id": call_id, "args": None}
        call = OpenCall(message_id, add_part(builder, message_id, fields), [])
        builder.scratch["calls"][call_id] = call
        builder.calls[call_id] = (builder.scratch["messages"][message_id].response, call.part)
    return call


def set_input(part: Part, given: Any) -> None:
    """Set a call's arguments as data. A null or a text is kept under META, too, for UI messages."""
    part.fields.pop(META, None)
    part.fields["args"] = given
    if given is None or isinstance(given, str):
        part.fields[META] = {"input": [given]}
        part.fields["args"] = {} if given is None else {"INVALID_JSON": given}


def set_input_from_deltas(call: OpenCall) -> None:
    """Set the arguments of a call from its deltas; without deltas, from null."""
    text = join(call.deltas)
    try:
        set_input(call.part, loads(text.encode()) if text else None)
    except InvalidRecord:
        set_input(call.part, text)


def add_part(builder: Builder, message_id: str, fields: Fields) -> Part:
    """Add a part to the message. It begins a new response if all calls of the current one have their results."""
    end_text(builder, message_id)
    known: Open | None = builder.scratch["messages"].get(message_id)
    response = known.response if known is not None else None
    if response is None or (response.request is not None and not pending(response)):
        response = new_response(builder, message_id)
    response.closed = False
    if response.first_part_at is None:
        response.first_part_at = builder.at
    response.last_at = builder.at
    part = Part(fields)
    response.parts.append(part)
    return part


def new_response(builder: Builder, message_id: str) -> Message:
    """Begin the next response of a message."""
    response = Message("response", now(builder))
    builder.messages.append(response)
    builder.scratch["messages"][message_id] = Open(response)
    return response


def pending(response: Message) -> set[str]:
    """Return the ids of a response's calls that have no result yet."""
    answers = response.request.parts if response.request is not None else []
    calls = {part.fields["tool_call_id"] for part in response.parts if part.done and "tool_call_id" in part.fields}
    return calls - {part.fields["tool_call_id"] for part in answers}


def end_text(builder: Builder, message_id: str) -> None:
    """End the message's open text: its next content is another part."""
    text = builder.open_text.pop(message_id, None)
    if text is not None:
        text.done = True
    known: Open | None = builder.scratch["messages"].get(message_id)
    if known is not None:
        known.text = None


def close(builder: Builder, message_id: str, known: Open) -> None:
    """End the message and its open text."""
    text = builder.open_text.pop(message_id, None)
    if text is not None:
        text.done = True
    known.response.closed = True
    known.response.last_at = builder.at


def finish_reason(last: Message, reason: Any) -> None:
    """Set the run's reason on its last response. `stop` is ignored if that response ends with a call."""
    kept = [part for part in last.parts if part.done]
    if reason == "stop" and kept and kept[-1].fields["part_kind"] == "tool-call":
        return
    if isinstance(reason, str):
        last.fields["finish_reason"] = ends.finish(FINISH, reason)
        note_under(META, last.fields, {"finishReason": None if FINISH.get(reason) else reason})


def now(builder: Builder) -> int:
    """Return the time of this event, epoch ms: no earlier than any `createdAt` before it."""
    return max(builder.at, int(builder.scratch["latest"]))

"""Vercel AI SDK UI message stream, versions 5, 6 and 7: the protocol as a table.

| event | what it does |
|---|---|
| start | the message's id and metadata; after an end, a new id begins another turn |
| start-step | begins a response; open texts of merged streams continue in their own response |
| finish-step | the response is complete; later events without a start-step still belong to it |
| reset-step | removes everything since the last start-step, or the whole message |
| text-start, text-delta, text-end | a `text` part; without its end it is discarded |
| reasoning-start, reasoning-delta, reasoning-end | a `thinking` part; its signature is in `providerMetadata` |
| tool-input-start, tool-input-delta | a call whose input is coming |
| tool-input-available | the `tool-call` (`providerExecuted`: `builtin-tool-call`), whole |
| tool-input-error | the call, and a `tool-return` of status `validation_error` |
| tool-output-available | the `tool-return` after the call's response; a preliminary one is for display |
| tool-output-error, tool-output-denied | a `tool-return` of status `error`; a denied one has `outcome: denied` |
| tool-approval-request, tool-approval-response | kept with the call |
| file, reasoning-file | a `file` part, by value where the URL is `data:`, else by address |
| custom | a part `custom:KIND` |
| source-url, source-document | SystemMessage `source.url`, `source.document` |
| steering-message | a `user-prompt` in the request after the response |
| data-sys-* | telemetry; data-sys-usage also the tokens of the newest response |
| data-tp-* | SystemMessage of that name, and what it means for links and thread |
| data-feedback | SystemMessage of that name, and feedback |
| data-* | SystemMessage of that name; the same type and id replaces its data; transient: not stored |
| message-metadata | merged deeply into the message's metadata; `usage`: tokens of the step, `totalUsage`: of the run |
| finish | the turn is complete; error: failed, interrupted: the provider broke off |
| abort | the turn is interrupted, unless a `finish` came before |
| error | SystemMessage `error`; interrupted, unless the stream goes on to a good `finish` |
| any other | SystemMessage data-app-TYPE |

Source: the AI SDK's "Stream Protocols" page, and its reader (processUIMessageStream).
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder, End
from pipeline.assembly.dialect import Delta, Handler
from pipeline.assembly.parts import Message, Part
from pipeline.dialects import ends
from pipeline.dialects.asked_parts import retract
from pipeline.dialects.vercel_ai import side_events as side
from pipeline.dialects.vercel_ai import tools
from pipeline.dialects.vercel_ai.keys import META
from pipeline.dialects.vercel_ai.stream import (
    OF_TEXT,
    OF_THINKING,
    Event,
    Stream,
    describe,
    forget,
    note,
    stream_of,
    text_of,
)
from pipeline.turns import tokens
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields, object_of

ENDS: Final[dict[str | None, End]] = {"error": "error", "interrupted": "disconnected"}


def _text_start(builder: Builder, event: Event) -> None:
    """Begin a text part. An open one with the same id stays unfinished."""
    describe(builder.text_start(text_of(event, "id")).fields, event, OF_TEXT)


def _text_delta(builder: Builder, event: Event) -> None:
    _append(builder.open_text, event, OF_TEXT)


def _text_end(builder: Builder, event: Event) -> None:
    part = builder.open_text[event["id"]]
    describe(part.fields, event, OF_TEXT)
    note(part.fields, {"citations": event.get("citations")})
    builder.text_end(event["id"])


def _reasoning_start(builder: Builder, event: Event) -> None:
    """Begin a thinking part. An open one with the same id stays unfinished."""
    part = builder.thinking_start(text_of(event, "id"))
    note(part.fields, {"id": event["id"]})
    describe(part.fields, event, OF_THINKING)


def _reasoning_delta(builder: Builder, event: Event) -> None:
    _append(builder.open_thinking, event, OF_THINKING)


def _reasoning_end(builder: Builder, event: Event) -> None:
    """Complete the thinking part; its signature usually comes with this event."""
    describe(builder.open_thinking[event["id"]].fields, event, OF_THINKING)
    builder.thinking_end(event["id"])


def _append(opened: dict[str, Part], event: Event, names: dict[str, str]) -> None:
    delta = text_of(event, "delta")
    part = opened[event["id"]]
    part.chunks.append(delta)
    if len(event) > 3:
        describe(part.fields, event, names)


def start(builder: Builder, event: Event) -> None:
    """Begin the message.

    A new id begins another turn, if the current one has ended; otherwise it is the message's new id.
    """
    stream, message_id = stream_of(builder), event.get("messageId")
    if isinstance(message_id, str) and message_id:
        if stream.message_id not in (None, message_id) and builder.ended is not None:
            _next_turn(builder)
        stream_of(builder).message_id = message_id
        note(builder.notes, {"id": message_id})
    message_metadata(builder, event)


def _next_turn(builder: Builder) -> None:
    response = builder.last_response()
    whole: End = "complete" if response is None or response.closed else "disconnected"
    end = builder.ended or whole
    close(builder, end)
    builder.end_turn(end, builder.at)
    builder.ended = None
    builder.scratch["stream"] = Stream()


def start_step(builder: Builder, event: Event) -> None:
    """Begin a response. Open texts stay open: merged streams continue theirs."""
    builder.close_response(keep_open=True)
    stream_of(builder).step = builder.open_response()


def finish_step(builder: Builder, event: Event) -> None:
    """Complete the response, unless an abort cut it off. After an error it is closed, too, and marked."""
    response, stream = builder.response, stream_of(builder)
    if response is None or (response is stream.cut and builder.ended == "aborted"):
        return
    if response is stream.cut:
        note(response.fields, {"cut": True})
    response.closed = True
    response.last_at = builder.at


def reset_step(builder: Builder, event: Event) -> None:
    """Take back everything since the last start-step; without one, the whole message."""
    stream, messages = stream_of(builder), builder.messages
    kept = messages.index(stream.step) if stream.step in messages else 0
    retract(builder, [(message, message.parts) for message in messages[kept:]])
    del messages[kept:]
    builder.response = None
    builder.open_text.clear()
    builder.open_thinking.clear()
    builder.calls = {
        part.fields["tool_call_id"]: (message, part)
        for message in messages
        if message.kind == "response"
        for part in message.parts
        if "args" in part.fields
    }
    stream.data = {key: message for key, message in stream.data.items() if message in messages}
    if stream.step is not None:
        stream.step = builder.open_response()


def message_metadata(builder: Builder, event: Event) -> None:
    """Merge the message's metadata deeply. Pydantic AI's metadata contains the time of its response."""
    new = event.get("messageMetadata")
    if new is None:
        return
    note(builder.notes, {"metadata": _merged(builder.notes.get(META, {}).get("metadata"), new)})
    if isinstance(new, dict):
        _usage(builder, new, of_run=event["type"] == "finish")
    pydantic_ai = object_of(new).get("pydantic_ai")
    at = epoch_ms(pydantic_ai.get("timestamp")) if isinstance(pydantic_ai, dict) else None
    response = builder.last_response()
    if at is not None and response is not None and builder.first_at <= at <= builder.at:
        response.at = at


def _usage(builder: Builder, metadata: Fields, *, of_run: bool) -> None:
    """Set the tokens that an application puts in the metadata: `totalUsage` of the run, `usage` of the step before.

    At the end of the message, `usage` is the run's as well: the SDK has no other then.
    """
    for key in ("usage", "totalUsage"):
        used = metadata.get(key)
        if not isinstance(used, dict) or not (tokens.counts(used).keys() & {"input_tokens", "output_tokens"}):
            continue
        responses = [message for message in builder.messages if message.kind == "response"]
        if of_run or key == "totalUsage":
            builder.total_usage = used
        if responses and (len(responses) == 1 or not (of_run or key == "totalUsage")):
            builder.usage(used, responses[-1])


def finish(builder: Builder, event: Event) -> None:
    """End the message; events that follow still belong to it. Without a reason, an error just before is its end."""
    reason, stream = event.get("finishReason"), stream_of(builder)
    builder.ended = ENDS.get(reason, "complete")
    if reason is None and stream.failed == _position(builder):
        builder.ended = "error"
    stream.finished = True
    message_metadata(builder, event)
    response = builder.last_response()
    if response is not None:
        ends.tell(response.fields, ends.AI_SDK, reason)
        note(response.fields, {"finishReason": None if ends.AI_SDK.get(str(reason)) else reason})


def abort(builder: Builder, event: Event) -> None:
    """Abort the run: the user or the server stopped it."""
    reason = event.get("reason")
    _cut(builder, "aborted", reason if isinstance(reason, str) else None)


def error(builder: Builder, event: Event) -> None:
    """Note an error. A `finish` that follows decides whether the run failed."""
    why = text_of(event, "errorText")
    _cut(builder, "error", why)
    stream_of(builder).failed = _position(builder)
    builder.system("error", {"error": why})


def _cut(builder: Builder, end: End, why: str | None) -> None:
    stream = stream_of(builder)
    if why:
        builder.error_text = why
    if not stream.finished:
        builder.ended = end
    if builder.response is not None and not builder.response.closed:
        stream.cut = builder.response


def close(builder: Builder, end: str) -> None:
    """Settle the calls of the turn before it is built."""
    tools.settle(builder)
    if end == "complete":  # the error did not end the run
        for message in builder.messages:
            forget(message.fields, "cut")


def _position(builder: Builder) -> tuple[Message | None, int]:
    """Return (the turn's open response, its number of parts)."""
    response = builder.response
    return response, len(response.parts) if response is not None else 0


def _merged(base: Any, new: Any) -> Any:
    """Return message metadata merged as in the SDK: objects deeply, all else is replaced; a null changes nothing."""
    if new is None:
        return base
    if not isinstance(base, dict) or not isinstance(new, dict):
        return new
    both = {**base, **new}
    for key in base.keys() & new.keys():
        if isinstance(base[key], dict) and isinstance(new[key], dict):
            both[key] = _merged(base[key], new[key])
    return both


HANDLERS: Final[dict[str, Handler]] = {
    "start": start,
    "start-step": start_step,
    "finish-step": finish_step,
    "reset-step": reset_step,
    "text-start": _text_start,
    "text-delta": _text_delta,
    "text-end": _text_end,
    "reasoning-start": _reasoning_start,
    "reasoning-delta": _reasoning_delta,
    "reasoning-end": _reasoning_end,
    "reasoning-file": side.file,
    "tool-input-start": tools.tool_input_start,
    "tool-input-delta": tools.tool_input_delta,
    "tool-input-available": tools.tool_input_available,
    "tool-input-error": tools.tool_input_error,
    "tool-output-available": tools.tool_output_available,
    "tool-output-error": tools.tool_output_error,
    "tool-output-denied": tools.tool_output_denied,
    "tool-approval-request": tools.tool_approval_request,
    "tool-approval-response": tools.tool_approval_response,
    "source-url": side.source_url,
    "source-document": side.source_document,
    "file": side.file,
    "custom": side.custom,
    "steering-message": side.steering_message,
    "message-metadata": message_metadata,
    "finish": finish,
    "abort": abort,
    "error": error,
}

DELTAS: Final[dict[str | None, tuple[Delta, ...]]] = {
    "text-delta": (Delta("text", ("delta",), "id"),),
    "reasoning-delta": (Delta("thinking", ("delta",), "id"),),
}

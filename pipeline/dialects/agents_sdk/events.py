"""The Agents SDK streaming contract, "Option C" (dialect `agents-sdk`): named SSE events, {"event": name, "data": {…}}.

| event | what it does |
|---|---|
| meta | model and start of the run; its ids go to telemetry |
| message.start | a response, with its time |
| message.delta | extends the message's last part if that is text, else begins a text part |
| tool.delta | arguments, used only where tool.call brings none |
| tool.call | a call; a second one of the same id updates it |
| tool.result | its result; of an unknown call: refused |
| source | SystemMessage source.url |
| status | telemetry |
| error | SystemMessage error; the turn is interrupted unless `done` follows |
| message.end | closes the message |
| done | closes the turn |
| any other | SystemMessage of that name |

One message contains several calls of the model: content that comes when a response has results and no open call begins
the next response. Events without a messageId belong to the newest message.
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Violation
from pipeline.dialects.agents_sdk import messages
from pipeline.dialects.vercel_ai.content import user_prompt
from pipeline.dialects.vercel_ai.keys import META
from pipeline.dialects.wire_values import number_or_none, text_or_none
from pipeline.turns.lineage import History
from pipeline.turns.times import epoch_ms
from pipeline.turns.tokens import SUMMED_CALLS
from topics.json_text import Fields, list_of, object_of, objects, present

TELEMETRY: Final = {"requestId": "request_id", "runId": "run_id", "endpoint": "endpoint"}
CLIENT_METADATA: Final = {"projectId": "app/project_id", "sessionId": "session_id", "toolChoice": "agent.tool_choice"}


def begin(builder: Builder) -> None:
    """Set up the run's state, and add the user's turn if the request body has one: the messages after the last answer.

    The body has, beside CLIENT_METADATA, the user's input: a text or a message under `message`, `input` or `prompt`, or
    the conversation under `messages` or `input`. A message has `content` or `parts`: a text, or a list.
    """
    builder.scratch.update(messages={}, calls={}, newest="", latest=0, failed=False, over=False)
    body = object_of(builder.context.request)
    metadata = {name: body[key] for key, name in CLIENT_METADATA.items() if body.get(key) is not None}
    turn = _only_message(body)
    new: list[Any] = [] if turn is None else [turn]
    for message in repeated(body).messages if turn is None else ():
        role = object_of(message).get("role")
        if role == "user":
            new.append(message)
        elif role == "assistant":
            new.clear()
    prompts = [prompt for message in new if (prompt := user_prompt(_parts(message))) is not None]
    if prompts or metadata:
        builder.user_turn(prompts, client_metadata=metadata)


def _parts(message: str | Fields) -> list[Any]:
    """Return a message's content as the parts of a UI message."""
    content = message if isinstance(message, str) else message.get("content", message.get("parts", message.get("text")))
    pieces = content if isinstance(content, list) else [content]
    return [_as_text(piece) or piece for piece in pieces if piece]


def _as_text(piece: Any) -> Fields | None:
    text = piece.get("text") if isinstance(piece, dict) else piece
    return {"type": "text", "text": text} if isinstance(text, str) else None


def _only_message(body: Fields) -> Any:
    return next((body[key] for key in ("message", "input", "prompt") if isinstance(body.get(key), str | dict)), None)


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats."""
    if not isinstance(body, dict):
        return History()
    turn = _only_message(body)
    if turn is not None:
        return History([{"role": "user", **turn} if isinstance(turn, dict) else {"role": "user", "content": turn}])
    return History(list_of(body.get("messages", body.get("input"))))


def _meta(builder: Builder, data: Fields) -> None:
    created = _moment(builder, data)
    if created is not None:
        builder.context.started_at = builder.context.started_at or created
        builder.first_at = created
    if isinstance(data.get("model"), str):
        builder.context.model_name = data["model"]
    known = {name: data[key] for key, name in TELEMETRY.items() if data.get(key) is not None}
    if known:
        builder.sys_event("data-sys-run", known)


def _message_start(builder: Builder, data: Fields) -> None:
    message_id = messages.message_id_of(builder, data)
    if message_id not in builder.scratch["messages"]:
        response = messages.new_response(builder, message_id)
        response.at = _moment(builder, data) or response.at


def _message_delta(builder: Builder, data: Fields) -> None:
    delta = data["delta"]
    if not isinstance(delta, str):
        raise Violation(f"message.delta: 'delta' must be a text, got {delta!r:.80}")
    message_id = messages.message_id_of(builder, data)
    known: messages.Open | None = builder.scratch["messages"].get(message_id)
    text = known.text if known is not None else None
    if text is None or not (text.done or builder.open_text.get(message_id) is text):
        if builder.lossy:  # the event that began this text may have been lost
            return
        text = messages.add_part(builder, message_id, {"part_kind": "text", "content": ""})
        builder.scratch["messages"][message_id].text = builder.open_text[message_id] = text
    text.chunks.append(delta)


def _tool_delta(builder: Builder, data: Fields) -> None:
    delta = data["delta"]
    if not isinstance(delta, str):
        raise Violation(f"tool.delta: 'delta' must be a text, got {delta!r:.80}")
    messages.call_of(builder, data).deltas.append(delta)


def _tool_call(builder: Builder, data: Fields) -> None:
    name = data["toolName"]
    if not isinstance(name, str):
        raise Violation(f"tool.call: 'toolName' must be a text, got {name!r:.80}")
    call = messages.call_of(builder, data)
    call.part.fields["tool_name"] = name
    call.part.done = True
    if "input" in data:
        messages.set_input(call.part, data["input"])
        call.has_input = True


def _tool_result(builder: Builder, data: Fields) -> None:
    call: messages.OpenCall | None = builder.scratch["calls"].get(messages.call_id_of(data))
    if call is None or not call.part.done:
        raise Violation(f"tool.result for {data['toolCallId']!r:.80}: there is no such call")
    failed = data.get("errorText") is not None or data.get("state") == "output-error"
    content = data.get("errorText", data.get("output")) if failed else data.get("output")
    builder.tool_return(data["toolCallId"], status="error" if failed else "success", content=content)
    response, _ = builder.calls[data["toolCallId"]]
    response.closed = not messages.pending(response)


def _source(builder: Builder, data: Fields) -> None:
    """Add the source after the message of its tool call, if it names one."""
    call: messages.OpenCall | None = builder.scratch["calls"].get(data.get("toolCallId"))
    message_id = call.message_id if call is not None else messages.message_id_of(builder, data)
    known: messages.Open | None = builder.scratch["messages"].get(message_id)
    source = {
        "source_id": data.get("sourceId"),
        "url": data.get("url"),
        "title": data.get("title"),
        "tool_call_id": data.get("toolCallId"),
        "message_id": message_id or None,
    }
    message = builder.system("source.url", present(source))
    message.at = messages.now(builder)
    if known is not None:
        messages.end_text(builder, message_id)
        if known.response is builder.last_response():
            message.fields["meta:after_part"] = len(known.response.parts)


def _error(builder: Builder, data: Fields) -> None:
    """Add the error. It ends the run, unless it is retryable or a `done` follows."""
    known = {key: data[key] for key in ("message", "code", "retryable") if key in data}
    builder.system("error", known).at = messages.now(builder)
    builder.error_text = text_or_none(data.get("message"))
    builder.scratch["failed"] = True
    if data.get("retryable") is not True:
        builder.ended = "error"


def _message_end(builder: Builder, data: Fields) -> None:
    message_id = messages.message_id_of(builder, data)
    known: messages.Open | None = builder.scratch["messages"].get(message_id)
    if known is None:
        raise Violation(f"message.end for {message_id!r:.80}: there is no such message")
    messages.close(builder, message_id, known)


def _done(builder: Builder, data: Fields) -> None:
    for message_id, known in builder.scratch["messages"].items():
        messages.close(builder, message_id, known)
    reason = data.get("finishReason")
    last = builder.last_response()
    if last is not None:
        messages.finish_reason(last, reason)
    if isinstance(data.get("usage"), dict):
        _count(builder, data["usage"])
    builder.ended = "error" if reason == "error" else "complete"
    builder.scratch["over"] = True


def _count(builder: Builder, usage: Fields) -> None:
    """Set the run's tokens, and those of each response, if the run tells each call or has only one.

    Where there are more calls than responses, or fewer, the last response has them all, each under `models`.
    """
    entries = [_flat(entry) for entry in objects(usage.get("request_usage_entries"))]
    usage = _flat(usage)
    responses = [message for message in builder.messages if message.kind == "response"]
    if len(entries) == len(responses):
        for response, entry in zip(responses, entries, strict=True):
            builder.usage(entry, response, streamed=True)
    elif entries and responses:
        rest = {key: value for key, value in usage.items() if key != "request_usage_entries"}
        builder.usage({**rest, "models": entries}, streamed=True)
    elif len(responses) == 1:
        several = {SUMMED_CALLS: True} if (number_or_none(usage.get("requests")) or 0) > 1 else {}
        builder.usage(usage | several, streamed=True)
    builder.total_usage = usage
    builder.telemetry.append((builder.at, "data-sys-usage", usage))


def _flat(usage: Fields) -> Fields:
    """Return usage with its details as objects: the Agents SDK writes each in a list."""
    return {
        key: value[0] if key.endswith("_tokens_details") and isinstance(value, list) and value else value
        for key, value in usage.items()
    }


def unknown(builder: Builder, event: Fields) -> None:
    """Keep the event as a system message of its name."""
    if not isinstance(event["event"], str):
        raise Violation(f"an event's name is a text, got {event['event']!r:.80}")
    # Transient: clients do not show it.
    message = builder.system(event["event"], event.get("data"), **{META: {"transient": True}})
    message.at = messages.now(builder)


def finish(builder: Builder, end: str) -> None:
    """Parse arguments that came only as deltas, and end the turn. A run that broke off after an error has failed."""
    for call in builder.scratch["calls"].values():
        if call.part.done and not call.has_input:
            messages.set_input_from_deltas(call)
    if builder.messages:
        failed = builder.scratch["failed"] and end in ("disconnected", "timeout")
        builder.end_turn("error" if failed else end, max(builder.last_at, messages.now(builder)))


def _handler(apply: Handler) -> Handler:
    """Wrap a handler of an event's data. It ignores events after `done`."""

    def handle(builder: Builder, event: Fields) -> None:
        data = event["data"]
        if not isinstance(data, dict):
            raise Violation(f"{event['event']}: 'data' must be an object, got {data!r:.80}")
        if not builder.scratch["over"]:
            apply(builder, data)

    return handle


def _moment(builder: Builder, data: Fields) -> int | None:
    """Return the event's `createdAt` in epoch ms. The turn lasts at least until then."""
    created = epoch_ms(data.get("createdAt"))
    if created is not None:
        builder.scratch["latest"] = max(builder.scratch["latest"], created)
    return created


HANDLERS: Final[dict[str, Handler]] = {
    "meta": _handler(_meta),
    "message.start": _handler(_message_start),
    "message.delta": _handler(_message_delta),
    "message.end": _handler(_message_end),
    "tool.call": _handler(_tool_call),
    "tool.delta": _handler(_tool_delta),
    "tool.result": _handler(_tool_result),
    "source": _handler(_source),
    "status": _handler(lambda builder, data: builder.sys_event("data-sys-status", data)),
    "error": _handler(_error),
    "done": _handler(_done),
}

"""AG-UI events (dialect `ag-ui`), 1.0 and 0.x: the protocol as a table.

| event | what it does |
|---|---|
| RUN_STARTED | `input`: the request, if not published; `parentRunId`: the run before; after an end, another turn |
| TEXT_MESSAGE_START, _CONTENT, _END, _CHUNK | a `text` of the message; chunks end where something else begins |
| REASONING_MESSAGE_START, _CONTENT, _END, _CHUNK | a `thinking` part |
| THINKING_TEXT_MESSAGE_START, _CONTENT, _END | the same in 0.x, without ids |
| TOOL_CALL_START, _ARGS, _END, _CHUNK | a call; of a `pyd_ai_builtin…` id: the provider's own |
| TOOL_CALL_RESULT | the `tool-return` after the message with the call |
| REASONING_ENCRYPTED_VALUE | a thought's `signature`, also beside calls; of Pydantic AI's results: their status |
| MESSAGES_SNAPSHOT | replaces the streamed messages; messages older than the run are left out |
| STATE_SNAPSHOT, ACTIVITY_SNAPSHOT | SystemMessage custom:ag-ui.TYPE |
| STATE_DELTA, ACTIVITY_DELTA | the same; consecutive events are one message |
| CUSTOM usage | SystemMessage custom:usage; the tokens of the run so far, as Microsoft's Agent Framework writes them |
| CUSTOM data-sys-* | telemetry; data-sys-usage: the tokens of the newest response |
| CUSTOM data-tp-* | SystemMessage of that name, and what it means for links and thread |
| CUSTOM data-feedback | SystemMessage of that name, and feedback |
| CUSTOM | SystemMessage custom:NAME |
| SUBAGENT_STARTED, _FINISHED, _ERROR | SystemMessage custom:ag-ui.subagent with the sub-agent's messages |
| RUN_FINISHED | the turn is complete, also where it waits for the user or for tools of the client; `usage` |
| RUN_FINISHED, outcome cancelled | the turn is interrupted |
| RUN_ERROR | SystemMessage `error`; the turn is interrupted, unless it had finished |
| STEP_STARTED, within a thought | names the thought (TanStack) |
| STEP_*, REASONING_START, REASONING_END, THINKING_START, THINKING_END | nothing |
| RAW | of Agno, the end of a model's call: its tokens; else nothing: it repeats other events |
| any other | SystemMessage data-app-TYPE |

Source: ag-ui-protocol/ag-ui, and how its client reads a stream (defaultApplyEvents).
"""

from functools import wraps
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Delta, Handler, Stretch, Violation, nothing
from pipeline.assembly.telemetry import FEEDBACK
from pipeline.dialects.ag_ui import text, usage
from pipeline.dialects.ag_ui.messages import read, replace, set_history
from pipeline.dialects.ag_ui.stream import (
    META,
    Item,
    Stream,
    get,
    note,
    seal_call,
    stream_of,
    tanstack,
    text_of,
    unknown_fields,
)
from pipeline.dialects.ag_ui.turn import write
from pipeline.dialects.tp_events import interpret
from pipeline.dialects.wire_values import text_or_empty, text_or_none
from topics.json_text import Fields, object_of, present

UNSAID: Final = frozenset({"type", "timestamp", "rawEvent", "raw_event"})


def run_started(builder: Builder, event: Fields) -> None:
    """Begin the run; after an end, the next one."""
    stream: Stream = builder.scratch["stream"]
    if stream.over or builder.ended is not None:
        known = stream.known | {item.id for item in stream.items}
        write(builder, stream, builder.ended or "disconnected")
        builder.end_turn(builder.ended or "disconnected", builder.at)
        builder.ended = None
        builder.open_text.clear()
        stream = builder.scratch["stream"] = Stream(known=known, earlier=stream.earlier)
    ids = {key: get(event, key) for key in ("runId", "parentRunId")}
    note(builder.notes, {**ids, "fields": unknown_fields(event)})
    set_history(builder, event)
    if isinstance(event.get("input"), dict):
        read(builder, stream, event["input"])


def tool_call_result(builder: Builder, event: Fields) -> None:
    """Add a result; its call is then complete. 0.x servers write it under `result`, without a message id."""
    stream, call_id = stream_of(builder, event), text_of(event, "toolCallId")
    builder.ended = None  # TanStack's runs go on with the results
    content = event["content"] if event.get("content") is not None else event.get("result", "")
    if stream.key(text.CALL + call_id) in builder.open_text:
        text.end_call(builder, stream, call_id)
    failed = "output-error" in (event.get("state"), tanstack(event).get("state"))
    error = event.get("error", content if failed else None)
    attrs = {"toolCallId": call_id, "content": content, "error": error, "fields": unknown_fields(event)}
    message_id = get(event, "messageId")
    stream.answer(Item("tool", text_or_empty(message_id), builder.at, builder.at, attrs=present(attrs)))


def encrypted_value(builder: Builder, event: Fields) -> None:
    """Keep encrypted data of a thought, a call or a result, which is sent back to the provider."""
    stream, entity, value = stream_of(builder, event), text_of(event, "entityId"), get(event, "encryptedValue")
    if event.get("subtype") == "tool-call":
        seal_call(stream.calls[entity][1], value)
        return
    entity = stream.steps.get(entity, entity)
    items = [item for item in stream.items if item.id == entity and item.role != "event"]
    if not items and entity not in stream.known:  # an unreadable thought has no message of its own
        items = [Item("reasoning", entity, builder.at, builder.at)]
        stream.items += items
    if not items:
        raise Violation(f"REASONING_ENCRYPTED_VALUE: the message {entity!r:.80} is of an earlier run")
    rank = {"reasoning": 2, "tool": 1}
    max(items, key=lambda item: rank.get(item.role, 0)).attrs["encryptedValue"] = value


def step_started(builder: Builder, event: Fields) -> None:
    """Note whose step begins: TanStack begins a step with each thought, and seals it by the step's name."""
    stream, name = stream_of(builder, event), get(event, "stepName")
    thought = next((item for item in reversed(stream.items) if item.role != "event"), None)
    if isinstance(name, str) and thought is not None and stream.key(text.THOUGHT + thought.id) in builder.open_text:
        stream.steps[name] = thought.id


def messages_snapshot(builder: Builder, event: Fields) -> None:
    """Replace the messages by the server's conversation."""
    messages = event["messages"]
    if not isinstance(messages, list):
        raise Violation(f"MESSAGES_SNAPSHOT: 'messages' must be a list, got {messages!r:.80}")
    replace(builder, stream_of(builder, event), messages)


def run_finished(builder: Builder, event: Fields) -> None:
    """End the run, complete or cancelled. After an error it changes nothing."""
    stream: Stream = builder.scratch["stream"]
    outcome: Fields = object_of(event.get("outcome"))
    kind = outcome.get("type")
    if stream.over:
        return
    if kind == "interrupt":
        stream.beside(builder, "custom:ag-ui.interrupt", {"interrupts": outcome.get("interrupts")})
    if event.get("result") is not None:
        stream.beside(builder, "custom:ag-ui.result", event["result"])
    if (rest := unknown_fields(event)) is not None:
        note(builder.notes, {"fields": {**builder.notes.get(META, {}).get("fields", {}), **rest}})
    if told := tanstack(event):
        usage.add_of_call(builder, stream, event.get("usage"), told)
    else:
        usage.add_of_run(builder, stream, event.get("usage"))
    stream.over = told.get("finishReason") != "tool_calls"
    builder.ended = "aborted" if kind == "cancelled" else "complete"


def run_error(builder: Builder, event: Fields) -> None:
    """Fail the run; a finished run stays complete."""
    stream: Stream = builder.scratch["stream"]
    stream.beside(builder, "error", present({"error": event.get("message"), "code": event.get("code")}))
    if not stream.over:
        usage.add_of_run(builder, stream, event.get("usage"))
        stream.over = True
        builder.ended = "error"
        builder.error_text = text_or_none(event.get("message"))


def finish(builder: Builder, end: str) -> None:
    """Set the turn's end before it is built: RUN_FINISHED makes it complete, the publisher's `end` does not."""
    if end != "complete" or builder.ended is not None:
        write(builder, builder.scratch["stream"], end)
        return
    write(builder, builder.scratch["stream"], "disconnected")
    builder.end_turn("disconnected")


def _content(handle: Handler, *, chunk: bool = False) -> Handler:
    """Wrap a handler of conversation: it ignores events after the end, as AG-UI's client does."""

    @wraps(handle)
    def handler(builder: Builder, event: Fields) -> None:
        if builder.scratch["stream"].over:
            raise Violation(f"{event['type']}: the run is over")
        stream = stream_of(builder, event)
        if not chunk and stream.chunked is not None:
            text.end_chunks(builder, stream)
        handle(builder, event)

    return handler


def _beside(builder: Builder, event: Fields) -> None:
    """Add state or an activity at its position among the messages."""
    builder.scratch["stream"].beside(builder, f"custom:ag-ui.{event['type'].lower()}", _data(event))


def _patched(builder: Builder, event: Fields) -> None:
    """Keep consecutive patches in one message, as separate entries: a client skips a patch that fails as a whole."""
    stream, name = builder.scratch["stream"], f"custom:ag-ui.{event['type'].lower()}"
    patch = event.get("delta", event.get("patch"))
    last = stream.items[-1].event if stream.items else None
    data: Any = last.fields["event_data"] if last is not None else None
    rest = {key: value for key, value in _data(event).items() if key not in ("delta", "patch")}
    if last is not None and last.fields["event_type"] == name and data == {**rest, "patches": data["patches"]}:
        data["patches"].append(patch)
    else:
        stream.beside(builder, name, {**rest, "patches": [patch]})


def _custom(builder: Builder, event: Fields) -> None:
    """Add the application's event, telemetry, or an event of ThreadProtocol."""
    name, value = text_of(event, "name"), event.get("value")
    if not name.startswith("data-sys-"):
        if name.startswith("data-tp-") or name == FEEDBACK:
            interpret(builder, name, value)
        if name == "usage":
            usage.add_growth(builder.scratch["stream"], value)
        event_type = name if name.startswith(("data-", "custom:")) else f"custom:{name}"
        builder.scratch["stream"].beside(builder, event_type, value)
        return
    counted = name == "data-sys-usage" and isinstance(value, dict) and get(event, "subagentRunId") is None
    newest = builder.scratch["stream"].newest() if counted else None
    if newest is None:
        builder.telemetry.append((builder.at, name, value))
    else:
        newest.usage = value  # counted with its response


def _subagent_started(builder: Builder, event: Fields) -> None:
    """Begin a sub-agent: its events name it, and its messages are not part of this conversation."""
    name, stream = text_of(event, "subagentRunId"), builder.scratch["stream"]
    stream_of(builder, event)
    stream.beside(builder, "custom:ag-ui.subagent", _data(event)).attrs["subagent"] = name


def _subagent_ended(builder: Builder, event: Fields) -> None:
    name = text_of(event, "subagentRunId")
    stream: Stream = builder.scratch["stream"]
    item = next((item for item in stream.items if item.attrs.get("subagent") == name), None)
    if item is None or item.event is None:
        raise Violation(f"{event['type']}: no sub-agent has the id {name!r:.80}")
    item.event.fields["event_data"] |= _data(event)


def unknown(builder: Builder, event: Fields) -> None:
    """Keep an event of an unknown type: protocols grow."""
    kind = event["type"]
    if not isinstance(kind, str):
        raise TypeError(kind)
    builder.scratch["stream"].beside(builder, f"data-app-{kind}", _data(event))


def _data(event: Fields) -> Fields:
    return {key: value for key, value in event.items() if key not in UNSAID and value is not None}


HANDLERS: Final[dict[str, Handler]] = {
    "RUN_STARTED": run_started,
    "RUN_FINISHED": run_finished,
    "RUN_ERROR": run_error,
    "TEXT_MESSAGE_START": _content(text.text_start),
    "TEXT_MESSAGE_CONTENT": _content(text.text_content),
    "TEXT_MESSAGE_END": _content(text.text_end),
    "TEXT_MESSAGE_CHUNK": _content(text.text_chunk, chunk=True),
    "REASONING_MESSAGE_START": _content(text.thought_start),
    "REASONING_MESSAGE_CONTENT": _content(text.thought_content),
    "REASONING_MESSAGE_END": _content(text.thought_end),
    "REASONING_MESSAGE_CHUNK": _content(text.thought_chunk, chunk=True),
    "THINKING_TEXT_MESSAGE_START": _content(text.thought_start),
    "THINKING_TEXT_MESSAGE_CONTENT": _content(text.thought_content),
    "THINKING_TEXT_MESSAGE_END": _content(text.thought_end),
    "TOOL_CALL_START": _content(text.call_start),
    "TOOL_CALL_ARGS": _content(text.call_args),
    "TOOL_CALL_END": _content(text.call_end),
    "TOOL_CALL_CHUNK": _content(text.call_chunk, chunk=True),
    "TOOL_CALL_RESULT": _content(tool_call_result),
    "REASONING_ENCRYPTED_VALUE": _content(encrypted_value),
    "MESSAGES_SNAPSHOT": _content(messages_snapshot),
    "STATE_SNAPSHOT": _beside,
    "STATE_DELTA": _patched,
    "ACTIVITY_SNAPSHOT": _beside,
    "ACTIVITY_DELTA": _patched,
    "CUSTOM": _custom,
    "RAW": usage.add_of_agno,
    "SUBAGENT_STARTED": _subagent_started,
    "SUBAGENT_FINISHED": _subagent_ended,
    "SUBAGENT_ERROR": _subagent_ended,
    "STEP_STARTED": step_started,
    **dict.fromkeys(("STEP_FINISHED", "REASONING_START", "REASONING_END", "THINKING_START", "THINKING_END"), nothing),
}

DELTAS: Final[dict[str | None, tuple[Delta, ...]]] = {
    "TEXT_MESSAGE_CONTENT": (Delta("text", ("delta",), "messageId"),),
    "TEXT_MESSAGE_CHUNK": (Delta("text", ("delta",), "messageId"),),
    "REASONING_MESSAGE_CONTENT": (Delta("thinking", ("delta",), "messageId"),),
    "REASONING_MESSAGE_CHUNK": (Delta("thinking", ("delta",), "messageId"),),
    "TOOL_CALL_ARGS": (Delta("arguments", ("delta",), "toolCallId"),),
    "TOOL_CALL_CHUNK": (Delta("arguments", ("delta",), "toolCallId"),),
}
STRETCHES: Final[dict[str | None, Stretch]] = {kind: text.stretch(kind, *deltas) for kind, deltas in DELTAS.items()}

"""pi-agent-core's AgentEvents (dialect `pi-agent`), of 0.64 (full snapshots) to 1.6 (compact wire).

| event | what it does |
|---|---|
| agent_start … agent_end | one AgentTurn; the messages of agent_end are authoritative; `willRetry` keeps it open |
| message_start | of an assistant message: begins what message_update shows |
| message_update | the partial response and its tokens, if the message breaks off; the first times the first token |
| message_end | the whole message: deltas lack signatures, and some providers send none |
| message_end, agent_end, the same again | nothing |
| turn_start, turn_end, tool_execution_* | for display: message_end contains the same |
| any other | SystemMessage data-app-TYPE |
"""

from typing import Any, Final

from pipeline.assembly.agent_turn import BILLED
from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Violation, nothing
from pipeline.dialects.pi_agent.messages import Received, response_fields, span, time_of, total, write
from pipeline.dialects.pi_agent.parts import Growing, blocks, show
from pipeline.dialects.wire_values import text_or_none
from pipeline.turns import tokens
from topics.json_text import Fields

# ms. A live run's messages have times that differ from those of their receipt by less than this.
LIVE_MS: Final = 1_000


def begin(builder: Builder) -> None:
    """Set up an empty run: this wire reads nothing from the request body."""
    builder.returns_by_call = False  # versions order results differently: they keep the order of the wire
    builder.scratch["received"] = []
    builder.scratch["open"] = None


def _agent_start(builder: Builder, event: Fields) -> None:
    """Begin a run. A run that is still open broke off, unless its agent_end had `willRetry`."""
    received: list[Received] = builder.scratch["received"]
    if received and not builder.scratch.get("retrying"):
        _end_turn(builder, received, "disconnected", builder.at)
    if not builder.scratch.get("retrying"):
        builder.first_at = builder.at
    builder.scratch.update(running=True, retrying=False)
    builder.ended = None


def _message_start(builder: Builder, event: Fields) -> None:
    if _message(event)["role"] == "assistant":
        builder.scratch["open"] = Received(event["message"])
        builder.scratch["growing"] = Growing()


def _message_update(builder: Builder, event: Fields) -> None:
    opened: Received | None = builder.scratch["open"]
    if opened is None:
        return
    if opened.first_part_at is None and event["assistantMessageEvent"].get("type") != "start":
        opened.first_part_at = builder.at
    growing: Growing = builder.scratch["growing"]
    growing.take(event)


def _message_end(builder: Builder, event: Fields) -> None:
    message = _message(event)
    received: list[Received] = builder.scratch["received"]
    if received and received[-1].message == message and time_of(message) is not None:
        builder.scratch["open"] = None  # the same event again
        return
    if message["role"] == "toolResult" and not _answers(message, received):
        raise Violation(f"tool result for {message.get('toolCallId')!r:.80}: the response before it has no such call")
    item = Received(message, None, builder.at)
    if message["role"] == "assistant":
        opened: Received | None = builder.scratch["open"]
        item.first_part_at = opened.first_part_at if opened is not None else None
        builder.scratch["open"] = None
        builder.context.model_name = builder.context.model_name or text_or_none(message.get("model"))
        builder.context.provider_name = builder.context.provider_name or text_or_none(message.get("provider"))
        if message.get("durationMs") is not None:
            builder.sys_event("data-sys-latency", {"model_latency_ms": message["durationMs"]})
    received.append(item)


def _agent_end(builder: Builder, event: Fields) -> None:
    messages = event.get("messages")
    if messages is not None and not isinstance(messages, list):
        raise Violation(f"agent_end: 'messages' must be a list, got {messages!r:.80}")
    received = builder.scratch["received"]
    if not (received or builder.scratch.get("running")) and messages == builder.scratch.get("over", ()):
        return
    kept: int = builder.scratch.get("kept", 0)  # messages of attempts before this one
    received[kept:] = _reconciled(received[kept:], [m for m in messages or [] if _is_message(m)])
    builder.scratch["open"] = None
    if event.get("willRetry") is True:
        builder.scratch["retrying"], builder.scratch["kept"] = True, len(received)
        return
    builder.ended = _end_turn(builder, received, "complete", builder.at)
    builder.scratch["over"] = messages


def unknown(builder: Builder, event: Fields) -> None:
    """Keep the event unchanged, at its position between the messages."""
    if not isinstance(event["type"], str):
        raise Violation(f"an event's 'type' is a text, got {event['type']!r:.80}")
    rest = {key: value for key, value in event.items() if key != "type"}
    builder.scratch["received"].append(Received(rest | {"role": event["type"]}, None, builder.at, is_event=True))


def finish(builder: Builder, end: str) -> None:
    """End the turn of a run without agent_end with the messages that were received."""
    if builder.scratch["received"] or builder.scratch.get("running"):
        _end_turn(builder, builder.scratch["received"], end, builder.last_at)


def _end_turn(builder: Builder, received: list[Received], end: str, at: int) -> Any:
    """Write the turn; return its end: that of the last response if this was cut off, else `end`."""
    times = span(received)
    if times is not None and not (builder.first_at - LIVE_MS <= times[1] <= at + LIVE_MS):
        # A recorded run is read again, so the times of receipt are meaningless: use the messages' times.
        builder.first_at, at = times
        for item in received:
            item.first_part_at = item.last_at = None
    cut_off = write(builder, received)
    end = cut_off if cut_off is not None and end in ("complete", "disconnected", "timeout") else end
    opened: Received | None = builder.scratch["open"]
    if opened is not None and end != "complete":
        _show(builder, opened)
    builder.end_turn(end, at)
    builder.scratch.update(received=[], open=None, running=False, retrying=False, kept=0)
    return end


def _show(builder: Builder, opened: Received) -> None:
    """Append the response that broke off, with its model and the tokens that are known so far."""
    growing: Growing = builder.scratch["growing"]
    known = {**opened.message, "usage": growing.usage, **(growing.snapshot or {})}
    fields = {name: value for name, value in response_fields(known).items() if name in BILLED}
    if any(tokens.counts(fields.get("usage")).values()):
        builder.total_usage = total([builder.total_usage or {}, fields["usage"]])
    else:
        fields.pop("usage", None)
    show(builder, growing.blocks(), opened.first_part_at, fields)


def _reconciled(received: list[Received], final: list[Fields]) -> list[Received]:
    """Return agent_end's messages with their times of receipt, and received ones that it lacks (after an exception)."""
    merged = [Received(message) for message in final]
    missing = list(merged)
    at = 0
    for item in received:
        match = next((other for other in missing if _identity(other.message) == _identity(item.message)), None)
        if match is None:
            merged.insert(at, item)
            at += 1
            continue
        missing.remove(match)
        match.first_part_at, match.last_at = item.first_part_at, item.last_at
        at = merged.index(match) + 1
    return merged


def _identity(message: Fields) -> tuple[Any, ...]:
    # `stopReason`: an exception's message may come in the same millisecond as the answer before it.
    return message["role"], message.get("timestamp"), message.get("toolCallId"), message.get("stopReason")


def _answers(result: Fields, received: list[Received]) -> bool:
    """Return True if the newest response has the result's call, or if there is none: an earlier run may have it."""
    for item in reversed(received):
        if item.message["role"] == "assistant":
            calls = (block for block in blocks(item.message.get("content")) if block.get("type") == "toolCall")
            return any(call.get("id") == result.get("toolCallId") for call in calls)
    return True


def _message(event: Fields) -> Fields:
    message: Fields = event["message"]
    if not _is_message(message):
        raise Violation(f"{event['type']}: a message is an object with a role, got {message!r:.80}")
    return message


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


HANDLERS: Final[dict[str, Handler]] = {
    "agent_start": _agent_start,
    "agent_end": _agent_end,
    "message_start": _message_start,
    "message_update": _message_update,
    "message_end": _message_end,
    **dict.fromkeys(("turn_start", "turn_end"), nothing),
    **dict.fromkeys(("tool_execution_start", "tool_execution_update", "tool_execution_end"), nothing),
}

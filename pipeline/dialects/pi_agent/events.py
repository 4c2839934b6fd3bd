"""pi-agent-core's AgentEvents (dialect `pi-agent`), of 0.64 (full snapshots) to 1.5 (compact wire).

| event | what it does |
|---|---|
| agent_start … agent_end | one AgentTurn; the messages of agent_end are the authority; `willRetry` keeps it open |
| message_start | of an assistant message: its clock starts |
| message_update | for display; the first one with content is the time to the first token |
| message_end | a message is there, whole: deltas lack signatures, and some providers send none |
| turn_start, turn_end, tool_execution_* | for display: message_end says the same |
| any other | SystemMessage data-app-TYPE |
"""

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Violation, nothing
from pipeline.dialects.pi_agent.messages import Said, span, write
from pipeline.dialects.pi_agent.parts import blocks
from topics.json_text import Fields

# The clocks of a live run's messages and of their receipt differ by less than this.
LIVE_MS: Final = 1_000


def begin(builder: Builder) -> None:
    """Nothing is known of a run before its events."""
    builder.returns_by_call = False  # versions differ in the order of results: as emitted
    builder.scratch["said"] = []
    builder.scratch["open"] = None


def _agent_start(builder: Builder, event: Fields) -> None:
    """A run that began before, and was not closed to be tried again, broke off."""
    said: list[Said] = builder.scratch["said"]
    if said and not builder.scratch.get("retrying"):
        _end_turn(builder, said, "disconnected", builder.at)
    if not builder.scratch.get("retrying"):
        builder.first_at = builder.at
    builder.scratch.update(running=True, retrying=False)
    builder.ended = None


def _message_start(builder: Builder, event: Fields) -> None:
    if _message(event)["role"] == "assistant":
        builder.scratch["open"] = Said(event["message"])


def _message_update(builder: Builder, event: Fields) -> None:
    said: Said | None = builder.scratch["open"]
    if said is not None and said.first_part_at is None and event["assistantMessageEvent"].get("type") != "start":
        said.first_part_at = builder.at


def _message_end(builder: Builder, event: Fields) -> None:
    message = _message(event)
    said: list[Said] = builder.scratch["said"]
    if message["role"] == "toolResult" and not _answers(message, said):
        raise Violation(f"tool result for {message.get('toolCallId')!r:.80}: the response before it has no such call")
    item = Said(message, None, builder.at)
    if message["role"] == "assistant":
        begun: Said | None = builder.scratch["open"]
        item.first_part_at = begun.first_part_at if begun is not None else None
        builder.scratch["open"] = None
        builder.context.model_name = builder.context.model_name or _text(message.get("model"))
        builder.context.provider_name = builder.context.provider_name or _text(message.get("provider"))
        if message.get("durationMs") is not None:
            builder.sys_event("data-sys-latency", {"model_latency_ms": message["durationMs"]})
    said.append(item)


def _agent_end(builder: Builder, event: Fields) -> None:
    messages = event.get("messages")
    if messages is not None and not isinstance(messages, list):
        raise Violation(f"agent_end: 'messages' must be a list, got {messages!r:.80}")
    said = builder.scratch["said"]
    kept: int = builder.scratch.get("kept", 0)  # messages of attempts before this one
    said[kept:] = _reconciled(said[kept:], [m for m in messages or [] if _is_message(m)])
    builder.scratch["open"] = None
    if event.get("willRetry") is True:
        builder.scratch["retrying"], builder.scratch["kept"] = True, len(said)
        return
    builder.ended = _end_turn(builder, said, "complete", builder.at)


def unknown(builder: Builder, event: Fields) -> None:
    """Kept as it is, at its place between the messages."""
    if not isinstance(event["type"], str):
        raise Violation(f"an event's 'type' is a text, got {event['type']!r:.80}")
    rest = {key: value for key, value in event.items() if key != "type"}
    builder.scratch["said"].append(Said(rest | {"role": event["type"]}, None, builder.at, is_event=True))


def finish(builder: Builder, end: str) -> None:
    """A run without its agent_end: what was said until then."""
    if builder.scratch["said"] or builder.scratch.get("running"):
        _end_turn(builder, builder.scratch["said"], end, builder.last_at)


def _end_turn(builder: Builder, said: list[Said], end: str, at: int) -> Any:
    """-> how the turn ended: as its last response, where that was cut off."""
    told = span(said)
    if told is not None and not (builder.first_at - LIVE_MS <= told[1] <= at + LIVE_MS):
        # Not received when it happened: an old run that is read again. Then the messages' own times are all there is.
        builder.first_at, at = told
        for item in said:
            item.first_part_at = item.last_at = None
    cut_off = write(builder, said)
    end = cut_off if cut_off is not None and end in ("complete", "disconnected", "timeout") else end
    builder.end_turn(end, at)
    builder.scratch.update(said=[], open=None, running=False, retrying=False, kept=0)
    return end


def _reconciled(heard: list[Said], final: list[Fields]) -> list[Said]:
    """The messages of agent_end, with the times of those heard; what it leaves out (a run that threw) stays."""
    merged = [Said(message) for message in final]
    missing = list(merged)
    at = 0
    for item in heard:
        told = next((other for other in missing if _identity(other.message) == _identity(item.message)), None)
        if told is None:
            merged.insert(at, item)
            at += 1
            continue
        missing.remove(told)
        told.first_part_at, told.last_at = item.first_part_at, item.last_at
        at = merged.index(told) + 1
    return merged


def _identity(message: Fields) -> tuple[Any, ...]:
    return message["role"], message.get("timestamp"), message.get("toolCallId")


def _answers(result: Fields, said: list[Said]) -> bool:
    """Whether the newest response has the result's call; without a response, an earlier run may have it."""
    for item in reversed(said):
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


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


HANDLERS: Final[dict[str, Handler]] = {
    "agent_start": _agent_start,
    "agent_end": _agent_end,
    "message_start": _message_start,
    "message_update": _message_update,
    "message_end": _message_end,
    "turn_start": nothing,
    "turn_end": nothing,
    "tool_execution_start": nothing,
    "tool_execution_update": nothing,
    "tool_execution_end": nothing,
}

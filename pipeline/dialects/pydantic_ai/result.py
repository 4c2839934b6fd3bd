"""`agent_run_result`: the run's messages, which replace those built from its events.

The result contains the whole history; the run's messages begin at its `new_message_index` (1.x: `_state` and
`_new_message_index`). The user's prompts of the first request become the user turn and are not repeated in the agent
turn; if that request contains more than these, PROMPT_AT keeps their positions.
"""

from __future__ import annotations

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, MessageKind, Part
from pipeline.dialects.pydantic_ai.keys import EXACT, PROMPT_AT
from pipeline.dialects.pydantic_ai.messages import Converted, message, usage
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields

HAS_MESSAGES: Final = "has_messages"  # key of builder.scratch: the run's messages came with its result


def run_result(builder: Builder, event: Fields) -> None:
    """Complete the run; its messages replace those of the events."""
    result = event["result"]
    state = result.get("_state") or {}
    history = result.get("messages", state.get("message_history"))
    tokens = usage(result.get("usage", state.get("usage")))
    if history is not None:
        replace(builder, [message(raw) for raw in new_messages(history, result, state)])
        builder.scratch[HAS_MESSAGES] = True
    _run_usage(builder, tokens)
    builder.ended = "complete"


def new_messages(history: list[Fields], result: Fields, state: Fields) -> list[Fields]:
    """Return the messages that this run added to its history."""
    index = result.get("new_message_index", result.get("_new_message_index"))
    if type(index) is int and 0 <= index <= len(history):
        return history[index:]
    run_id = result.get("run_id") or state.get("run_id")
    numbers = [number for number, raw in enumerate(history) if run_id is not None and raw.get("run_id") == run_id]
    return history[numbers[0] :] if numbers else history


def replace(builder: Builder, new: list[Converted]) -> None:
    """Build the turn from `new`. System messages and the times of the stream stay."""
    streamed = [old for old in builder.messages if old.kind == "response"]
    beside = _system_messages(builder)
    builder.close_response()
    builder.calls, builder.orphans, builder.user_turns = {}, {}, []
    builder.messages = list(beside.get(0, ()))
    at, number = None, 0
    for index, converted in enumerate(new):
        at = converted.at if converted.at is not None else at if at is not None else builder.first_at
        if index == 0:
            builder.began_at = builder.first_at = at
        rest = split_prompts(builder, converted, at) if index == 0 else converted
        if rest is None:
            continue
        added = add_message(builder, rest, at)
        if added.kind == "response":
            if number < len(streamed):
                added.first_part_at, added.last_at = streamed[number].first_part_at, streamed[number].last_at
            number += 1
            builder.messages.extend(beside.pop(number, ()))
        builder.last_at = max(builder.last_at, at)
    for later in sorted(key for key in beside if key > 0):
        builder.messages.extend(beside[later])


def _system_messages(builder: Builder) -> dict[int, list[Message]]:
    """Return system messages by the number of responses before them."""
    beside: dict[int, list[Message]] = {}
    responses = 0
    for old in builder.messages:
        if old.kind == "response":
            responses += 1
        elif old.kind == "system":
            beside.setdefault(responses, []).append(old)
    return beside


def split_prompts(builder: Builder, first: Converted, at: int) -> Converted | None:
    """Make the user prompts of the run's first message the user turn; return the rest of the message, None if empty."""
    prompts = [number for number, part in enumerate(first.parts) if part["part_kind"] == "user-prompt"]
    if not prompts:
        return first
    parts = [first.parts[number] for number in prompts]
    rest = [part for number, part in enumerate(first.parts) if number not in prompts]
    spoken = [time for part in parts if (time := epoch_ms(part.get("timestamp"))) is not None]
    began = epoch_ms(builder.context.started_at)  # the SDK dates the prompt within the run; it was sent before
    submitted = min(time for time in (at, *spoken, began) if time is not None)
    if rest:
        builder.user_turn(parts, at=submitted)
        return Converted(first.kind, first.at, rest, first.fields, {**first.exact, PROMPT_AT: prompts})
    builder.user_turn(parts, at=submitted, **{EXACT: first.exact})
    return None


def add_message(builder: Builder, converted: Converted, at: int) -> Message:
    """Append a whole message. A request directly after a response is linked to it."""
    exact = dict(converted.exact)
    fields = dict(converted.fields)
    if PROMPT_AT in exact:
        fields[PROMPT_AT] = exact.pop(PROMPT_AT)
    fields[EXACT] = exact
    kind: MessageKind = "response" if converted.kind == "response" else "request"
    added = Message(kind, at, [Part(part, done=True) for part in converted.parts], fields, closed=True, keep_empty=True)
    if kind == "request":
        answered = builder.last_response()
        if answered is not None and answered.request is None:
            answered.request = added
    builder.messages.append(added)
    return added


def _run_usage(builder: Builder, tokens: Fields | None) -> None:
    """Set the run's tokens, unless other runs are included in them (`usage=ctx.usage` of a delegation)."""
    if tokens is None:
        return
    responses = sum(1 for item in builder.messages if item.kind == "response")
    requests: Any = tokens.get("requests")
    if requests is None or requests <= responses:
        builder.total_usage = tokens
    else:
        builder.notes["meta:run_usage"] = tokens

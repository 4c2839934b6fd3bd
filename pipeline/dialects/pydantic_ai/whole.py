"""The messages of a run's result: they replace those of the events, but for what a processor of the history removed."""

from collections.abc import Sequence
from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, MessageKind, Part
from pipeline.dialects.pydantic_ai.keys import EXACT, PROMPT_AT
from pipeline.dialects.pydantic_ai.messages import Converted
from pipeline.turns.text import join
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields


def new_messages(history: list[Fields], result: Fields, state: Fields) -> list[Fields]:
    """Return the messages that this run added to its history."""
    index = result.get("new_message_index", result.get("_new_message_index"))
    if type(index) is int and 0 <= index <= len(history):
        return history[index:]
    run_id = result.get("run_id") or state.get("run_id")
    numbers = [number for number, raw in enumerate(history) if run_id is not None and raw.get("run_id") == run_id]
    return history[numbers[0] :] if numbers else history


def replace(builder: Builder, new: list[Converted], asked: Sequence[Fields] = ()) -> None:
    """Build the turn from `new`. System messages and the times of the stream stay.

    A processor of the history may have removed the first messages of the run: they stay, too. `asked`: the prompts of
    the request, if it is known.
    """
    streamed = [old for old in builder.messages if old.kind == "response"]
    cut, beside = _cut_off(streamed, new), _system_messages(builder)
    builder.close_response()
    builder.calls, builder.orphans = {}, {}
    at, number = None, cut
    if cut:
        builder.messages = builder.messages[: builder.messages.index(streamed[cut])]
        beside = {key: messages for key, messages in beside.items() if key > cut}
        new = _from_response(builder, new, asked)
    else:
        builder.messages, builder.user_turns = list(beside.get(0, ())), []
    for index, converted in enumerate(new):
        at = converted.at if converted.at is not None else at if at is not None else builder.first_at
        if index == 0 and not cut:
            builder.began_at = builder.first_at = at
        rest = split_prompts(builder, converted, at) if index == 0 and not cut else converted
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


def _cut_off(streamed: list[Message], new: list[Converted]) -> int:
    """Return how many of the streamed responses, all of them answered, stood before the first of `new`."""
    first = next((converted for converted in new if converted.kind == "response"), None)
    said = _said([Part(fields, done=True) for fields in first.parts]) if first is not None else []
    for number, old in enumerate(streamed):
        if said and _said(old.parts) == said:
            return number
        if old.request is None:
            break
    return 0


def _said(parts: list[Part]) -> list[Any]:
    """Return by what a response is known: its calls, or else its texts."""
    calls = [part.fields["tool_call_id"] for part in parts if part.fields["part_kind"] == "tool-call"]
    texts = (str(part.fields["content"]) + join(part.chunks) for part in parts if part.fields["part_kind"] == "text")
    return calls or [text for text in texts if text]


def _from_response(builder: Builder, new: list[Converted], asked: Sequence[Fields]) -> list[Converted]:
    """Return the messages from the first response on; before it, words that nobody has sent are a processor's."""
    first = next(number for number, converted in enumerate(new) if converted.kind == "response")
    prompts = [part for converted in new[:first] for part in converted.parts if part["part_kind"] == "user-prompt"]
    sent = [part.get("content") for part in asked]
    if prompts and not sent:
        builder.user_turn(prompts)
    for part in prompts if sent else ():
        if part.get("content") not in sent:
            builder.system("custom:pydantic-ai.summary", {"content": part.get("content")})
    return new[first:]


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

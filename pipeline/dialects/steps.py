"""The steps of an agent, for wires that tell its words, calls and results, but not where a call of its model ends.

What comes when all calls of a response have results begins the next. A text goes on until something else comes. A
prompt behind an answer begins the next turn of the run; each has its end.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from pipeline.assembly.builder import Builder, End
from pipeline.assembly.dialect import Dialect, Handler, Shown, StreamEnd, Violation
from pipeline.assembly.parts import Part
from pipeline.dialects.asked_parts import retract
from pipeline.dialects.claude_code.blocks import prompts_of_request
from pipeline.turns.losses import Carrier, unnamed
from pipeline.turns.text import join
from pipeline.turns.tokens import SUMMED_CALLS, at
from topics.json_text import Fields
from turnmill.wire.registry import WIRES

Kind = Literal["text", "thinking"]
UNNAMED: Final = unnamed("from the publisher's `run`, where the stream has none")


def begin(builder: Builder) -> None:
    """Take the user's words from the request of the run, if its publisher knows them."""
    if parts := prompts_of_request(builder.context.request):
        builder.user_turn(parts)


def wire(
    name: str,
    take: Handler,
    session: tuple[str, ...],
    recognises: Callable[[Any], bool | None],
    shows: Callable[[Any], Sequence[Shown]],
    ended: Callable[[Any, StreamEnd | None], StreamEnd | None],
    begin: Callable[[Builder], None] = begin,
) -> Dialect:
    """Return the record of a wire all of whose events go to `take`. `session`: paths of the conversation's id."""

    def conversation(event: Any) -> str | None:
        names = (at(event, tuple(path.split("."))) for path in session)
        return next((name for name in names if isinstance(name, str) and name), None)

    said: dict[str, Any] = {"recognises": recognises, "shows": shows, "ended": ended, "conversation": conversation}
    carriers = (Carrier(name, (UNNAMED,)),)
    return Dialect(name, WIRES[name], {}, take, begin=begin, finish=finish, carriers=carriers, **said)


def keep(builder: Builder, kind: Any, event: Fields) -> None:
    """Keep an event, or a part of an event, that no table has."""
    if not isinstance(kind, str):
        raise Violation(f"an event's type is a text, got {kind!r:.80}")
    builder.system(f"data-app-{kind}", {key: value for key, value in event.items() if value != kind})


def notice(builder: Builder, text: str) -> None:
    """Keep words of the program that runs the agent, and not of its model."""
    builder.system("data-app-notice", {"content": text})


def ask(builder: Builder, content: Any) -> None:
    """Add the user's words: the run's first are the user's turn, unless the request has them already."""
    builder.ended = None
    prompt: Fields = {"part_kind": "user-prompt", "content": content}
    if builder.agent_turns or any(message.kind != "system" for message in builder.messages):
        settle(builder)
        builder.request_after(None).parts.append(Part(prompt, done=True))
    elif [prompt] not in [turn["parts"] for turn in builder.user_turns]:
        builder.user_turn([prompt])


def say(builder: Builder, kind: Kind, text: str, key: str = "", *, whole: bool = False) -> None:
    """Extend the text or thought of this key, or begin it. `whole`: this is all of it."""
    opened = builder.open_text if kind == "text" else builder.open_thinking
    if text and key not in opened:
        step(builder)
        (builder.text_start if kind == "text" else builder.thinking_start)(key)
    if text:
        if whole:
            opened[key].chunks.clear()
        opened[key].chunks.append(text)
    if whole:
        settle(builder)


def call(builder: Builder, call_id: str, name: str, args: Any, **fields: Any) -> None:
    """Add a call, or tell it anew."""
    if call_id in builder.calls:
        builder.calls[call_id][1].fields.update({"tool_name": name, "args": args, **fields})
    else:
        step(builder)
        builder.tool_call(call_id, name, args, **fields)


def result(builder: Builder, call_id: str, content: Any, **fields: Any) -> None:
    """Add the result of a call, perhaps of one that an earlier run made. `failed`: whether it has failed."""
    told = {"status": "error" if fields.pop("failed", False) else "success", "content": content, **fields}
    if call_id in builder.calls:
        builder.tool_return(call_id, **told)
        return
    is_asked = bool(builder.messages) and builder.messages[-1].kind == "request"
    parts = (builder.messages[-1] if is_asked else builder.request_after(None)).parts
    # A result that is told again replaces the first.
    parts[:] = [part for part in parts if part.fields.get("tool_call_id") != call_id]
    parts.append(Part({"part_kind": "tool-return", "tool_name": "", "tool_call_id": call_id} | told, done=True))


def step(builder: Builder) -> None:
    """End the texts that are open, and the response too if all of its calls have results."""
    settle(builder)
    _close_answered(builder)


def _close_answered(builder: Builder) -> None:
    """End the response if all of its calls have results, and it has nothing behind them."""
    response = builder.response
    if response is not None and response.request is not None and not (builder.open_text or builder.open_thinking):
        answered = {part.fields.get("tool_call_id") for part in response.request.parts}
        if all(part.fields.get("tool_call_id") in answered for part in response.parts if "args" in part.fields):
            builder.close_response()


def settle(builder: Builder) -> None:
    """End the texts that are open."""
    for opened in (builder.open_text, builder.open_thinking):
        for part in opened.values():
            part.done = True
        opened.clear()


def take_back(builder: Builder, *, repeated: bool = False) -> None:
    """Take back the texts that are open: the model is asked again. `repeated`: all but the last try of those tries."""
    for opened in (builder.open_text, builder.open_thinking):
        for key, part in [*opened.items()]:
            text = join(part.chunks)
            taken = (len(text) - 1) // (length := _period(text)) * length if repeated and text else len(text)
            if taken > 0 and builder.response is not None:
                retract(builder, [(builder.response, [Part(part.fields, [text[:taken]])])])
                part.chunks[:] = [text[taken:]] if repeated else []
            if not repeated:
                del opened[key]


def _period(text: str) -> int:
    """Return how many characters of a text are repeated, at least once and perhaps cut off; its length if none are.

    By the prefix function of Knuth, Morris and Pratt, as comparing it with each of its ends takes quadratic time.
    """
    borders = [0]  # of each beginning of the text: the longest part with which it begins and ends
    for character in text[1:]:
        border = borders[-1]
        while border and character != text[border]:
            border = borders[border - 1]
        borders.append(border + (character == text[border]))
    length = len(text) - borders[-1]
    return length if 2 * length <= len(text) else len(text)


def over(builder: Builder, how: End, usage: Fields | None = None, *, summed: bool = True) -> None:
    """End the turn with its tokens, which are the sum of its responses or the last response's; told again, it stays."""
    before, builder.ended = builder.ended, how
    if not builder.messages and (before is not None or not builder.lossy):
        return
    if how == "complete":
        settle(builder)
    _close_answered(builder)
    if usage and any(usage.values()):
        responses = [message for message in builder.messages if message.kind == "response"] or [builder.open_response()]
        builder.usage(usage | ({SUMMED_CALLS: True} if summed and len(responses) > 1 else {}), responses[-1])
    builder.end_turn("events_lost" if builder.lossy else how, builder.at)


def finish(builder: Builder, end: str) -> None:
    """End the last turn. Only the stream's end makes it complete, and notices behind it belong to it."""
    if builder.agent_turns and all(message.kind == "system" for message in builder.messages):
        builder.agent_turns[-1].messages.extend(builder.messages)
        builder.messages = []
        return
    _close_answered(builder)
    if end == "complete" and builder.ended != "complete":
        builder.end_turn("disconnected")

"""UI messages of the AI SDK 5, 6 and 7 (what `useChat` holds) -> exchanges.

A message of the assistant is read as the stream that would have made it, by the handlers of the dialect.
"""

from collections.abc import Iterator
from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Messages, Reader
from pipeline.dialects.vercel_ai.events import HANDLERS, close
from pipeline.dialects.vercel_ai.request import add_user_turn, begin
from pipeline.dialects.vercel_ai.side_events import unknown
from pipeline.dialects.vercel_ai.stream import forget, note
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields, object_of

STREAMING: Final = frozenset({"streaming", "input-streaming"})
OF_CALL: Final = ("toolCallId", "providerExecuted", "title", "toolMetadata")


def split(messages: Messages) -> list[Messages]:
    """Cut after each message of the assistant; system messages are left out."""
    exchanges: list[list[Fields]] = [[]]
    for message in messages:
        if message["role"] != "system":
            exchanges[-1].append(message)
        if message["role"] == "assistant":
            exchanges.append([])
    return [exchange for exchange in exchanges if exchange]


def fill(builder: Builder, messages: Messages) -> str | None:
    """Read an exchange; return its end (`disconnected` if a part was streaming), None if it has no answer."""
    begin(builder)
    last = messages[-1]
    add_user_turn(builder, [message for message in messages if message["role"] == "user"])
    if last["role"] != "assistant":
        return None
    _apply(builder, {"type": "start", "messageId": last.get("id"), "messageMetadata": last.get("metadata")})
    for number, part in enumerate(last["parts"]):
        kind = part["type"]
        if kind in ("text", "reasoning"):
            _add_text(builder, part, str(number))
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            _add_call(builder, part)
        elif kind == "step-start":
            _apply(builder, {"type": "finish-step"})
            _apply(builder, {"type": "start-step"})
        else:  # the wire carries it whole, under its type
            _apply(builder, part)
    _apply(builder, {"type": "finish-step"})  # whole parts stay, even if the rest never came
    end = "disconnected" if any(part.get("state") in STREAMING for part in last["parts"]) else "complete"
    close(builder, end)
    return end


def time(messages: Messages) -> int | None:
    """Return epoch ms from the first message or its metadata (`createdAt`, or Pydantic AI's); the SDK keeps no time."""
    fields = object_of(messages[0].get("metadata"))
    times = (
        messages[0].get("createdAt"),
        fields.get("createdAt"),
        object_of(fields.get("pydantic_ai")).get("timestamp"),
    )
    return next((at for at in map(epoch_ms, times) if at is not None), None)


def _apply(builder: Builder, event: Fields) -> None:
    (HANDLERS.get(event["type"]) or unknown)(builder, event)


def _add_text(builder: Builder, part: Fields, key: str) -> None:
    """Add text or reasoning. An unfinished one is discarded, as on the wire."""
    name, block = part["type"], part.get("id", key)
    extra: Fields = {key: part[key] for key in ("providerMetadata", "citations") if key in part}
    _apply(builder, {"type": f"{name}-start", "id": block})
    opened = (builder.open_text if name == "text" else builder.open_thinking)[block]
    if "id" not in part:
        forget(opened.fields, "id")  # the message had none: this one was made up here
    _apply(builder, {"type": f"{name}-delta", "id": block, "delta": part["text"]})
    if part.get("state") not in STREAMING:
        _apply(builder, {"type": f"{name}-end", "id": block, **extra})


def _add_call(builder: Builder, part: Fields) -> None:
    """Add the call, then its results."""
    dynamic = part["type"] == "dynamic-tool"
    about: Fields = {name: part[name] for name in OF_CALL if name in part}
    about["toolName"] = part["toolName"] if dynamic else part["type"].removeprefix("tool-")
    about |= {"dynamic": True} if dynamic else {}
    call_input, metadata = part.get("input", part.get("rawInput")), part.get("callProviderMetadata")
    call = {**about, "input": call_input, "providerMetadata": metadata}
    if part.get("state") in STREAMING:
        _apply(builder, {"type": "tool-input-start", **about})
        return
    if "rawInput" in part:
        _apply(builder, {"type": "tool-input-error", **call, "errorText": part.get("errorText", "")})
    else:
        _apply(builder, {"type": "tool-input-available", **call})
    note(builder.calls[part["toolCallId"]][1].fields, {"approval": part.get("approval")})
    for event in _results(part):
        metadata = part.get("resultProviderMetadata")
        _apply(builder, {"toolCallId": part["toolCallId"], "providerMetadata": metadata, **event})


def _results(part: Fields) -> Iterator[Fields]:
    state = part.get("state")
    executed = {"providerExecuted": part["providerExecuted"]} if "providerExecuted" in part else {}
    if state == "output-available":
        yield {"type": "tool-output-available", "output": part.get("output"), "preliminary": part.get("preliminary")}
    elif state == "output-error":
        yield {"type": "tool-output-error", "errorText": part.get("errorText", ""), **executed}
    elif state == "output-denied":
        yield {"type": "tool-output-denied"}


READER: Final = Reader(split, fill, time)

"""Thread document -> pi-agent-core messages: user, assistant, toolResult, and the application's roles.

Turns that came from pi are restored from `meta:pi`, field by field. In other threads, files of the model, grants and
revocations of tools, errors and sources are left out, as pi can't express them; a provider's tool calls become
calls with results; content by URL becomes a text with the URL.

Back: histories of pi-agent-core (`agent.state.messages`) -> exchanges.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Messages, Reader
from pipeline.dialects.exports import readable
from pipeline.dialects.history import MessagePlace, exchanges
from pipeline.dialects.pi_agent.messages import COSTS, Received, span, time_of, write
from pipeline.dialects.pi_agent.messages import USAGE as COUNTS
from pipeline.dialects.pi_agent.parts import REDACTED
from pipeline.dialects.signatures import SIGNATURE
from pipeline.dialects.wire_values import is_number, text_or_dumped
from pipeline.turns.times import epoch_ms
from topics.json_text import Fields, filled, present
from topics.part_kinds import CALLS

STOPS: Final = {"stop": "stop", "content_filter": "stop", "length": "length", "tool_call": "toolUse", "error": "error"}
APIS: Final = {
    "anthropic": "anthropic-messages",
    "openai": "openai-responses",
    "google": "google-generative-ai",
    "google-gla": "google-generative-ai",
    "google-vertex": "google-vertex",
    "amazon-bedrock": "bedrock-converse-stream",
    "bedrock": "bedrock-converse-stream",
    "mistral": "mistral-conversations",
}
OTHER_API: Final = "openai-completions"  # the API of most providers
USAGE: Final = {key: name for name, key in COUNTS.items()}
OPTIONAL: Final = ("reasoning", "cacheWrite1h")
NO_COST: Final = dict.fromkeys(COSTS, 0)
APP: Final = "data-app-"


def messages(document: Fields) -> list[Fields]:
    """Return a thread's messages, oldest first."""
    messages: list[Fields] = []
    for turn in document["turns"]:
        if turn.get("turn_type") == "user":
            messages += _from_parts(turn.get("parts", ()), epoch_ms(turn.get("submitted_at")) or 0)
        for message in turn.get("messages", ()):
            messages += _messages_of(message)
    return [readable(message) for message in messages]


def _messages_of(message: Fields) -> Iterator[Fields]:
    at = epoch_ms(message.get("timestamp")) or 0
    kind = message.get("message_type")
    if kind == "request":
        yield from _from_parts(message.get("parts", ()), at)
    elif kind == "response":
        yield _assistant(message, at)
        for part in message.get("parts", ()):
            if part.get("part_kind") == "builtin-tool-return":
                yield _tool_result(part, at)
    elif str(message.get("event_type")).startswith(APP) and isinstance(message.get("event_data"), dict):
        meta = message.get("meta:pi") or {}
        if "event" not in meta:  # these were events, not messages
            yield {"role": message["event_type"].removeprefix(APP), "timestamp": at, **message["event_data"]}


def _from_parts(parts: Any, at: int) -> Iterator[Fields]:
    """Yield parts of a user turn or a request as messages."""
    for part in parts:
        kind = part.get("part_kind")
        if kind == "user-prompt":
            yield _restored({"role": "user", "content": _content(part.get("content")), "timestamp": at}, part)
        elif kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
            yield _tool_result(part, at)
        elif kind == "retry-prompt":
            yield {"role": "user", "content": _content(text_or_dumped(part.get("content"))), "timestamp": at}


def _tool_result(part: Fields, at: int) -> Fields:
    result: Fields = {
        "role": "toolResult",
        "toolCallId": part.get("tool_call_id", ""),
        "toolName": part.get("tool_name", ""),
        "content": _result_content(part),
        "isError": part.get("part_kind") == "retry-prompt" or part.get("status", "success") != "success",
        "timestamp": at,
        **present({"details": part.get("metadata")}),
    }
    return _restored(result, part)


def _result_content(part: Fields) -> list[Fields]:
    """Return a result's content as blocks. Tools of pi return texts and images; other data becomes JSON text."""
    content = part.get("content")
    if "meta:pi" in part or (isinstance(content, list) and any(_is_binary(piece) for piece in content)):
        return _content(content)
    return _content(text_or_dumped(content))


def _assistant(message: Fields, at: int) -> Fields:
    content = [block for block in map(_block, message.get("parts", ())) if block is not None]
    calls = any(block["type"] == "toolCall" for block in content)
    provider = str(message.get("provider_name") or "")
    meta = message.get("meta:pi") or {}
    fields: Fields = {
        "role": "assistant",
        "content": content,
        "api": APIS.get(provider, OTHER_API),
        "provider": provider,
        "model": str(message.get("model_name") or ""),
        "usage": _usage(message.get("usage") or {}, is_own="meta:pi" in message),
        "stopReason": STOPS.get(str(message.get("finish_reason")), "toolUse" if calls else "stop"),
        "timestamp": at,
        **present({"responseId": message.get("provider_response_id")}),
    }
    return {**fields, **meta}


def _usage(usage: Fields, *, is_own: bool) -> Fields:
    """Return usage as pi's, whose `input` excludes cached tokens. `is_own`: it came from pi, all of it is kept."""
    counts = {name: _count(usage.get(key)) for key, name in USAGE.items() if key in usage or name not in OPTIONAL}
    cached = counts["cacheRead"] + counts["cacheWrite"]
    numbers = {"input": max(0, _count(usage.get("input_tokens")) - cached), **counts}
    if "total_tokens" not in usage:
        numbers["totalTokens"] = numbers["input"] + numbers["output"] + cached
    cost = usage.get("cost")
    numbers["cost"] = cost if isinstance(cost, dict) else {**NO_COST, "total": _count(cost)}
    rest = {key: value for key, value in usage.items() if key not in USAGE and key not in ("input_tokens", "cost")}
    return {**numbers, **rest} if is_own else numbers


def _block(part: Fields) -> Fields | None:
    kind = part.get("part_kind")
    if kind == "text":
        text: Fields = {"type": "text", "text": part.get("content", "")}
        return _restored(text | ({"textSignature": part["id"]} if part.get("id") else {}), part)
    if kind == "thinking":
        thinking: Fields = {"type": "thinking", "thinking": part.get("content") or ""}
        sealed = {"thinkingSignature": part.get("signature"), "redacted": part.get("thinking_id") == REDACTED}
        return _restored(thinking | filled(sealed), part)
    if kind in CALLS:
        call: Fields = {
            "type": "toolCall",
            "id": part.get("tool_call_id", ""),
            "name": part.get("tool_name", ""),
            "arguments": _arguments(part.get("args")),
            **present({"thoughtSignature": part.get(SIGNATURE)}),
        }
        return _restored(call, part)
    return part.get("block") if kind == "custom:pi" else None


def _arguments(args: Any) -> Any:
    if isinstance(args, dict) and args.keys() == {"INVALID_JSON"}:
        return args["INVALID_JSON"]
    return {} if args is None else args


def _content(content: Any) -> list[Fields]:
    """Return the content of a user prompt or a tool's result as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_block_of_content(piece) for piece in content] if isinstance(content, list) else []


def _block_of_content(piece: Any) -> Fields:
    if _is_binary(piece):
        image = {"type": "image", "data": piece["data"], "mimeType": piece.get("media_type", "")}
        return _restored(image, piece)
    if isinstance(piece, dict):
        block = piece.get("block")
        if piece.get("kind") == "custom:pi" and isinstance(block, dict):
            return block
        piece = piece["url"] if isinstance(piece.get("url"), str) else piece
    return {"type": "text", "text": text_or_dumped(piece)}


def _restored(message: Fields, source: Fields) -> Fields:
    """Return the message with pi's fields from `meta:pi`."""
    meta = dict(source.get("meta:pi") or {})
    if meta.pop("bare", False):  # its content was a text
        message["content"] = source.get("content")
    return {**message, **meta}


def _is_binary(piece: Any) -> bool:
    return isinstance(piece, dict) and piece.get("kind") == "binary" and isinstance(piece.get("data"), str)


def _count(value: Any) -> Any:
    return value if is_number(value) else 0


def _place_in_exchange(message: Fields) -> MessagePlace | None:
    """Return a position by which a history is cut before each user message that follows a response without calls."""
    role = message["role"]
    if role == "user":
        return MessagePlace.PROMPT
    if role == "system":
        return None
    return (
        MessagePlace.ANSWER if role == "assistant" and message.get("stopReason") != "toolUse" else MessagePlace.MIDDLE
    )


def fill(builder: Builder, messages: Messages) -> str | None:
    """Read an exchange into the builder; return how it ended, None if it has no message of the agent."""
    builder.returns_by_call = False
    received = [Received(message) for message in messages]
    end = write(builder, received) or "complete"
    times = span(received)
    if times is not None:
        builder.last_at = max(times[1], *(message.at for message in builder.messages), builder.first_at)
    return end if builder.messages else None


READER: Final = Reader(partial(exchanges, place_of=_place_in_exchange), fill, lambda messages: time_of(messages[0]))

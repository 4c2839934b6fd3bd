"""Convert messages of the Claude Agent SDK for Python back into the lines of Claude Code that it parsed them from.

The SDK returns dataclasses that it can't serialize, and drops fields that it doesn't know: blocks of server tools, and
whether the program itself wrote a user's line. Classes are recognized by name, so the SDK isn't imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Final

Line = dict[str, Any]

_BLOCKS: Final = {
    "TextBlock": "text",
    "ThinkingBlock": "thinking",
    "ToolUseBlock": "tool_use",
    "ToolResultBlock": "tool_result",
    "ServerToolUseBlock": "server_tool_use",
    "ServerToolResultBlock": "advisor_tool_result",  # the only server tool's result that the SDK parses
}
_OF_THE_MESSAGE: Final = ("content", "model", "usage", "message_id", "stop_reason")


def line(message: Any) -> Any:
    """Return the line of an SDK's message; return any other value unchanged."""
    write = _WRITERS.get(type(message).__name__)
    if write is not None and is_dataclass(message):
        return write(message)
    data = getattr(message, "data", None)  # every kind of system message keeps the whole line here
    return data if isinstance(data, dict) and data.get("type") == "system" else message


def _assistant(message: Any) -> Line:
    api_message = {"id": message.message_id, "role": "assistant", "model": message.model, "type": "message"}
    api_message |= {"content": _content(message.content), "stop_reason": message.stop_reason, "usage": message.usage}
    return {"type": "assistant", "message": _held(api_message), **_held(_flat(message, without=_OF_THE_MESSAGE))}


def _user(message: Any) -> Line:
    api_message = {"role": "user", "content": _content(message.content)}
    return {"type": "user", "message": api_message, **_held(_flat(message, without=("content",)))}


def _result(message: Any) -> Line:
    values = _flat(message, without=("model_usage",))
    return {"type": "result", **_held({**values, "modelUsage": message.model_usage})}


def _rate_limit(message: Any) -> Line:
    values = _flat(message, without=("rate_limit_info",))
    return {"type": "rate_limit_event", "rate_limit_info": message.rate_limit_info.raw, **values}


_WRITERS: Final[dict[str, Callable[[Any], Line]]] = {
    "AssistantMessage": _assistant,
    "UserMessage": _user,
    "ResultMessage": _result,
    "RateLimitEvent": _rate_limit,
    "StreamEvent": lambda message: {"type": "stream_event", **_held(_flat(message))},
    "ConversationResetMessage": lambda message: {"type": "conversation_reset", **_held(_flat(message))},
}


def _content(content: Any) -> Any:
    """Return the content of a message: a text, or blocks."""
    if not isinstance(content, list):
        return content
    return [{"type": _BLOCKS[type(block).__name__], **_held(_flat(block))} for block in content]


def _flat(thing: Any, without: tuple[str, ...] = ()) -> Line:
    """Return the fields of a dataclass, and of the dataclasses in it, by their names."""
    values = {field.name: getattr(thing, field.name) for field in fields(thing) if field.name not in without}
    return {name: _flat(value) if is_dataclass(value) else value for name, value in values.items()}


def _held(values: Line) -> Line:
    """Return the fields without those that are None. A line always has `parent_tool_use_id`, so that one stays."""
    return {name: value for name, value in values.items() if value is not None or name == "parent_tool_use_id"}

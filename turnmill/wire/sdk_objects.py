"""Convert an SDK's event objects into the JSON objects of its wire. Objects are recognized by shape, without the SDK.

Pydantic AI's events (`event_kind`)       serialized; the run's result with the messages of this run only
events of OpenAI's Agents SDK             their content, serialized as received; agents as their names
messages of the Claude Agent SDK          the lines that they were parsed from
events of Strands Agents                  serialized, without those that repeat the model's
items of LangGraph's streams              messages and other objects in them, serialized
events of openai's and anthropic's        as the server sent them, without the helper's additions (the text so far in
stream helpers                            every delta, and events that repeat others in another form)
chunks of its adapters, pydantic models   serialized by their aliases, without fields that are None

Pydantic's warnings are turned off: SDKs build their objects without validation, and the agent's log is not ours.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import ismethod
from typing import Any, Final

import orjson

from turnmill.errors import InvalidRecord, Reason
from turnmill.wire.aws_frames import base64_of

LEFT_OUT: Final = object()  # returned for an event that only repeats the content of others
# Types of the events that the helpers derive from the deltas, which they yield as well.
_OF_ANTHROPICS_HELPER: Final = frozenset({"text", "thinking", "signature", "input_json", "citation", "compaction"})
_OF_OPENAIS_HELPER: Final = ("content.", "refusal.", "tool_calls.", "logprobs.")
_BESIDE_GEMINI: Final = frozenset({"sdk_http_response", "automatic_function_calling_history", "parsed"})
_WITH_STATE: Final = frozenset({"init_event_loop", "event_loop_throttled_delay"})  # the rest of them is the caller's
_SO_FAR: Final = frozenset({"snapshot"})
_BLOCKS: Final = {  # classes of the Claude Agent SDK -> types of Claude Code's blocks
    "TextBlock": "text",
    "ThinkingBlock": "thinking",
    "ToolUseBlock": "tool_use",
    "ToolResultBlock": "tool_result",
    "ServerToolUseBlock": "server_tool_use",
    "ServerToolResultBlock": "advisor_tool_result",  # the only server tool's result that the SDK parses
}
_OF_THE_MESSAGE: Final = ("content", "model", "usage", "message_id", "stop_reason")

Line = dict[str, Any]


def model(event: Any, *, without: frozenset[str] = frozenset()) -> Any:
    """Return a pydantic model as a dict without the fields `without`; anything else as it is. Raises InvalidRecord."""
    if not hasattr(event, "model_dump"):
        return event
    try:
        return event.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=without, warnings=False)
    except (ValueError, TypeError) as error:  # pydantic's errors are ValueErrors
        raise _unwritable(event, error) from error


def anthropic_event(event: Any) -> Any:
    """Return an event of anthropic as a dict, or LEFT_OUT; else as `model`. Raises InvalidRecord."""
    return LEFT_OUT if getattr(event, "type", None) in _OF_ANTHROPICS_HELPER else model(event)


def bedrock_event(event: Any) -> Any:
    """Return an event of boto3 as JSON values: its bytes as base64."""
    if isinstance(event, dict):
        return {key: bedrock_event(value) for key, value in event.items()}
    if isinstance(event, list):
        return [bedrock_event(value) for value in event]
    return base64_of(event) if isinstance(event, bytes) else event


def claude_code_event(event: Any) -> Any:
    """Return a message of the Claude Agent SDK as the dict of its line; else as `model`. Raises InvalidRecord."""
    try:
        return model(claude_code_line(event))
    except (AttributeError, KeyError) as error:
        raise _unwritable(event, error) from error


def langgraph_event(event: Any) -> Any:
    """Return an item of LangGraph's stream, with messages in it, as JSON values. Raises InvalidRecord."""
    try:
        return _written(event)
    except RecursionError:
        return event  # too deep to convert; values that were parsed from JSON need no conversion
    except (ValueError, TypeError) as error:
        raise _unwritable(event, error) from error


def _written(value: Any) -> Any:
    """Return a value that may contain objects as JSON values."""
    match value:
        case None | str() | int() | float():
            return value
        case dict():
            return {key: _written(item) for key, item in value.items()}
        case list() | tuple():
            return [_written(item) for item in value]
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", warnings=False)
    return _jsonable(value, fallback=repr)


def _jsonable(value: Any, **options: Any) -> Any:
    from pydantic_core import to_jsonable_python  # noqa: PLC0415  # who sends such objects has it loaded

    return to_jsonable_python(value, bytes_mode="base64", **options)


def openai_chat_event(event: Any) -> Any:
    """Return a chunk of openai, also of its helper, as a dict, or LEFT_OUT; else as `model`. Raises InvalidRecord."""
    kind = getattr(event, "type", None)
    if kind == "chunk" and hasattr(event, "chunk"):
        return model(event.chunk)
    return LEFT_OUT if isinstance(kind, str) and kind.startswith(_OF_OPENAIS_HELPER) else model(event)


def gemini_event(event: Any) -> Any:
    """Return a response of google-genai as a dict without its HTTP headers; else as `model`. Raises InvalidRecord."""
    return model(event, without=_BESIDE_GEMINI)


def openai_responses_event(event: Any) -> Any:
    """Return an event of openai, also of its helper, as a dict; else as `model`. Raises InvalidRecord."""
    return model(event, without=_SO_FAR)


def pydantic_ai_event(event: Any) -> Any:
    """Return an event of Pydantic AI as a dict; else as `model`. Raises InvalidRecord."""
    kind = getattr(event, "event_kind", None)
    if kind is None:
        return model(event)
    try:
        if kind == "agent_run_result":
            return _result(event.result)
        return _jsonable(event)
    except (ValueError, TypeError) as error:
        raise _unwritable(event, error) from error


def openai_agents_event(event: Any) -> Any:
    """Return an event of OpenAI's Agents SDK as a dict; else as `model`. Raises InvalidRecord."""
    try:
        match getattr(event, "type", None):
            case "raw_response_event":
                return {"type": event.type, "data": _as_it_came(event.data)}
            case "run_item_stream_event":
                return {"type": event.type, "name": event.name, "item": _run_item(event.item)}
            case "agent_updated_stream_event":
                return {"type": event.type, "new_agent": {"name": event.new_agent.name}}
    except (AttributeError, ValueError, TypeError) as error:
        raise _unwritable(event, error) from error
    return model(event)


def strands_event(event: Any) -> Any:
    """Return an event of Strands Agents as JSON values, or LEFT_OUT. Raises InvalidRecord."""
    if not isinstance(event, dict):
        return event
    tool = event.get("tool_stream_event")
    inner = event.get("event") if "node_id" in event else tool.get("data") if isinstance(tool, dict) else None
    if "delta" in event or (isinstance(inner, dict) and "delta" in inner):
        return LEFT_OUT
    try:
        return _of_strands(event)
    except (ValueError, TypeError, RecursionError) as error:
        raise _unwritable(event, error) from error


def _of_strands(value: Any) -> Any:
    """Return a value without the objects that its caller passed to the agent."""
    if isinstance(value, dict):
        return {key: _of_strands(value[key]) for key in value.keys() & _WITH_STATE or value}
    if isinstance(value, list):
        return [_of_strands(item) for item in value]
    if isinstance(value, bytes):
        return base64_of(value)
    return _of_strands(value.to_dict()) if hasattr(value, "to_dict") else _written(value)


def _run_item(item: Any) -> dict[str, Any]:
    """Return a RunItem as a dict; the agents in it are replaced by their names, since they are code."""
    fields = {"type": item.type, "raw_item": _as_it_came(item.raw_item)}
    for role in ("agent", "source_agent", "target_agent"):
        agent = getattr(item, role, None)
        if agent is not None:
            fields[role] = {"name": agent.name}
    if hasattr(item, "output"):
        fields["output"] = _jsonable(item.output, fallback=repr)
    return fields


def _as_it_came(value: Any) -> Any:
    """Return those fields of OpenAI's model that the server sent; a dict is returned unchanged."""
    return value.model_dump(mode="json", exclude_unset=True, warnings=False) if hasattr(value, "model_dump") else value


def _result(result: Any) -> dict[str, Any]:
    """Return the result of a run as a dict. `usage` is a method in Pydantic AI 1, and in 2 what warns when called."""
    usage = result.usage() if ismethod(result.usage) else result.usage
    fields = {
        "messages": orjson.loads(result.new_messages_json()),
        "new_message_index": 0,
        "usage": _jsonable(usage),
        "run_id": getattr(result, "run_id", None),
        "output": _jsonable(result.output, fallback=repr),
    }
    return {"event_kind": "agent_run_result", "result": fields}


def _unwritable(event: Any, error: Exception) -> InvalidRecord:
    return InvalidRecord(Reason.INVALID_EVENT, f"{type(event).__name__} can't be written as JSON: {error}")


# The Claude Agent SDK parses lines of Claude Code to dataclasses that it can't serialize, and drops fields that it does
# not know: blocks of server tools, and whether the program itself wrote a user's line. These functions write the lines.


def claude_code_line(message: Any) -> Any:
    """Return the line of an SDK's message; return any other value unchanged."""
    write = _WRITERS.get(type(message).__name__)
    if write is not None and is_dataclass(message):
        return write(message)
    data = getattr(message, "data", None)  # every kind of system message keeps the whole line here
    return data if isinstance(data, dict) and data.get("type") == "system" else message


def _assistant_line(message: Any) -> Line:
    api_message = {"id": message.message_id, "role": "assistant", "model": message.model, "type": "message"}
    api_message |= {"content": _content(message.content), "stop_reason": message.stop_reason, "usage": message.usage}
    return {
        "type": "assistant",
        "message": _without_none(api_message),
        **_without_none(_flat(message, without=_OF_THE_MESSAGE)),
    }


def _user_line(message: Any) -> Line:
    api_message = {"role": "user", "content": _content(message.content)}
    return {"type": "user", "message": api_message, **_without_none(_flat(message, without=("content",)))}


def _result_line(message: Any) -> Line:
    values = _flat(message, without=("model_usage",))
    return {"type": "result", **_without_none({**values, "modelUsage": message.model_usage})}


def _rate_limit_line(message: Any) -> Line:
    values = _flat(message, without=("rate_limit_info",))
    return {"type": "rate_limit_event", "rate_limit_info": message.rate_limit_info.raw, **values}


_WRITERS: Final[dict[str, Callable[[Any], Line]]] = {
    "AssistantMessage": _assistant_line,
    "UserMessage": _user_line,
    "ResultMessage": _result_line,
    "RateLimitEvent": _rate_limit_line,
    "StreamEvent": lambda message: {"type": "stream_event", **_without_none(_flat(message))},
    "ConversationResetMessage": lambda message: {"type": "conversation_reset", **_without_none(_flat(message))},
}


def _content(content: Any) -> Any:
    """Return the content of a message: a text, or blocks."""
    if not isinstance(content, list):
        return content
    return [{"type": _BLOCKS[type(block).__name__], **_without_none(_flat(block))} for block in content]


def _flat(thing: Any, without: tuple[str, ...] = ()) -> Line:
    """Return the fields of a dataclass, and of the dataclasses in it, by their names."""
    values = {field.name: getattr(thing, field.name) for field in fields(thing) if field.name not in without}
    return {name: _flat(value) if is_dataclass(value) else value for name, value in values.items()}


def _without_none(values: Line) -> Line:
    """Return the fields without those that are None. A line always has `parent_tool_use_id`, which stays."""
    return {name: value for name, value in values.items() if value is not None or name == "parent_tool_use_id"}

"""Convert an SDK's event objects into the JSON objects of its wire. Objects are recognized by shape, without the SDK.

Pydantic AI's events (`event_kind`)       serialized; the run's result with the messages of this run only
events of OpenAI's Agents SDK             their content, serialized as received; agents as their names
messages of the Claude Agent SDK          the lines that they were parsed from
items of LangGraph's streams              messages and other objects in them, serialized
events of openai's and anthropic's        as the server sent them, without the helper's additions (the text so far in
stream helpers                            every delta, and events that repeat others in another form)
chunks of its adapters, pydantic models   serialized by their aliases, without fields that are None

Pydantic's warnings are turned off: SDKs build their objects without validation, and the agent's log is not ours.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from turnmill.errors import InvalidRecord, Reason
from turnmill.wire.claude_messages import line

LEFT_OUT: Final = object()  # returned for an event that only repeats the content of others
# Types of the events that the helpers derive from the deltas, which they yield as well.
_OF_ANTHROPICS_HELPER: Final = frozenset({"text", "thinking", "signature", "input_json", "citation", "compaction"})
_OF_OPENAIS_HELPER: Final = ("content.", "refusal.", "tool_calls.", "logprobs.")
_BESIDE_GEMINI: Final = frozenset({"sdk_http_response", "automatic_function_calling_history", "parsed"})
_SO_FAR: Final = frozenset({"snapshot"})


def model(event: Any, *, without: frozenset[str] = frozenset()) -> Any:
    """Return a pydantic model as a dict without the fields `without`; anything else as it is. Raises InvalidRecord."""
    if not hasattr(event, "model_dump"):
        return event
    try:
        return event.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=without, warnings=False)
    except (ValueError, TypeError) as error:  # pydantic's own errors are ValueErrors
        raise _unwritable(event, error) from error


def anthropic_event(event: Any) -> Any:
    """Return an event of anthropic as a dict, or LEFT_OUT; else as `model`. Raises InvalidRecord."""
    return LEFT_OUT if getattr(event, "type", None) in _OF_ANTHROPICS_HELPER else model(event)


def claude_code_event(event: Any) -> Any:
    """Return a message of the Claude Agent SDK as the dict of its line; else as `model`. Raises InvalidRecord."""
    try:
        return model(line(event))
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
    from pydantic_core import to_jsonable_python  # noqa: PLC0415  # who sends such objects has it loaded

    return to_jsonable_python(value, bytes_mode="base64", fallback=repr)


def openai_chat_event(event: Any) -> Any:
    """Return a chunk of openai, also from its helper's event, as a dict, or LEFT_OUT; else as `model`.

    Raises InvalidRecord.
    """
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
    from pydantic_core import to_jsonable_python  # noqa: PLC0415  # who sends such objects has it loaded

    try:
        if kind == "agent_run_result":
            return _result(event.result)
        return to_jsonable_python(event, bytes_mode="base64")
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


def _run_item(item: Any) -> dict[str, Any]:
    """Return a RunItem as a dict; the agents in it are replaced by their names, since they are code."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415  # who sends such objects has it loaded

    fields = {"type": item.type, "raw_item": _as_it_came(item.raw_item)}
    for role in ("agent", "source_agent", "target_agent"):
        agent = getattr(item, role, None)
        if agent is not None:
            fields[role] = {"name": agent.name}
    if hasattr(item, "output"):
        fields["output"] = to_jsonable_python(item.output, bytes_mode="base64", fallback=repr)
    return fields


def _as_it_came(value: Any) -> Any:
    """Return those fields of OpenAI's model that the server sent; a dict is returned unchanged."""
    return value.model_dump(mode="json", exclude_unset=True, warnings=False) if hasattr(value, "model_dump") else value


def _result(result: Any) -> dict[str, Any]:
    """Return the result of a run as a dict. `usage` is a method in Pydantic AI 1 and an attribute in 2."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415  # as above

    usage = result.usage() if callable(result.usage) else result.usage
    fields = {
        "messages": orjson.loads(result.new_messages_json()),
        "new_message_index": 0,
        "usage": to_jsonable_python(usage),
        "run_id": getattr(result, "run_id", None),
        "output": to_jsonable_python(result.output, bytes_mode="base64", fallback=repr),
    }
    return {"event_kind": "agent_run_result", "result": fields}


def _unwritable(event: Any, error: Exception) -> InvalidRecord:
    return InvalidRecord(Reason.INVALID_EVENT, f"{type(event).__name__} can't be written as JSON: {error}")

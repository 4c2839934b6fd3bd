"""Events as an SDK's own objects -> the JSON objects that its wire carries. They are known by shape: no SDK is needed.

Pydantic AI's events (`event_kind`)       serialized; the run's result with the messages of this run only
events of OpenAI's Agents SDK             what they hold, serialized as it came; of agents their names
chunks of its adapters, pydantic models   serialized by their aliases, without what is None
"""

from __future__ import annotations

from typing import Any

import orjson

from threadmill.errors import InvalidRecord, Reason


def model(event: Any) -> Any:
    """A pydantic model -> the event as a dict; anything else as it is. Raises InvalidRecord."""
    if not hasattr(event, "model_dump"):
        return event
    try:
        return event.model_dump(mode="json", by_alias=True, exclude_none=True)
    except (ValueError, TypeError) as error:  # pydantic's own errors are ValueErrors
        raise _unwritable(event, error) from error


def pydantic_ai_event(event: Any) -> Any:
    """An event of Pydantic AI -> the event as a dict; else as `model`. Raises InvalidRecord."""
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
    """An event of OpenAI's Agents SDK -> the event as a dict; else as `model`. Raises InvalidRecord."""
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
    """A RunItem; the agents in it are programs, their names are data."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415  # who sends such objects has it loaded

    told = {"type": item.type, "raw_item": _as_it_came(item.raw_item)}
    for role in ("agent", "source_agent", "target_agent"):
        agent = getattr(item, role, None)
        if agent is not None:
            told[role] = {"name": agent.name}
    if hasattr(item, "output"):
        told["output"] = to_jsonable_python(item.output, bytes_mode="base64", fallback=repr)
    return told


def _as_it_came(value: Any) -> Any:
    """A model of OpenAI's -> the fields that its server wrote; what is a dict stays one."""
    return value.model_dump(mode="json", exclude_unset=True) if hasattr(value, "model_dump") else value


def _result(result: Any) -> dict[str, Any]:
    """The end of a run. `usage` is a method in Pydantic AI 1 and an attribute in 2."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415  # as above

    usage = result.usage() if callable(result.usage) else result.usage
    told = {
        "messages": orjson.loads(result.new_messages_json()),
        "new_message_index": 0,
        "usage": to_jsonable_python(usage),
        "run_id": getattr(result, "run_id", None),
        "output": to_jsonable_python(result.output, bytes_mode="base64", fallback=repr),
    }
    return {"event_kind": "agent_run_result", "result": told}


def _unwritable(event: Any, error: Exception) -> InvalidRecord:
    return InvalidRecord(Reason.INVALID_EVENT, f"{type(event).__name__} can't be written as JSON: {error}")

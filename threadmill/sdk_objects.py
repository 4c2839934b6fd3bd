"""Events as an SDK's own objects -> the JSON objects that its wire carries. They are known by shape: no SDK is needed.

Pydantic AI's events (`event_kind`)       serialized; the run's result with the messages of this run only
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

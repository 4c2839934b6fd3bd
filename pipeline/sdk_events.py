"""Events as an SDK's own objects -> the JSON objects that its wire carries. They are known by shape: no SDK is needed.

dict                                      as it is
Pydantic AI's events (`event_kind`)       serialized; the run's result with the messages of this run only
chunks of its adapters, pydantic models   serialized by their aliases, without what is None
"""

from __future__ import annotations

from typing import Any

import orjson
from pydantic_core import PydanticSerializationError, to_jsonable_python

from pipeline.errors import InvalidRecord, Reason


def as_event(event: Any) -> Any:
    """-> the event as a dict; what is none of the above as it is, for its reader to refuse. Raises InvalidRecord."""
    if type(event) is dict:
        return event
    try:
        kind = getattr(event, "event_kind", None)
        if kind == "agent_run_result":
            return _result(event.result)
        if kind is not None:
            return to_jsonable_python(event, bytes_mode="base64")
        if hasattr(event, "model_dump"):
            return event.model_dump(mode="json", by_alias=True, exclude_none=True)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        detail = f"{type(event).__name__} can't be written as JSON: {error}"
        raise InvalidRecord(Reason.INVALID_EVENT, detail) from error
    return event


def _result(result: Any) -> dict[str, Any]:
    """The end of a run. `usage` is a method in Pydantic AI 1 and an attribute in 2."""
    usage = result.usage() if callable(result.usage) else result.usage
    told = {
        "messages": orjson.loads(result.new_messages_json()),
        "new_message_index": 0,
        "usage": to_jsonable_python(usage),
        "run_id": getattr(result, "run_id", None),
        "output": to_jsonable_python(result.output, bytes_mode="base64", fallback=repr),
    }
    return {"event_kind": "agent_run_result", "result": told}

"""Convert spans of OpenAI's Agents SDK to events of the wire `openai-agents`. Pure.

Source: openai-agents, src/agents/tracing/span_data.py; src/agents/models/chatcmpl_converter.py.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

REQUEST_BYTES: Final = 262_144  # of a run's input; of a longer one, only new messages are published
FAKE_ID: Final = "__fake_id__"  # the SDK's id for items without one

Fields = dict[str, Any]


def raw(kind: str, response: Fields) -> Fields:
    """Return an event of the Responses API, as the SDK wraps it."""
    return {"type": "raw_response_event", "data": {"type": kind, "response": response}}


def state_of(response: Fields) -> str:
    """Return how a response ended, in the form used in the name of its last event."""
    return "incomplete" if response.get("status") == "incomplete" else "completed"


def response_of(data: Any) -> Fields | None:
    """Return a model's answer as a response of the Responses API; None where there is none."""
    if data.type == "response":
        response = data.response
        return None if response is None else _dump(response)
    answered = [item for item in map(_dump, data.output or ()) if isinstance(item, dict)]
    if not answered:
        return None
    whole = answered[0] if answered[0].get("object") == "response" else {"id": FAKE_ID, "model": data.model}
    items = whole.get("output") or [item for message in answered for item in _items(message)]
    usage = {key: value for key, value in (data.usage or {}).items() if key != "requests"}
    return {**whole, "output": items, **({"usage": usage} if usage else {})}


def _dump(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return value if dump is None else dump(mode="json", exclude_unset=True, warnings=False)


def _items(message: Fields) -> list[Fields]:
    """Return a message of Chat Completions as items of the Responses API, as the SDK makes them."""
    items: list[Fields] = []
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str) and thought:
        items.append({"type": "reasoning", "id": FAKE_ID, "summary": [{"type": "summary_text", "text": thought}]})
    content: list[Fields] = []
    if message.get("content"):
        content.append({"type": "output_text", "text": message["content"], "annotations": []})
    if message.get("refusal"):
        content.append({"type": "refusal", "refusal": message["refusal"]})
    if content:
        items.append({"type": "message", "id": FAKE_ID, "role": "assistant", "status": "completed", "content": content})
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        fields = {"name": function.get("name"), "arguments": function.get("arguments")}
        items.append({"type": "function_call", "id": FAKE_ID, "call_id": call.get("id"), **fields})
    return items


def output_of(item: Fields) -> Fields | None:
    """Return a tool's result from an item of a model's input, in either API; None for other items."""
    if item.get("role") == "tool":
        return {"type": "function_call_output", "call_id": item.get("tool_call_id"), "output": item.get("content")}
    is_output = str(item.get("type")).endswith("call_output") and "output" in item
    return item if is_output and item.get("call_id") else None


def short(asked: Any) -> Any:
    """Return a run's input; of a long one, the messages from the model's last one on; None if these are long, too."""
    if not isinstance(asked, list) or _fits(asked):
        return asked if _fits(asked) else None
    spoken = [n for n, item in enumerate(asked) if item.get("role") == "assistant" or item.get("type") == "reasoning"]
    new = asked[spoken[-1] :] if spoken else asked
    return new if _fits(new) else None


def _fits(value: Any) -> bool:
    return len(orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS)) <= REQUEST_BYTES


def reason_of(error: Any) -> str:
    """Return the text of a span's error: `{"message", "data": {"error"}}`."""
    fields = error if isinstance(error, Mapping) else {}
    data = fields.get("data")
    inner = data.get("error") if isinstance(data, Mapping) else None
    return str(inner or fields.get("message") or "the run failed")

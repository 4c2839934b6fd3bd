"""OpenAI's Agents SDK for JavaScript (dialect `openai-agents-js`): the kin of `openai-agents`.

| event | what it does |
|---|---|
| raw_model_stream_event: `model` with an event of the Responses API | as raw_response_event of `openai-agents` |
| raw_model_stream_event: `output_text_delta` | the text, which is in the first of the two events of a delta |
| raw_model_stream_event: `response_started`, `response_done` of the Responses API | nothing: its events have it |
| the same, of another API (Chat Completions, AI SDK) | the start, and the whole of a response |
| raw_model_stream_event: `model` with an event of another API | nothing: those have it |
| run_item_stream_event: tool_approval_requested | nothing: the call waits |
| run_item_stream_event, agent_updated_stream_event | as those of `openai-agents` |
| any other | SystemMessage `custom:openai-agents.TYPE` |
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.dialects.kin import kin
from pipeline.dialects.openai_agents import DIALECT as OF
from topics.json_text import Fields, object_of, objects

TEXT: Final = "response.output_text.delta"
NAMES: Final = {  # of its fields in the Responses API
    "callId": "call_id",
    "inputTokens": "input_tokens",
    "inputTokensDetails": "input_tokens_details",
    "outputTokens": "output_tokens",
    "outputTokensDetails": "output_tokens_details",
    "rawItem": "raw_item",
    "sourceAgent": "source_agent",
    "targetAgent": "target_agent",
}


def translate(state: Fields, event: Fields) -> Iterator[Fields]:
    """Yield the event of the SDK for Python."""
    match event:
        case {"type": "raw_model_stream_event", "data": dict(data)}:
            yield from ({"type": "raw_response_event", "data": each} for each in _of_model(data))
        case {"item": {"type": "tool_approval_item"}}:
            pass
        case {"item": {"rawItem": dict(raw)} as told}:
            yield {**event, "item": _renamed({**told, "rawItem": item(raw)})}
        case {"type": "agent_updated_stream_event"}:
            yield {**event, "new_agent": event["agent"]}
        case _:
            yield event


def _of_model(data: Fields) -> Iterator[Fields]:
    """Yield the event of the Responses API that an event of a model is."""
    about = object_of(data.get("providerData"))
    match data:
        case {"type": "model", "event": {"type": str(kind)} as event} if kind.startswith(("response.", "error")):
            yield from [] if kind == TEXT else [event]
        case {"type": "model"} | {"type": "response_started" | "response_done", "providerData": {"type": _}}:
            pass
        case {"type": "response_started"}:
            yield {"type": "response.created", "response": {"id": about.get("id"), "model": about.get("model")}}
        case {"type": "output_text_delta"}:
            place = about if about.get("type") == TEXT else {"output_index": 0}
            yield {**place, "type": TEXT, "delta": data["delta"]}
        case {"type": "response_done", "response": dict(told)}:
            output = [item(each) for each in objects(told.get("output"))]
            yield {"type": "response.completed", "response": {**told, "output": output, "usage": _usage(told)}}
        case _:
            yield data


def _usage(told: Fields) -> Fields:
    """Return the usage of a response; details may be a list of those of its requests."""
    usage = _renamed(told.get("usage") or {})
    return {key: next(iter(value), None) if isinstance(value, list) else value for key, value in usage.items()}


def item(raw: Fields) -> Fields:
    """Return an item as the Responses API has it."""
    if raw["type"] == "function_call_result":
        output = raw.get("output")
        text = output.get("text", output) if isinstance(output, dict) else output
        return {"type": "function_call_output", "call_id": raw["callId"], "output": text}
    made = _renamed(raw)
    if isinstance(raw.get("content"), list):
        made["content"] = [_renamed(piece) for piece in objects(raw["content"])]
    if raw["type"] == "reasoning":
        made["summary"], made["content"] = made.get("content"), made.pop("rawContent", None)
    return made


def _renamed(told: Fields) -> Fields:
    """Return an object with the names of the Responses API, and with what its provider had beside."""
    named = {NAMES.get(key, key): value for key, value in told.items() if key != "providerData"}
    return named | object_of(told.get("providerData"))


def body(request: Any) -> Any:
    """Return the input of a run, a text or items, as that of the SDK for Python."""
    asked = request.get("input") if isinstance(request, dict) else request
    if isinstance(asked, list):
        asked = [item(each) if "type" in each else each for each in objects(asked)]
    return {**request, "input": asked} if isinstance(request, dict) else {"input": asked}


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire: the SDK for Python has other names for the same."""
    match event:
        case {"type": "raw_model_stream_event"} | {"type": "agent_updated_stream_event", "agent": _}:
            return True
        case {"type": "run_item_stream_event", "item": {"rawItem": _}}:
            return True
    return False


DIALECT: Final = kin("openai-agents-js", OF, translate, body, recognises, provider=None)

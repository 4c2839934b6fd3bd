"""Cohere's chat API, version 2 (dialect `cohere`): the kin of Anthropic's.

| event | what it does |
|---|---|
| message-start | begins a response |
| content-start, content-delta | text and thoughts |
| tool-plan-delta | a thought: what the model is going to do |
| tool-call-start, tool-call-delta | a call |
| citation-start | a citation of the text of its index |
| content-end, tool-call-end, citation-end | nothing |
| message-end | the call ended well; its tokens. ERROR, TIMEOUT, `error`: it failed |
| a whole answer | as one event |
| turnmill.request, turnmill.error | as Anthropic's |
| any other | SystemMessage data-app-TYPE |

`billed_units` are beside the tokens: without the prompt that Cohere itself adds.
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.kin import delta, kin, model_asked
from pipeline.dialects.wire_values import object_in
from topics.json_text import Fields, objects

KINDS: Final = ("message-", "content-", "tool-plan-", "tool-call-", "citation-")
ENDS: Final = {
    "COMPLETE": "end_turn",
    "STOP_SEQUENCE": "stop_sequence",
    "MAX_TOKENS": "max_tokens",
    "TOOL_CALL": "tool_use",
}
FAILED: Final = frozenset({"ERROR", "TIMEOUT"})
PLAN: Final = -2  # the index of its block: it stands before all others
CALLS: Final = 1_000  # their indexes begin here, since they are counted apart from those of content


def translate(state: Fields, event: Fields) -> Iterator[Fields]:
    """Yield Anthropic's events of an event."""
    kind, index = event.get("type"), event.get("index", 0)
    told: Fields = {} if kind is None else (event.get("delta") or {}).get("message") or {}
    match kind:
        case None:
            message = {"id": event.get("id"), **model_asked(state), "content": _blocks(event["message"])}
            yield {"type": "message_start", "message": message}
            yield from _ended(event)
        case "message-start":
            state["plan"] = False
            yield {"type": "message_start", "message": {"id": event.get("id"), **model_asked(state)}}
        case "content-start":
            yield {"type": "content_block_start", "index": index, "content_block": told["content"]}
        case "content-delta":
            key = "thinking" if "thinking" in told["content"] else "text"
            yield delta(index, f"{key}_delta", told["content"][key])
        case "tool-plan-delta":
            if not state.get("plan"):
                state["plan"] = True
                yield {"type": "content_block_start", "index": PLAN, "content_block": {"type": "thinking"}}
            yield delta(PLAN, "thinking_delta", told["tool_plan"])
        case "tool-call-start":
            call = told["tool_calls"]
            block = {"type": "tool_use", "id": call["id"], "name": call["function"]["name"]}
            yield {"type": "content_block_start", "index": CALLS + index, "content_block": block}
            if call["function"].get("arguments"):
                yield _arguments(index, call)
        case "tool-call-delta":
            yield _arguments(index, told["tool_calls"])
        case "citation-start":
            cited = told["citations"]
            yield delta(cited.get("content_index", index), "citations_delta", cited)
        case "message-end":
            yield from _ended(event["delta"])
        case "content-end" | "tool-call-end" | "citation-end":
            pass
        case _:
            yield event


def _arguments(index: int, call: Fields) -> Fields:
    return delta(CALLS + index, "input_json_delta", call["function"]["arguments"])


def _ended(told: Fields) -> Iterator[Fields]:
    reason = str(told.get("finish_reason"))
    yield {"type": "message_delta", "delta": {"stop_reason": ENDS.get(reason, reason)}, "usage": usage(told)}
    if told.get("error") or reason in FAILED:
        yield {"type": "error", "error": told.get("error") or {"type": reason}}
    else:
        yield {"type": "message_stop"}


def usage(told: Fields) -> Fields:
    """Return a usage object in Anthropic's names, whose `input_tokens` are without those of the cache."""
    counts = told.get("usage") or {}
    tokens = counts.get("tokens") or counts.get("billed_units") or {}
    named = (counts.get("cached_tokens"), tokens.get("input_tokens"), tokens.get("output_tokens"))
    cached, read, written = (
        int(count) if isinstance(count, int | float) else None for count in named
    )  # the SDK's are floats
    made = {"input_tokens": None if read is None else read - (cached or 0), "output_tokens": written}
    return {**made, **({"cache_read_input_tokens": cached} if cached else {})}


def _blocks(message: Fields) -> list[Fields]:
    content = message.get("content")
    plan = [{"type": "thinking", "thinking": message["tool_plan"]}] if message.get("tool_plan") else []
    said = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    if message.get("citations"):
        said = [{**each, "citations": message["citations"]} if each.get("type") == "text" else each for each in said]
    calls = [
        {"type": "tool_use", "id": call.get("id"), **_function(call)} for call in objects(message.get("tool_calls"))
    ]
    return [*plan, *said, *calls]


def _function(call: Fields) -> Fields:
    function = call.get("function") or {}
    return {"name": function.get("name"), "input": object_in(function.get("arguments"))}


def body(request: Any) -> Any:
    """Return a request as Anthropic's: its system prompt is apart, results of tools are the user's."""
    if not isinstance(request, dict):
        return request
    system, messages = [], []
    for message in objects(request.get("messages")):
        match message:
            case {"role": "system"}:
                system.append(message.get("content"))
            case {"role": "tool"}:
                result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
                messages.append({"role": "user", "content": [{**result, "content": _result(message.get("content"))}]})
            case {"role": "assistant"}:
                messages.append({"role": "assistant", "content": _blocks(message)})
            case _:
                messages.append(message)
    told = {"system": system[0] if len(system) == 1 else system} if system else {}
    return {**request, **told, "messages": messages}


def _result(content: Any) -> Any:
    match content:
        case [{"type": "document", "document": {"data": value}}]:
            return value
        case [{"type": "text", "text": str(text)}]:
            return text
    return content


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire: others have types of the same names."""
    match event:
        case {"type": "message-end", "delta": {"finish_reason": _}}:
            return True
        case {"type": str(kind), "delta": {"message": {}}}:
            return kind.startswith(KINDS)
        case {"type": "content-end" | "tool-call-end" | "citation-end", "index": int()}:
            return len(event) == 2
        case {"id": str(), "finish_reason": str(), "message": {"role": "assistant"}}:
            return True
    return False


DIALECT: Final = kin("cohere", OF, translate, body, recognises)

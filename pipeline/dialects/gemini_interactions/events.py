"""Gemini's Interactions API (dialect `gemini-interactions`): the kin of Anthropic's.

| event | what it does |
|---|---|
| interaction.created, interaction.start | begins a response |
| step.start | begins a part: text, a thought, a call, a result; any other: custom:TYPE |
| step.delta | extends it: text, thought_summary, thought_signature, arguments_delta, annotations |
| step.stop, interaction.in_progress, interaction.requires_action | nothing |
| interaction.completed, interaction.complete | the call ended as its status says; its tokens |
| interaction.status_update | cancelled, failed: the call failed |
| error | the call failed: interrupted, unless another call follows |
| an interaction | a whole answer |
| turnmill.request, turnmill.error | as Anthropic's; `previous_interaction_id`: the server keeps the history |
| any other | SystemMessage data-app-TYPE |
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.kin import CANCELLED, Blocks, delta, kin
from pipeline.dialects.wire_values import number_or_none, texts_of
from topics.json_text import Fields, objects

# google-genai 3.6.1, Interaction.status. The others are failures.
ENDS: Final = {"completed": "end_turn", "requires_action": "tool_use", "incomplete": "max_tokens"}
FAILED: Final = frozenset({"cancelled", "failed", "budget_exceeded"})
CALL: Final = "function_call"
BUILTIN: Final = "_call"  # the suffix of the types of server tools' calls
RESULT: Final = "_result"


def translate(state: Fields, event: Fields) -> Iterator[Fields]:
    """Yield Anthropic's events of an event."""
    blocks: Blocks = state.setdefault("blocks", Blocks())
    match event.get("event_type"):
        case None if "status" in event:
            yield {"type": "message_start", "message": _named(event)}
            for index, step in enumerate(objects(event.get("steps") or event.get("outputs"))):
                for content in objects(step.get("content")) or [step]:
                    yield from blocks.start((index, len(blocks.known)), block({**step, **content}))
            yield from _ended(event)
        case "interaction.created" | "interaction.start":
            state["blocks"] = Blocks()
            yield {"type": "message_start", "message": _named(event["interaction"])}
        case "step.start" | "content.start":
            step = event.get("step") or event["content"]
            if step.get("type") != "model_output":  # its content begins with a delta
                yield from blocks.start(event["index"], block(step))
        case "step.delta" | "content.delta":
            yield from _delta(blocks, event["index"], event["delta"])
        case "interaction.completed" | "interaction.complete":
            yield from _ended(event["interaction"])
        case "interaction.status_update":
            yield from _failed(event) if event.get("status") in FAILED else ()
        case "error":
            yield {"type": "error", "error": event["error"]}
        case "step.stop" | "content.stop" | "interaction.in_progress" | "interaction.requires_action":
            pass
        case kind:
            rest = {key: value for key, value in event.items() if key not in ("event_type", "event_id")}
            yield {**rest, "type": kind}


def block(step: Fields) -> Fields:
    """Return a step's content as a block of Anthropic's."""
    kind = str(step.get("type"))
    if kind == "thought":
        return {"type": "thinking", "thinking": texts_of(step.get("summary")), "signature": step.get("signature")}
    if kind.endswith(BUILTIN):
        call = {"id": step.get("id"), "name": step.get("name") or kind.removesuffix(BUILTIN)}
        return {"type": "tool_use" if kind == CALL else "server_tool_use", **call, "input": step.get("arguments")}
    if kind.endswith(RESULT):
        result = {"tool_use_id": step.get("call_id"), "is_error": step.get("is_error") is True}
        named = "tool_result" if kind == "function_result" else f"{kind.removesuffix(RESULT)}_tool_result"
        return {"type": named, **result, "content": step.get("result")}
    return step


def _delta(blocks: Blocks, index: Any, told: Fields) -> Iterator[Fields]:
    match told:
        case {"type": "text", "text": str(text)}:
            yield from blocks.start(index, {"type": "text", "text": ""}, "text_delta", text)
        case {"type": "thought_summary", "content": {"text": str(text)}}:
            yield from blocks.start(index, {"type": "thinking"}, "thinking_delta", text)
        case {"type": "thought_signature", "signature": str(signature)}:
            yield from blocks.start(index, {"type": "thinking"}, "signature_delta", signature)
        case {"type": "arguments_delta", "arguments": str(text)}:
            yield from blocks.start(index, {"type": "tool_use"}, "input_json_delta", text)
        case {"type": "text_annotation_delta", "annotations": annotations}:
            yield from blocks.start(index, {"type": "text", "text": ""})
            for annotation in objects(annotations):
                yield delta(blocks.index, "citations_delta", annotation)
        case {"type": str()}:
            yield from blocks.start((index, len(blocks.known)), block(told))


def _named(interaction: Fields) -> Fields:
    return {"id": interaction.get("id"), "model": interaction.get("model")}


def _ended(interaction: Fields) -> Iterator[Fields]:
    status = str(interaction.get("status"))
    yield {"type": "message_delta", "delta": {"stop_reason": ENDS.get(status, status)}, "usage": usage(interaction)}
    yield from _failed(interaction) if status in FAILED else [{"type": "message_stop"}]


def _failed(told: Fields) -> Iterator[Fields]:
    if told["status"] == "cancelled":
        yield {"type": CANCELLED}
    else:
        yield {"type": "error", "error": told.get("error") or {"type": told["status"]}}


def usage(interaction: Fields) -> Fields:
    """Return a usage object in Anthropic's names. Thoughts are beside the output, cached tokens in the input."""
    told = interaction.get("usage") or {}
    known = ("input", "output", "thought", "cached", "tool_use")
    read, said, thought, cached, tools = (number_or_none(told.get(f"total_{name}_tokens")) for name in known)
    if read is None and said is None:
        return {}
    made: Fields = {
        "input_tokens": (read or 0) + (tools or 0) - (cached or 0),
        "output_tokens": (said or 0) + (thought or 0),
    }
    if thought:
        made["output_tokens_details"] = {"thinking_tokens": thought}
    return {**made, **({"cache_read_input_tokens": cached} if cached else {})}


def body(request: Any) -> Any:
    """Return a request as Anthropic's."""
    if not isinstance(request, dict) or "input" not in request:
        return request
    told = request["input"]
    rest = {key: value for key, value in request.items() if key not in ("input", "system_instruction")}
    if request.get("system_instruction"):
        rest["system"] = request["system_instruction"]
    if request.get("previous_interaction_id"):
        rest["thread"] = {"type": "continue", "previous_message_id": request["previous_interaction_id"]}
    told = {"type": "text", "text": told} if isinstance(told, str) else told
    items = objects([told] if isinstance(told, dict) else told)
    turns = [
        _turn(item) if "role" in item or item.get("type") in ("user_input", "model_output") else item for item in items
    ]
    loose = [block(item) for item in turns if "role" not in item]
    said = [{"role": "user", "content": loose}] if loose else []
    return {**rest, "messages": [item for item in turns if "role" in item] + said}


def _turn(item: Fields) -> Fields:
    is_model = item.get("role") == "model" or item.get("type") == "model_output"
    content = item.get("content")
    blocks = content if isinstance(content, str) else [block(each) for each in objects(content)]
    return {"role": "assistant" if is_model else "user", "content": blocks}


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire."""
    match event:
        case {"event_type": str(kind)}:
            return kind.startswith(("interaction.", "step.", "content.")) or (kind == "error" and "error" in event)
        case {"object": "interaction", "status": str()}:
            return True
    return False


DIALECT: Final = kin("gemini-interactions", OF, translate, body, recognises, provider="gemini")

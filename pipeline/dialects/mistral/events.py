"""Mistral's conversations and agents (dialect `mistral`): the kin of Anthropic's. Its chat is `openai-chat`.

| event | what it does |
|---|---|
| conversation.response.started | begins a response |
| conversation.response | a whole answer |
| message.output.delta | text, thoughts, references, of their `output_index` and `content_index` |
| function.call.delta | a call, or more of its arguments |
| tool.execution.started, .delta, .done | a call of a server's tool, and its result |
| conversation.response.done | the call ended well; its tokens |
| conversation.response.error | the call failed: interrupted, unless another call follows |
| turnmill.request, turnmill.error | as Anthropic's |
| agent.handoff.started, .done, any other | SystemMessage data-app-TYPE |
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.kin import Blocks, delta, kin, model_asked
from pipeline.dialects.wire_values import object_in, texts_of
from topics.json_text import Fields, objects

KINDS: Final = ("conversation.response.", "message.output.", "function.call.", "tool.execution.", "agent.handoff.")
COUNTS: Final = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}


def translate(state: Fields, event: Fields) -> Iterator[Fields]:
    """Yield Anthropic's events of an event."""
    blocks: Blocks = state.setdefault("blocks", Blocks())
    output = event.get("output_index", 0)
    if event.get("model") and not blocks.known:
        yield {"type": "message_start", "message": {"model": event["model"]}}
    match event.get("type"):
        case "conversation.response.started":
            state["blocks"] = Blocks()
            yield {"type": "message_start", "message": {**model_asked(state), "id": event.get("conversation_id")}}
        case None:
            yield from translate(state, {**event, "type": "conversation.response.started"})
            for number, entry in enumerate(objects(event["outputs"])):
                for told in _deltas(entry):
                    yield from translate(state, {**entry, "output_index": number, **told})
            yield from translate(state, {**event, "type": "conversation.response.done"})
        case "message.output.delta":
            content = event["content"]
            piece = {"type": "text", "text": content} if isinstance(content, str) else content
            yield from _piece(blocks, (output, piece.get("type")), piece)
        case "function.call.delta":
            state["calls"] = True
            call = {"type": "tool_use", "id": event["tool_call_id"], "name": event["name"]}
            if event.get("confirmation_status"):
                call["confirmation_status"] = event["confirmation_status"]
            yield from blocks.start((output, call["id"]), call, "input_json_delta", event.get("arguments") or "")
        case "tool.execution.started" | "tool.execution.delta":
            call = {"type": "server_tool_use", "id": event["id"], "name": event["name"]}
            yield from blocks.start((output, "call"), call, "input_json_delta", event.get("arguments") or "")
        case "tool.execution.done":
            result = {"type": f"{event['name']}_tool_result", "tool_use_id": event["id"]}
            yield from blocks.start((output, "result"), {**result, "content": event.get("info")})
        case "conversation.response.done":
            reason = "tool_use" if state.pop("calls", False) else "end_turn"
            usage = {COUNTS.get(key, key): count for key, count in event["usage"].items() if count is not None}
            yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}
            yield {"type": "message_stop"}
        case "conversation.response.error":
            yield {"type": "error", "error": {key: event.get(key) for key in ("code", "message")}}
        case _:
            yield event


def _deltas(entry: Fields) -> list[Fields]:
    """Return the events that tell an entry of a whole answer."""
    content = entry.get("content")
    match entry.get("type"):
        case "message.output" if isinstance(content, list):
            return [{"type": "message.output.delta", "content": each} for each in objects(content)]
        case "tool.execution":
            return [{"type": "tool.execution.started"}, {"type": "tool.execution.done"}]
        case kind:
            return [{"type": kind if kind == "agent.handoff" else f"{kind}.delta"}]


def _piece(blocks: Blocks, key: Any, piece: Fields) -> Iterator[Fields]:
    match piece:
        case {"type": "text", "text": str(text)}:
            yield from blocks.start(key, {"type": "text", "text": ""}, "text_delta", text)
        case {"type": "thinking", "thinking": thinking}:
            said = thinking if isinstance(thinking, str) else texts_of(thinking)
            yield from blocks.start(key, {"type": "thinking"}, "thinking_delta", said)
        case {"type": "tool_reference"} if blocks.index >= 0:
            yield delta(blocks.index, "citations_delta", piece)
        case _:
            yield from blocks.start((key, len(blocks.known)), piece)


def body(request: Any) -> Any:
    """Return a request as Anthropic's: its entries as messages."""
    if not isinstance(request, dict) or "inputs" not in request:
        return request
    inputs = request["inputs"]
    entries = [{"role": "user", "content": inputs}] if isinstance(inputs, str) else objects(inputs)
    rest = {key: value for key, value in request.items() if key not in ("inputs", "instructions")}
    system = {"system": request["instructions"]} if request.get("instructions") else {}
    known = request.get("conversation_id")  # a conversation that the server keeps
    thread = {"thread": {"type": "continue", "previous_message_id": known}} if known else {}
    return {**rest, **system, **thread, "messages": [_message(entry) for entry in entries]}


def _message(entry: Fields) -> Fields:
    match entry:
        case {"type": "function.result"}:
            result = {"type": "tool_result", "tool_use_id": entry.get("tool_call_id"), "content": entry.get("result")}
            return {"role": "user", "content": [result]}
        case {"type": "function.call"}:
            call = {"type": "tool_use", "id": entry.get("tool_call_id"), "name": entry.get("name")}
            return {"role": "assistant", "content": [{**call, "input": object_in(entry.get("arguments"))}]}
        case {"role": "assistant"} | {"type": "message.output"}:
            return {"role": "assistant", "content": entry.get("content")}
    return {"role": "user", "content": entry.get("content")}


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire."""
    match event:
        case {"object": "conversation.response", "outputs": list()}:
            return True
        case {"type": str(kind)}:
            return kind.startswith(KINDS)
    return False


DIALECT: Final = kin("mistral", OF, translate, body, recognises)

"""Scripted answers as the model's servers stream them: Server-Sent Events of each API, for `provider`."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from every_count import EVERY
from provider import Reply
from scripted import CACHED, READ, Answer

Fields = dict[str, Any]
PIECES = re.compile(r"(?s).{1,7}")
MODEL = "scripted-1"


def reply(path: str, answer: Answer, number: int, *, whole: bool = False) -> Reply:
    """An answer over the API of an endpoint; `number` is that of the call, and makes its ids. `whole`: not streamed."""
    if answer.refused:
        error = {"type": "invalid_request_error", "message": "The scripted model refuses."}
        return Reply({"type": "error", "error": error}, status=answer.refused)
    if path.endswith(":generateContent"):
        return Reply(gemini_whole(answer, number), broken=answer.broken)
    (write,) = [write for end, write in APIS.items() if path.partition("?")[0].endswith(end)]
    events = list(write(answer, number))
    if whole and write is responses:
        return Reply(events[-1]["response"], broken=answer.broken)
    if whole and write is chat:
        return Reply(chat_whole(answer, number), broken=answer.broken)
    if answer.broken:  # behind the first pieces of what comes last
        last = max(place for place, event in enumerate(events) if _is_piece(event))
        events = events[: last - 1]
    text = "".join(_framed(event) for event in events)
    done = "data: [DONE]\n\n" if path.endswith("/chat/completions") and not answer.broken else ""
    return Reply((text + done).encode(), broken=answer.broken)


def responses(answer: Answer, number: int) -> Iterator[Fields]:
    """The Responses API."""
    items: list[Fields] = []
    head = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": MODEL, "tools": []}
    head |= {"parallel_tool_calls": True, "tool_choice": "auto"}

    def events() -> Iterator[Fields]:
        yield {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}}
        if answer.thought:
            yield from _item(items, _reasoning(answer.thought, number))
        if answer.text:
            yield from _item(items, _message(answer.text, number, "incomplete" if answer.short else "completed"))
        for call in answer.calls:
            item = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
            yield from _item(items, {**item, "arguments": call.text, "status": "completed"})
        details = {"input_tokens_details": {"cached_tokens": CACHED, "cache_write_tokens": 0}}
        details["output_tokens_details"] = {"reasoning_tokens": answer.thinking}
        usage = {"input_tokens": READ, "output_tokens": answer.said, "total_tokens": READ + answer.said, **details}
        state = "incomplete" if answer.short else "completed"
        why = {"incomplete_details": {"reason": "max_output_tokens"}} if answer.short else {}
        whole = {**head, "status": state, "output": items, "usage": _counted(answer, "/responses", usage), **why}
        yield {"type": f"response.{state}", "response": whole}

    for place, event in enumerate(events()):
        yield {**event, "sequence_number": place}


def _reasoning(thought: str, number: int) -> Fields:
    summary = [{"type": "summary_text", "text": thought}]
    return {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": f"sealed-{number}"}


def _message(text: str, number: int, status: str) -> Fields:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": status, "content": content}


def _item(items: list[Fields], item: Fields) -> Iterator[Fields]:
    """The events of one item, which is then among the items."""
    at = {"output_index": len(items), "item_id": item["id"]}
    open_item = {**item, "status": "in_progress"}
    match item["type"]:
        case "reasoning":
            text, at = item["summary"][0]["text"], {**at, "summary_index": 0}
            open_item |= {"summary": []}
            kind, part, key = "reasoning_summary_text", {"type": "summary_text", "text": ""}, "text"
            begun, ended = "reasoning_summary_part.added", "reasoning_summary_part.done"
        case "message":
            text, at = item["content"][0]["text"], {**at, "content_index": 0}
            open_item |= {"content": []}
            kind, part, key = "output_text", {**item["content"][0], "text": ""}, "text"
            begun, ended = "content_part.added", "content_part.done"
        case _:
            text, part, key = item["arguments"], {}, "arguments"
            open_item |= {"arguments": ""}
            kind, begun, ended = "function_call_arguments", "", ""
    yield {"type": "response.output_item.added", "output_index": len(items), "item": open_item}
    if begun:
        yield {"type": f"response.{begun}", **at, "part": part}
    more = {"logprobs": []} if item["type"] == "message" else {}
    for piece in PIECES.findall(text):
        yield {"type": f"response.{kind}.delta", **at, "delta": piece, **more}
    yield {"type": f"response.{kind}.done", **at, key: text, **more}
    if ended:
        yield {"type": f"response.{ended}", **at, "part": {**part, "text": text}}
    yield {"type": "response.output_item.done", "output_index": len(items), "item": item}
    items.append(item)


def chat(answer: Answer, number: int) -> Iterator[Fields]:
    """Chat Completions, with thoughts as DeepSeek and vLLM write them."""
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": MODEL}

    def chunk(delta: Fields, reason: str | None = None) -> Fields:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in PIECES.findall(answer.thought):
        yield chunk({"reasoning_content": piece})
    for piece in PIECES.findall(answer.text):
        yield chunk({"content": piece})
    for place, call in enumerate(answer.calls):
        begun = {"index": place, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        for piece in PIECES.findall(call.text):
            yield chunk({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
    yield chunk({}, "length" if answer.short else "tool_calls" if answer.calls else "stop")
    usage: Fields = {"prompt_tokens": READ, "completion_tokens": answer.said, "total_tokens": READ + answer.said}
    usage["prompt_tokens_details"] = {"cached_tokens": CACHED}
    usage["completion_tokens_details"] = {"reasoning_tokens": answer.thinking}
    yield {**head, "choices": [], "usage": _counted(answer, "/chat/completions", usage)}


def chat_whole(answer: Answer, number: int) -> Fields:
    """The same, not streamed."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
        for call in answer.calls
    ]
    message = {"role": "assistant", "content": answer.text or None, "reasoning_content": answer.thought or None}
    reason = "length" if answer.short else "tool_calls" if calls else "stop"
    choice = {"index": 0, "finish_reason": reason, "message": {**message, **({"tool_calls": calls} if calls else {})}}
    *_, last = chat(answer, number)
    return {**last, "object": "chat.completion", "choices": [choice]}


def messages(answer: Answer, number: int) -> Iterator[Fields]:
    """The Messages API. Its input tokens leave out those that a cache held."""
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    usage = {"input_tokens": READ - CACHED, "cache_read_input_tokens": CACHED, "cache_creation_input_tokens": 0}
    stops = {"stop_reason": None, "stop_sequence": None}
    begun = {key: value for key, value in _counted(answer, "/messages", usage).items() if key != "iterations"}
    yield {"type": "message_start", "message": {**head, **stops, "usage": {**begun, "output_tokens": 1}}}
    blocks: list[tuple[Fields, list[Fields]]] = []
    if answer.thought:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in PIECES.findall(answer.thought)]
        signed = {"type": "signature_delta", "signature": f"signed-{number}"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]))
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in PIECES.findall(answer.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call in answer.calls:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *PIECES.findall(call.text)]]
        blocks.append(({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas))
    for place, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": place, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": place, "delta": delta}
        yield {"type": "content_block_stop", "index": place}
    reason = "max_tokens" if answer.short else "tool_use" if answer.calls else "end_turn"
    yield {
        "type": "message_delta",
        "delta": {**stops, "stop_reason": reason},
        "usage": _counted(answer, "/messages", {**usage, "output_tokens": answer.said}),
    }
    yield {"type": "message_stop"}


def gemini(answer: Answer, number: int) -> Iterator[Fields]:
    """Gemini's streamGenerateContent: thoughts are no part of the tokens of its candidates."""
    head = {"responseId": f"gemini-{number}", "modelVersion": MODEL}

    def chunk(part: Fields, **more: Any) -> Fields:
        return {**head, "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, **more}]}

    for piece in PIECES.findall(answer.thought):
        yield chunk({"text": piece, "thought": True})
    for piece in PIECES.findall(answer.text):
        yield chunk({"text": piece})
    for call in answer.calls:
        yield chunk({"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}})
    usage = {"promptTokenCount": READ, "cachedContentTokenCount": CACHED, "thoughtsTokenCount": answer.thinking}
    usage |= {"candidatesTokenCount": answer.said - answer.thinking, "totalTokenCount": READ + answer.said}
    usage = _counted(answer, ":streamGenerateContent", usage)
    yield {**chunk({"text": ""}, finishReason="MAX_TOKENS" if answer.short else "STOP"), "usageMetadata": usage}


def gemini_whole(answer: Answer, number: int) -> Fields:
    """The same, not streamed."""
    chunks = list(gemini(replace(answer, thought="", text=""), number))
    parts = [{"text": answer.thought, "thought": True}, {"text": answer.text}]
    calls = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"] if "functionCall" in part]
    content = {"role": "model", "parts": [*(part for part in parts if part["text"]), *calls]}
    return {**chunks[-1], "candidates": [{**chunks[-1]["candidates"][0], "content": content}]}


APIS: dict[str, Callable[[Answer, int], Iterator[Fields]]] = {
    "/responses": responses,
    "/chat/completions": chat,
    "/messages": messages,
    ":streamGenerateContent": gemini,
}


def _counted(answer: Answer, api: str, usage: Fields) -> Fields:
    """The usage of an answer, which has all counts of the API where the answer says so."""
    return EVERY[api] if answer.counted else usage


def _is_piece(event: Fields) -> bool:
    """Whether an event brings a piece of a text or of a call's arguments."""
    kind = str(event.get("type"))
    return (kind.endswith("delta") and kind != "message_delta") or bool(event.get("choices") or event.get("candidates"))


def _framed(event: Fields) -> str:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n"

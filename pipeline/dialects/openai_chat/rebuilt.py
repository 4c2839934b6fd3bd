"""Restores the whole answer of Chat Completions, and its chunks, from a stored response. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pipeline.dialects.exports import args_text, pieces
from pipeline.dialects.openai_chat.calls import CUSTOM, written
from pipeline.dialects.openai_chat.formats import block
from pipeline.dialects.openai_chat.keys import META, REFUSAL
from pipeline.dialects.openai_chat.thoughts import BLOCKS, NOTED, text_of
from topics.json_text import Fields, filled, present

REASONS: Final = {"length", "content_filter", "error"}
CHOICE_KEYS: Final = {"audio", "logprobs", "finish_reason", "ended_by"}  # keys of META that the choice has
COUNTS: Final = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
DONE: Final = "[DONE]"
TEXTS: Final = ("reasoning_content", "reasoning", "content", "refusal")


def whole(response: Fields, beside: Sequence[Fields]) -> Fields:
    """Return the body of the answer. `beside`: the system messages that came with the response."""
    meta, parts = response.get(META, {}), response["parts"]
    calls = [part for part in parts if part["part_kind"] == "tool-call"]
    reason = response.get("finish_reason")
    choice: Fields = {"index": 0, "message": _message(parts, meta) | _noted(beside)}
    known = reason if reason in REASONS else "tool_calls" if calls else "stop"
    choice["finish_reason"] = None if "ended_by" in meta else meta.get("finish_reason") or known
    if "logprobs" in meta:
        choice["logprobs"] = meta["logprobs"]
    body: Fields = {"id": response.get("provider_response_id") or "chatcmpl-0", "object": "chat.completion"}
    body |= {"created": 0, "model": response.get("model_name") or ""}
    body |= {key: value for key, value in meta.items() if key not in CHOICE_KEYS}
    body["choices"] = [choice, *_others(beside)]
    if response.get("usage"):
        usage = {COUNTS.get(name, name): value for name, value in response["usage"].items()}
        usage.pop("service_tier", None)  # `meta` has it
        body["usage"] = usage
    return body


def chunks(body: Fields, *, counted: bool) -> Iterator[Fields]:
    """Yield the chunks of a whole answer; `counted`: also one with its usage, which a client has to request."""
    head = {**{key: value for key, value in body.items() if key not in ("usage", "choices")}}
    head["object"] = "chat.completion.chunk"
    for choice in body.get("choices", ()):
        index = choice.get("index", 0)
        for number, delta in enumerate(_deltas(choice.get("message") or {})):
            first = {"role": "assistant"} if number == 0 else {}
            yield {**head, "choices": [{"index": index, "delta": {**first, **delta}, "finish_reason": None}]}
        rest = {key: value for key, value in choice.items() if key != "message"}
        yield {**head, "choices": [{**rest, "index": index, "delta": {}}]}
    if counted and body.get("usage"):
        yield {**head, "choices": [], "usage": body["usage"]}
    if any(choice.get("finish_reason") is None for choice in body.get("choices", ())):
        yield {"event": None, "data": DONE}  # all that ends such an answer


def _deltas(message: Fields) -> Iterator[Fields]:
    yield {}
    for key in TEXTS:
        text = message.get(key)
        if isinstance(text, str):
            yield from ({key: piece} for piece in pieces(text))
    rest = {key: value for key, value in message.items() if key not in ("role", "tool_calls", *TEXTS)}
    if isinstance(message.get("content"), list):
        rest["content"] = message["content"]
    if rest:
        yield rest
    for index, call in enumerate(message.get("tool_calls") or ()):
        kind = "custom" if "custom" in call else "function"
        name = "input" if kind == "custom" else "arguments"
        text = (call.get(kind) or {}).get(name) or ""
        begun = {**call, kind: {**(call.get(kind) or {}), name: ""}}
        yield {"tool_calls": [{"index": index, **begun}]}
        yield from ({"tool_calls": [{"index": index, kind: {name: piece}}]} for piece in pieces(text))


def _message(parts: Sequence[Fields], meta: Fields) -> Fields:
    texts = [part for part in parts if part["part_kind"] == "text" and not part.get(REFUSAL)]
    sound = next((part["data"] for part in parts if part["part_kind"] == "custom:audio"), None)
    spoken = texts.pop()["content"] if texts and ("audio" in meta or sound is not None) else None
    refusal = "".join(part["content"] for part in parts if part.get(REFUSAL))
    text = "".join(part["content"] for part in texts)
    message: Fields = {"role": "assistant", "content": text or None}
    blocks = [part["block"] for part in parts if "block" in part]
    if blocks:
        message["content"] = [*([{"type": "text", "text": text}] if text else []), *blocks]
    message |= filled({"refusal": refusal})
    for part in parts:
        if part["part_kind"] == "thinking":
            message |= _thought(part)
    if "audio" in meta or sound is not None or spoken is not None:
        message["audio"] = {**meta.get("audio", {}), **present({"transcript": spoken, "data": sound})}
    images = [block(part["content"]) for part in parts if part["part_kind"] == "file"]
    calls = [_call(part) for part in parts if part["part_kind"] == "tool-call"]
    return message | filled({"images": images, "tool_calls": calls})


def _thought(part: Fields) -> Fields:
    noted = part.get(META, {})
    details = {key: noted[key] for key in NOTED if key in noted}
    if "in" in noted or (details and "key" not in noted):
        return details
    blocks = [text_of(block) for key in BLOCKS for block in noted.get(key, ())]
    return {noted.get("key", "reasoning_content"): "".join(blocks) or part["content"], **details}


def _call(part: Fields) -> Fields:
    name, args, (beside, within) = part["tool_name"], part.get("args"), written(part)
    if part.get(CUSTOM):
        call = {"name": name, "input": args["input"] if isinstance(args, dict) and "input" in args else args_text(args)}
        return {"id": part["tool_call_id"], "type": "custom", "custom": call, **beside}
    function = {"name": name, "arguments": args_text(args), **within}
    return {"id": part["tool_call_id"], "type": "function", "function": function, **beside}


def _noted(beside: Sequence[Fields]) -> Fields:
    """Return sources, and tools that the server ran, in the form of a message."""
    noted: dict[str, list[Any]] = {"annotations": [], "executed_tools": []}
    for message in beside:
        data = message["event_data"]
        if message["event_type"] == "source.url":
            cited = {"type": "url_citation", "url_citation": {"url": data.get("url"), "title": data.get("title")}}
            noted["annotations"].append(message.get(META, {}).get("annotation") or cited)
        elif message["event_type"] == "custom:executed_tools":
            noted["executed_tools"] += data
    return filled(noted)


def _others(beside: Sequence[Fields]) -> Iterator[Fields]:
    for event in beside:
        if event["event_type"] == "custom:choice":
            data = event["event_data"]
            message = _message(data["parts"], {})
            yield {"index": data["index"], "message": message, "finish_reason": data["finish_reason"]}

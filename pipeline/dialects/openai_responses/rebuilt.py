"""Restores the whole response of the Responses API, and its events, from a stored response. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pipeline.dialects.exports import pieces
from pipeline.dialects.openai_responses.formats import call, reasoning, restored
from pipeline.dialects.openai_responses.keys import META, REFUSAL
from topics.json_text import Fields, filled
from topics.part_kinds import CALLS

REASONS: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
# Fields that OpenAI's clients expect of every response.
DEFAULTS: Final[Fields] = {"created_at": 0, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
SERVER_PARTS: Final = ("builtin-tool-return", "file")  # parts that the item of the server's tool contains already
# Texts of an item that come in deltas: type -> the name of its events, the key of the text.
ARGUMENTS: Final = {
    "function_call": ("function_call_arguments", "arguments"),
    "mcp_call": ("mcp_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}
BLOCKS: Final = {
    "output_text": ("output_text", "text", "content_index"),
    "refusal": ("refusal", "refusal", "content_index"),
    "reasoning_text": ("reasoning_text", "text", "content_index"),
    "summary_text": ("reasoning_summary_text", "text", "summary_index"),
}


def whole(response: Fields, beside: Sequence[Fields]) -> Fields:
    """Return the response. `beside`: the system messages that came with it; it contains none of them."""
    body: Fields = {"id": response.get("provider_response_id") or "resp_0", "object": "response", **DEFAULTS}
    body |= {"model": response.get("model_name") or "", "output": list(items(response["parts"]))}
    reason = REASONS.get(response.get("finish_reason", ""))
    body["status"] = "completed" if reason is None else "incomplete"
    body["incomplete_details"] = None if reason is None else {"reason": reason}
    return {**body, **response.get(META, {}), **filled({"usage": response.get("usage")})}


def items(parts: Sequence[Fields]) -> Iterator[Fields]:
    """Yield the output items of a response's parts."""
    index = 0
    while index < len(parts):
        part, behind = parts[index], parts[index + 1 :]
        kind, meta, identity = part["part_kind"], part.get(META, {}), {"id": f"item_{index}"}
        index += 1
        if kind == "text":
            yield {**identity, **_message(part, meta)}
        elif kind == "thinking":
            more = next(
                (n for n, other in enumerate(behind) if other["part_kind"] != "thinking" or META in other), len(behind)
            )
            yield {**reasoning(part, meta, list(behind[:more])), **(meta.get("fields") or {})}
            index += more
        elif isinstance(meta.get("item"), dict):
            yield restored(meta["item"], list(behind))
            call_id = part["tool_call_id"]
            while index < len(parts) and _is_of(parts[index], call_id):
                index += 1
        elif kind in CALLS:
            yield {**identity, "status": "completed", **meta, **call(part, meta), **_names_of_call(part)}
        elif kind == "builtin-tool-return":
            output = {"call_id": part["tool_call_id"], "output": part.get("content")}
            yield {**identity, "type": "shell_call_output", **meta, **output}
        elif kind.startswith("custom:"):
            yield part["block"]


def events(body: Fields) -> Iterator[Fields]:
    """Yield the events of a whole response, numbered."""
    for number, event in enumerate(_events(body)):
        yield {**event, "sequence_number": number}


def _events(body: Fields) -> Iterator[Fields]:
    begun = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(body.get("output") or ()):
        yield from ({**event, "output_index": index} for event in _item(item))
    status = str(body.get("status") or "completed")
    yield {"type": f"response.{status}", "response": body}


def _item(item: Fields) -> Iterator[Fields]:
    named = {"item_id": item.get("id")}
    name, key = ARGUMENTS.get(str(item.get("type")), ("", ""))
    hollow = {**item, "status": "in_progress"} if "status" in item else dict(item)
    hollow |= {blocks: [] for blocks in ("content", "summary") if isinstance(item.get(blocks), list)} | (
        {key: ""} if key else {}
    )
    yield {"type": "response.output_item.added", "item": hollow}
    for field in ("summary", "content"):
        for number, block in enumerate(item.get(field) or () if isinstance(item.get(field), list) else ()):
            yield from _block({**named}, number, block)
    if key:
        text = str(item.get(key) or "")
        yield from ({"type": f"response.{name}.delta", **named, "delta": piece} for piece in pieces(text))
        yield {"type": f"response.{name}.done", **named, key: text}
    yield {"type": "response.output_item.done", "item": item}


def _block(named: Fields, number: int, block: Fields) -> Iterator[Fields]:
    """Yield the events of a text of a message or of a thought."""
    if block.get("type") not in BLOCKS:
        return
    name, key, index = BLOCKS[block["type"]]
    part = "reasoning_summary_part" if index == "summary_index" else "content_part"
    at = {**named, index: number}
    logprobs: Fields = {"logprobs": []} if name == "output_text" else {}
    yield {"type": f"response.{part}.added", **at, "part": {**block, key: ""}}
    for piece in pieces(block[key]):
        yield {"type": f"response.{name}.delta", **at, "delta": piece, **logprobs}
    yield {"type": f"response.{name}.done", **at, key: block[key], **logprobs}
    yield {"type": f"response.{part}.done", **at, "part": block}


def _message(part: Fields, meta: Fields) -> Fields:
    text = part["content"]
    block: Fields = {"type": "output_text", "text": text, "annotations": meta.get("annotations") or []}
    block |= filled({"logprobs": meta.get("logprobs")})
    if part.get(REFUSAL):
        block = {"type": "refusal", "refusal": text}
    phase = {"phase": meta["phase"]} if "phase" in meta else {}
    message = {"type": "message", "role": "assistant", "status": "completed", "content": [block]}
    return {**(meta.get("fields") or {}), **message, **phase}


def _names_of_call(part: Fields) -> Fields:
    """Return the names of a call as the model wrote them: exports change names that servers refuse."""
    named = {"call_id": part["tool_call_id"]}
    return named | ({"name": part["tool_name"]} if part.get(META, {}).get("type", "function_call") in ARGUMENTS else {})


def _is_of(part: Any, call_id: str) -> bool:
    return part["part_kind"] in SERVER_PARTS and part.get("tool_call_id", call_id) == call_id

"""Restores the whole message of Anthropic's API, and its events, from a stored response. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pipeline.dialects.anthropic.keys import META
from pipeline.dialects.anthropic.message import REDACTED
from pipeline.dialects.exports import INVALID, args_text, pieces
from topics.json_text import Fields
from topics.part_kinds import CALLS

REASONS: Final = {"length": "max_tokens", "content_filter": "refusal", "stop": "end_turn"}
# Blocks whose text comes in deltas: type -> the key of the block, the type of the delta.
GROWS: Final = {"text": ("text", "text_delta"), "thinking": ("thinking", "thinking_delta")}
CACHES: Final = {"cache_read_tokens": "cache_read_input_tokens", "cache_write_tokens": "cache_creation_input_tokens"}


def whole(response: Fields, beside: Sequence[Fields]) -> Fields:
    """Return the message. `beside`: the system messages that came with the response; none is a part of it."""
    meta, parts = response.get(META, {}), response["parts"]
    calls = any(part["part_kind"] == "tool-call" for part in parts)
    reason = REASONS.get(response.get("finish_reason", ""), "tool_use" if calls else "end_turn")
    return {
        "id": response.get("provider_response_id") or "msg_0",
        "type": "message",
        "role": "assistant",
        "model": response.get("model_name") or "",
        "content": [_block(part) for part in parts],
        "stop_sequence": None,
        "stop_reason": reason,
        **meta,
        "usage": _usage(response.get("usage") or {}),
    }


def events(message: Fields) -> Iterator[Fields]:
    """Yield the events of a whole message."""
    usage = message.get("usage") or {}
    begun = {
        **message,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 0},
    }
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message.get("content") or ()):
        hollow, deltas = _in_deltas(block)
        yield {"type": "content_block_start", "index": index, "content_block": hollow}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ends = {key: message.get(key) for key in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": ends, "usage": usage}
    yield {"type": "message_stop"}


def _in_deltas(block: Fields) -> tuple[Fields, list[Fields]]:
    """Return a block as it begins, and the deltas that follow."""
    kind = block.get("type")
    if kind in GROWS:
        key, delta = GROWS[kind]
        pieced: list[Fields] = [{"type": delta, key: piece} for piece in pieces(block.get(key) or "")]
        pieced += [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]
        if block.get("signature"):
            pieced.append({"type": "signature_delta", "signature": block["signature"]})
        return {**{name: block[name] for name in block if name not in ("citations", "signature")}, key: ""}, pieced
    if "input" in block:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(args_text(block["input"]))]
        return {**block, "input": {}}, deltas
    return block, []


def _block(part: Fields) -> Fields:
    kind, meta = part["part_kind"], part.get(META, {})
    content: Any = part.get("content")
    if kind == "text":
        return {"type": "text", "text": content, **meta}
    if kind == "thinking":
        if part.get("thinking_id") == REDACTED:
            return {**meta, "type": REDACTED, "data": part.get("signature", "")}
        return {"type": "thinking", "thinking": content, "signature": part.get("signature", ""), **meta}
    if kind in CALLS:
        args = part.get("args")
        args = args_text(args) if isinstance(args, dict) and args.keys() == {INVALID} else args
        named = {"id": part["tool_call_id"], "name": part["tool_name"], "input": args}
        return {"type": "tool_use" if kind == "tool-call" else "server_tool_use", **meta, **named}
    if kind == "builtin-tool-return":
        fields = {"tool_use_id": part["tool_call_id"], "content": content}
        return {"type": f"{part['tool_name']}_tool_result", **meta, **fields}
    return dict(content["block"] if kind == "file" else part["block"])


def _usage(usage: Fields) -> Fields:
    """Return counts as in the API: its input tokens exclude those of caches."""
    counts = {CACHES.get(name, name): value for name, value in usage.items()}
    cached = sum(usage.get(name) or 0 for name in CACHES)
    return {
        **counts,
        "input_tokens": (usage.get("input_tokens") or 0) - cached,
        "output_tokens": usage.get("output_tokens") or 0,
    }

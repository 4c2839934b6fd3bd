"""Convert the lines of Copilot CLI's sessions into messages and blocks of the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from topics.json_text import Fields

ORDERED: Final = "anthropic-messages"  # whose blocks a line has in the model's order, calls by their ids alone
REASONS: Final = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
COUNTS: Final = {
    "cacheReadTokens": "cache_read_input_tokens",
    "cacheWriteTokens": "cache_creation_input_tokens",
    "outputTokens": "output_tokens",
    "reasoningTokens": "thinking_tokens",
}


def answer(data: Fields, body: list[Fields], usage: Fields) -> Fields:
    """Return the whole answer that a line ends. `usage`: as another line has it."""
    calls = any(block["type"] == "tool_use" for block in body)
    known = {"id": data.get("apiCallId") or data.get("messageId"), "model": data.get("model")}
    known["usage"] = _counts(usage or data)
    known["stop_reason"] = REASONS.get(str(usage.get("finishReason")), "tool_use" if calls else "end_turn")
    return {"type": "message", "role": "assistant", "content": body, **{key: known[key] for key in known if known[key]}}


def blocks(data: Fields) -> list[Fields]:
    """Return what a line of the model says: in its order where the line has it."""
    calls = {call["toolCallId"]: _call(call) for call in data.get("toolRequests") or ()}
    reasoning = data.get("reasoningBlocks") or {}
    ordered = reasoning.get("orderedBlocks") if reasoning.get("provider") == ORDERED else None
    if ordered:
        merged = [calls.pop(block["id"], block) if block["type"] == "tool_use" else block for block in ordered]
        return [*merged, *calls.values()]
    thought = {"type": "thinking", "thinking": data.get("reasoningText"), "signature": data.get("reasoningOpaque")}
    text = {"type": "text", "text": data.get("content")}
    return [*([thought] if thought["thinking"] else []), *([text] if text["text"] else []), *calls.values()]


def result(data: Fields, assets: Mapping[str, Fields]) -> Fields:
    """Return the result of a call; it is an error where the tool failed."""
    output, failed = data.get("result") or {}, data["success"] is not True
    body: Any = (data.get("error") or {}).get("message") if failed else output.get("content")
    if files := output.get("binaryResultsForLlm"):
        body = [{"type": "text", "text": body}, *(content(file, assets) for file in files)]
    return {"type": "tool_result", "tool_use_id": data["toolCallId"], "content": body, "is_error": failed}


def content(file: Fields, assets: Mapping[str, Fields]) -> Fields:
    """Return the block of a file: its bytes, where the lines have them."""
    held = assets.get(str(file.get("assetId")), file)
    if not isinstance(held.get("data"), str):
        return {"type": "attachment", "attachment": file}
    media = str(held.get("mimeType"))
    source = {"type": "base64", "media_type": media, "data": held["data"]}
    return {"type": "image" if media.startswith("image/") else "document", "source": source}


def _call(call: Fields) -> Fields:
    given = call.get("arguments")
    given = {"input": given} if isinstance(given, str) else given
    return {"type": "tool_use", "id": call["toolCallId"], "name": call["name"] + "", "input": given}


def _counts(usage: Fields) -> Fields:
    """Return counts as the API has them: its input leaves out what caches held."""
    counts = {name: usage[key] for key, name in COUNTS.items() if usage.get(key)}
    if "inputTokens" in usage:
        cached = (usage.get("cacheReadTokens") or 0) + (usage.get("cacheWriteTokens") or 0)
        counts["input_tokens"] = max(0, usage["inputTokens"] - cached)
    return counts

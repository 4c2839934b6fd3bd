"""What two lists of pi messages must have in common to say the same."""

from typing import Any

Fields = dict[str, Any]
CUT_OFF = ("error", "aborted")


def kept(messages: list[Fields]) -> list[Fields]:
    """The messages that stay of a run: no system prompt, and no response that was cut off."""
    return [m for m in messages if m["role"] != "system" and m.get("stopReason") not in CUT_OFF]


def essence(message: Fields) -> Fields:
    """What was said and done: content without empty blocks, identity, model, stop reason and tokens."""
    usage = message.get("usage") or {}
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [b for b in content or [] if b]
    return {
        "role": message["role"],
        "content": [said for said in map(_block, blocks) if said],
        "result": [message.get("toolCallId"), message.get("toolName"), bool(message.get("isError"))],
        "model": [message.get("responseModel") or message.get("model"), message.get("provider")],
        "stop": message.get("stopReason"),
        "tokens": [usage.get("output") or 0, sum(usage.get(k) or 0 for k in ("input", "cacheRead", "cacheWrite"))],
    }


def _block(block: Fields) -> Any:
    kind = block["type"]
    if kind == "text":
        return block["text"]
    if kind == "thinking":
        signature = block.get("thinkingSignature") or None
        return (block.get("thinking"), signature) if block.get("thinking") or signature else None
    if kind == "toolCall":
        return (block["id"], block["name"], block.get("arguments") or {})
    return (kind, block.get("mimeType"), len(block.get("data", "")))

"""What a user says: content blocks -> parts of a prompt, and the prompt of a run's request."""

from __future__ import annotations

from typing import Any

from topics.json_text import Fields


def prompts(blocks: list[Fields]) -> list[Fields]:
    """Texts as `user-prompt`; images and documents are files in a list of content."""
    texts = [block["text"] + "" for block in blocks if block["type"] == "text"]
    if len(texts) == len(blocks):
        return [{"part_kind": "user-prompt", "content": text} for text in texts]
    return [{"part_kind": "user-prompt", "content": [_item(block) for block in blocks]}]


def asked(request: Any) -> list[Fields]:
    """The prompt in the body that a run was started with: a text, a user line, a message, or options with a prompt."""
    match request:
        case str(text) | {"prompt": str(text)}:
            return prompts([{"type": "text", "text": text}])
        case {"message": {"content": content}} | {"role": "user", "content": content}:
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if isinstance(blocks, list) and all(_is_block(block) for block in blocks):
                return prompts([block for block in blocks if block["type"] != "tool_result"])
    return []


def _is_block(block: Any) -> bool:
    match block:
        case {"type": "text", "text": str()}:
            return True
        case {"type": str(kind)}:
            return kind != "text"
    return False


def _item(block: Fields) -> Any:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "document", "source": {"type": "base64", "data": str(data), "media_type": str(kind)}}:
            return {"kind": "binary", "data": data, "media_type": kind}
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return {"kind": "image-url", "url": url}
        case {"type": "document", "source": {"type": "url", "url": str(url)}}:
            return {"kind": "document-url", "url": url}
    return {"kind": "custom:anthropic", "block": block}

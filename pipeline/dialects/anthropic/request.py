"""The new messages in the bodies of Messages requests; and these messages, as in histories.

user       content: text, or (text | tool_result | image | document | …)[]
assistant  content: text, or blocks as the stream has them

In a thread that the server keeps (`"thread": {"type": "continue", …}`), a body has the new messages alone, without
`system` and `tools`, which are those of the call that began it.
"""

from typing import Any, Final

from pipeline.dialects.anthropic.keys import note
from pipeline.dialects.anthropic.message import CALLS
from pipeline.dialects.asked_parts import NOTE
from pipeline.dialects.model_calls import RequestReader
from pipeline.dialects.wire_values import identifier
from pipeline.turns.media_kinds import url_kind
from topics.json_text import Fields, objects
from turnmill.wire.program_words import is_note, purpose_of


def items(body: Any) -> list[Fields]:
    """Return the messages of a body."""
    return objects(body.get("messages")) if isinstance(body, dict) else []


def blocks(message: Fields) -> list[Fields]:
    """Return the content of a message; a bare text is one block."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def parts(message: Fields) -> list[Fields]:
    """Return the parts of a user message: words, files, results of tools, and notes of the program."""
    return [_part(block) for block in blocks(message)] if message.get("role") == "user" else []


def names(message: Fields) -> dict[str, str]:
    """Return the calls of an assistant message: id -> name."""
    calls = [block for block in blocks(message) if str(block.get("type")) in CALLS]
    return {block["id"]: str(block.get("name") or "") for block in calls if isinstance(block.get("id"), str)}


def continues(body: Any) -> str | None:
    """Return the response that a call in a thread continues: the server keeps what comes before it."""
    match body:
        case {"thread": {"type": "continue", "previous_message_id": str(previous)}}:
            return previous
    return None


def said(message: Fields) -> Fields:
    """Return a message without notes that a program wrote in the user's name."""
    kept = [block for block in blocks(message) if not _is_note(block)] if message.get("role") == "user" else []
    return {**message, "content": kept} if kept else message


def purpose(body: Any) -> str | None:
    """Return the purpose of a call that a program makes beside the conversation."""
    if not isinstance(body, dict):
        return None
    return "compaction" if isinstance(body.get("compaction"), dict) else purpose_of(body.get("messages"))


def _is_note(block: Fields) -> bool:
    return block.get("type") == "text" and is_note(str(block.get("text")))


def _part(block: Fields) -> Fields:
    match block:
        case {"type": "text", "text": str(text)} if is_note(text):
            return {"part_kind": NOTE, "content": text}
        case {"type": "text", "text": str(text)}:
            part: Fields = {"part_kind": "user-prompt", "content": text}
            note(part, {key: value for key, value in block.items() if key not in ("type", "text")})
            return part
        case {"type": "tool_result", "tool_use_id": str(call_id)}:
            status = "error" if block.get("is_error") is True else "success"
            return {
                "part_kind": "tool-return",
                "tool_call_id": call_id,
                "status": status,
                "content": block.get("content", ""),
            }
        case {"type": "image" | "document", "source": {"type": "base64", "data": str(data), "media_type": str(media)}}:
            return _file(block, {"kind": "binary", "data": data, "media_type": media, "identifier": identifier(data)})
        case {"type": "image" | "document" as kind, "source": {"type": "url", "url": str(url)}}:
            media = "image/*" if kind == "image" else "application/pdf"
            return _file(
                block, {"kind": url_kind(media), "url": url, "media_type": media, "identifier": identifier(url)}
            )
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            part = {"part_kind": "user-prompt", "content": text}
            note(part, {"block": block})
            return part
    return {"part_kind": "user-prompt", "content": [{"kind": "custom:anthropic", "block": block}]}


def _file(block: Fields, content: Fields) -> Fields:
    part: Fields = {"part_kind": "file", "content": content}
    note(part, {key: value for key, value in block.items() if key not in ("type", "source")})
    return part


READER: Final = RequestReader(
    items,
    lambda item: item.get("role") == "assistant",
    parts,
    names,
    continues,
    kept=("system", "tools"),
    purpose=purpose,
    said=said,
)

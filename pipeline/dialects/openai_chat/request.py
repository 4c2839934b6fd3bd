"""The new messages in the bodies of Chat Completions requests; and these messages, as in histories.

user       content: text, or (text | image_url | input_audio | file)[]
assistant  content?, refusal?, tool_calls?, …
tool       tool_call_id, content; function: the same, by name
system, developer   configuration: not stored
"""

from collections.abc import Callable
from typing import Any, Final

from pipeline.dialects.model_calls import RequestReader
from pipeline.dialects.openai_chat.keys import note
from pipeline.dialects.vercel_ai.content import file_content
from pipeline.dialects.wire_values import identifier
from pipeline.turns.media_kinds import url_kind
from topics.json_text import Fields, list_of, objects

ANSWERS: Final = ("tool", "function")


def items(body: Any) -> list[Fields]:
    """Return the messages of a body."""
    return objects(body.get("messages")) if isinstance(body, dict) else []


def parts(message: Fields) -> list[Fields]:
    """Return the parts of a user's or a tool's message."""
    role = message.get("role")
    if role == "user":
        return [user_prompt(message)]
    if role in ANSWERS:
        return [tool_return(message)]
    return []


def names(message: Fields) -> dict[str, str]:
    """Return the calls of an assistant message: id -> name."""
    names: dict[str, str] = {}
    for call in list_of(message.get("tool_calls")):
        function = (call.get("function") or call.get("custom")) if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(call.get("id"), str):
            names[call["id"]] = str(function.get("name") or "")
    return names


def user_prompt(message: Fields) -> Fields:
    """Return a user message as user-prompt."""
    content, blocks = prompt(message.get("content"), _content_item)
    part: Fields = {"part_kind": "user-prompt", "content": content}
    note(part, {"blocks": blocks, "name": message.get("name")})
    return part


def prompt(content: Any, piece: Callable[[Fields], Any]) -> tuple[Any, list[Any] | None]:
    """Return the content of a user-prompt, a text or a list; and its blocks, if texts among them have other fields.

    `piece`: a block -> its text, or other content.
    """
    if not isinstance(content, list):
        return content if isinstance(content, str) else "", None
    blocks = objects(content)
    pieces = [piece(block) for block in blocks]
    if len(pieces) == 1 and isinstance(pieces[0], str):
        return pieces[0], None
    texts = [block for block, item in zip(blocks, pieces, strict=True) if isinstance(item, str)]
    return pieces, content if any(len(block) > 2 for block in texts) else None


def tool_return(message: Fields) -> Fields:
    """Return a tool message as tool-return; the wire does not say whether the tool failed."""
    call_id = message.get("tool_call_id", message.get("name"))
    content = message.get("content")
    name = {"tool_name": str(message.get("name"))} if message.get("role") == "function" else {}
    return {
        "part_kind": "tool-return",
        **name,
        "tool_call_id": call_id if isinstance(call_id, str) else "",
        "status": "success",
        "content": content,
    }


def _content_item(block: Fields) -> Any:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "image_url", "image_url": str(url)}:
            return content_at(url, "image/*")
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            return _binary(data, f"audio/{form}")
        case {"type": "file", "file": {"file_data": str(url)}}:
            return content_at(url, "application/octet-stream")
    return {"kind": "custom:openai_chat", "block": block}


def content_at(url: str, media: str) -> Fields:
    """Return content by value if the URL contains it, else by address."""
    head, _, data = url.partition(",")
    if head.startswith("data:"):
        media = head.removeprefix("data:").partition(";")[0] or media
        content = file_content(url, media)
        if "data" in content:
            return _binary(data, media)
    return {"kind": url_kind(media), "url": url, "media_type": media, "identifier": identifier(url)}


def _binary(data: str, media: str) -> Fields:
    return {"kind": "binary", "data": data, "media_type": media, "identifier": identifier(data)}


READER: Final = RequestReader(items, lambda item: item.get("role") == "assistant", parts, names)

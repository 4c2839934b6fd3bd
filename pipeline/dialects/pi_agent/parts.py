"""Content of pi messages -> ThreadProtocol parts.

    text      {text, textSignature?: an id, or JSON {v: 1, id, phase?}}
    thinking  {thinking, thinkingSignature?: opaque, or a JSON reasoning item; redacted?}
    toolCall  {id, name, arguments, thoughtSignature?}
    image     {data, mimeType}

Fields that ThreadProtocol lacks are kept under `meta:pi`, by pi's names.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any, Final

from topics.json_text import Fields
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import loads

REDACTED: Final = "redacted_thinking"


def response_parts(message: Fields) -> list[Fields]:
    """Return the parts of an assistant message. Holes and empty blocks are left out."""
    provider = message.get("provider")
    provider = provider if isinstance(provider, str) else None
    parts = [_response_part(block, provider) for block in blocks(message.get("content"))]
    return [part for part in parts if part is not None]


def _response_part(block: Fields, provider: str | None) -> Fields | None:
    kind = block.get("type")
    if kind == "text":
        return _text_part(block)
    if kind == "thinking":
        return _thinking(block, provider)
    if kind == "toolCall":
        return _tool_call(block)
    return {"part_kind": "custom:pi", "block": block}


def _text_part(block: Fields) -> Fields | None:
    signature = block.get("textSignature")
    text = str(block.get("text") or "")
    if not text and not signature:
        return None
    part: Fields = {"part_kind": "text", "content": text}
    if not isinstance(signature, str) or not signature:
        return with_rest(part, block, {"type", "text", "textSignature"})
    identity = _object(signature)
    if identity.get("v") == 1 and isinstance(identity.get("id"), str):
        part["id"] = identity["id"]
        return with_rest(part, block, {"type", "text"})
    part["id"] = signature
    return with_rest(part, block, {"type", "text", "textSignature"})


def _thinking(block: Fields, provider: str | None) -> Fields | None:
    """Return a thinking part, None for an empty block.

    If its signature is a JSON reasoning item, this contains the part's id, too.
    """
    signature = block.get("thinkingSignature")
    signature = signature if isinstance(signature, str) else ""
    thought = str(block.get("thinking") or "")
    if not thought and not signature and not block.get("redacted"):
        return None
    part: Fields = {"part_kind": "thinking", "content": thought}
    known = {"type", "thinking"}
    if signature:
        part["signature"] = signature
        known.add("thinkingSignature")
    if provider is not None:
        part["provider_name"] = provider
    identity = _object(signature).get("id")
    if block.get("redacted"):
        part["thinking_id"] = REDACTED
        del part["content"]  # pi has only a placeholder there
        known = known - {"thinking"} if thought else known
    elif isinstance(identity, str):
        part["thinking_id"] = identity
    return with_rest(part, block, known)


def _tool_call(block: Fields) -> Fields:
    part: Fields = {
        "part_kind": "tool-call",
        "tool_name": _string(block.get("name")),
        "tool_call_id": _string(block.get("id")),
        "args": arguments(block.get("arguments")),
    }
    if block.get("thoughtSignature") is not None:
        part["meta:thought_signature"] = block["thoughtSignature"]
    return with_rest(part, block, {"type", "name", "id", "arguments", "thoughtSignature", "partialJson"})


def arguments(value: Any) -> Any:
    """Return tool arguments as data. None becomes {}; pi leaves a text if it could not parse the arguments."""
    return {"INVALID_JSON": value} if isinstance(value, str) else {} if value is None else value


def user_prompt(message: Fields) -> Fields:
    """Return a user message as user-prompt part."""
    part = {"part_kind": "user-prompt", "content": content(message.get("content"))}
    return with_rest(part, message, {"role", "content"}, bare=isinstance(message.get("content"), str))


def tool_return(message: Fields) -> Fields:
    """Return a toolResult message as tool-return part."""
    name, contents = _string(message.get("toolName")), content(message.get("content"))
    part: Fields = {
        "part_kind": "tool-return",
        "tool_name": name,
        "tool_call_id": _string(message.get("toolCallId")),
        "status": "error" if message.get("isError") else "success",
        "content": contents,
    }
    opening = (
        contents if isinstance(contents, str) else next((piece for piece in contents if isinstance(piece, str)), "")
    )
    if part["status"] == "error" and opening.startswith(f'Validation failed for tool "{name}":'):
        part["status"] = "validation_error"
    known = {"role", "toolCallId", "toolName", "content", "isError"}
    if message.get("details") not in (None, {}):
        part["metadata"] = message["details"]
        known.add("details")
    return with_rest(part, message, known, bare=isinstance(message.get("content"), str))


def content(value: Any) -> str | list[Any]:
    """Return the content of a user or a tool: a single text stays a text, all else is a list of texts and binaries."""
    if isinstance(value, str):
        return value
    pieces = [_content_item(block) for block in blocks(value)]
    return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], str) else pieces


def _content_item(block: Fields) -> Any:
    if block.get("type") == "text" and isinstance(block.get("text"), str) and len(block) == 2:
        return block["text"]
    if block.get("type") == "image" and isinstance(block.get("data"), str):
        data = block["data"]
        binary = {
            "kind": "binary",
            "data": data,
            "media_type": str(block.get("mimeType") or "application/octet-stream"),
            "identifier": hashlib.sha1(_decoded(data), usedforsecurity=False).hexdigest()[:6],
        }
        return with_rest(binary, block, {"type", "data", "mimeType"})
    return {"kind": "custom:pi", "block": block}


def blocks(value: Any) -> list[Fields]:
    """Return the blocks of content. A plain text is one block; holes (JavaScript's sparse arrays) are left out."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [block for block in value if isinstance(block, dict)] if isinstance(value, list) else []


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return data.encode("utf-8", "surrogatepass")


def _object(text: str) -> Fields:
    """Return the JSON object in a signature; {} if it is anything else."""
    if not text.startswith("{"):
        return {}
    try:
        value = loads(text.encode("utf-8", "surrogatepass"))
    except InvalidRecord:
        return {}
    return value if isinstance(value, dict) else {}


def with_rest(fields: Fields, source: Fields, known: set[str], *, bare: bool = False) -> Fields:
    """Return the fields, and under `meta:pi` those of `source` whose names are not in `known`."""
    rest = {key: value for key, value in source.items() if key not in known}
    if bare:
        rest["bare"] = True  # content was a text, not a list
    return {**fields, "meta:pi": rest} if rest else fields


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""

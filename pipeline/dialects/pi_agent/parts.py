"""Content of pi messages -> ThreadProtocol parts: of whole messages, and of a response that broke off.

    text      {text, textSignature?: an id, or JSON {v: 1, id, phase?}}
    thinking  {thinking, thinkingSignature?: opaque, or a JSON reasoning item; redacted?}
    toolCall  {id, name, arguments, thoughtSignature?}
    image     {data, mimeType}

Fields that ThreadProtocol lacks are kept under `meta:pi`, by pi's names. A response that broke off is kept
only in `meta:partial`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.signatures import SIGNATURE
from pipeline.dialects.wire_values import (
    call_arguments,
    identifier_of_base64,
    object_in,
    objects,
    text_or_empty,
    text_or_none,
)
from pipeline.turns.arguments import arguments
from pipeline.turns.text import join
from topics.json_text import Fields, present

REDACTED: Final = "redacted_thinking"
KINDS: Final = {"text": "text", "thinking": "thinking", "toolcall": "toolCall"}  # kinds in events -> kinds of blocks
JOIN_AFTER: Final = 256  # deltas of a block from which on they are joined


def response_parts(message: Fields) -> list[Fields]:
    """Return the parts of an assistant message. Holes and empty blocks are left out."""
    provider = text_or_none(message.get("provider"))
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
    identity = object_in(signature)
    if identity.get("v") == 1 and isinstance(identity.get("id"), str):
        part["id"] = identity["id"]
        return with_rest(part, block, {"type", "text"})
    part["id"] = signature
    return with_rest(part, block, {"type", "text", "textSignature"})


def _thinking(block: Fields, provider: str | None) -> Fields | None:
    signature = text_or_empty(block.get("thinkingSignature"))
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
    identity = object_in(signature).get("id")  # the signature may be a JSON reasoning item
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
        "tool_name": text_or_empty(block.get("name")),
        "tool_call_id": text_or_empty(block.get("id")),
        "args": call_arguments(block.get("arguments")),
        **present({SIGNATURE: block.get("thoughtSignature")}),
    }
    return with_rest(part, block, {"type", "name", "id", "arguments", "thoughtSignature", "partialJson"})


def user_prompt(message: Fields) -> Fields:
    """Return a user message as user-prompt part."""
    part = {"part_kind": "user-prompt", "content": content(message.get("content"))}
    return with_rest(part, message, {"role", "content"}, bare=isinstance(message.get("content"), str))


def tool_return(message: Fields) -> Fields:
    """Return a toolResult message as tool-return part."""
    name, contents = text_or_empty(message.get("toolName")), content(message.get("content"))
    part: Fields = {
        "part_kind": "tool-return",
        "tool_name": name,
        "tool_call_id": text_or_empty(message.get("toolCallId")),
        "status": "error" if message.get("isError") else "success",
        "content": contents,
    }
    texts = [contents] if isinstance(contents, str) else [piece for piece in contents if isinstance(piece, str)]
    opening = texts[0] if texts else ""
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
        data, media_type = block["data"], str(block.get("mimeType") or "application/octet-stream")
        binary = {"kind": "binary", "data": data, "media_type": media_type, "identifier": identifier_of_base64(data)}
        return with_rest(binary, block, {"type", "data", "mimeType"})
    return {"kind": "custom:pi", "block": block}


def blocks(value: Any) -> list[Fields]:
    """Return the blocks of content. A plain text is one block; holes (JavaScript's sparse arrays) are left out."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return objects(value)


def with_rest(fields: Fields, source: Fields, known: set[str], *, bare: bool = False) -> Fields:
    """Return the fields, and under `meta:pi` those of `source` whose names are not in `known`."""
    rest = {key: value for key, value in source.items() if key not in known}
    if bare:
        rest["bare"] = True  # content was a text, not a list
    return {**fields, "meta:pi": rest} if rest else fields


@dataclass(slots=True, eq=False)
class Block:
    """One content block: its fields, and the deltas of its text or arguments."""

    fields: Fields
    chunks: list[str] = field(default_factory=list)
    ended: bool = False


@dataclass(slots=True, eq=False)
class Growing:
    """The current message: its newest snapshot, or, without one, the blocks built from deltas."""

    snapshot: Fields | None = None
    usage: Any = None  # beside the last block that began or ended
    built: dict[int, Block] = field(default_factory=dict)

    def take(self, event: Fields) -> None:
        """Apply a message_update, unless it is malformed."""
        if event.get("message").__class__ is dict:
            self.snapshot = event["message"]
            return
        update = event.get("assistantMessageEvent")
        if update.__class__ is not dict:
            return
        index, kind = update.get("contentIndex"), update.get("type")
        if index.__class__ is not int or kind.__class__ is not str:
            return
        name, _, step = kind.partition("_")
        block, delta = self.built.get(index), update.get("delta")
        if step != "delta":
            self.usage = event.get("usage")
        if step == "start" and name in KINDS:
            self.built[index] = Block({"type": KINDS[name], "id": update.get("id"), "name": update.get("toolName")})
        elif block is not None and step == "delta" and delta.__class__ is str:
            block.chunks.append(delta)
            if len(block.chunks) >= JOIN_AFTER:
                block.chunks[:] = ["".join(block.chunks)]
        elif block is not None and step == "end":
            block.ended = True

    def blocks(self) -> list[Block]:
        """Return the blocks in order; of a snapshot, the last is unfinished."""
        if self.snapshot is None:
            return [block for _, block in sorted(self.built.items())]
        parsed = [Block(fields) for fields in blocks(self.snapshot.get("content"))]
        for block in parsed[:-1]:
            block.ended = True
        return parsed


def show(builder: Builder, shown: Iterable[Block], first_part_at: int | None, fields: Fields | None = None) -> None:
    """Append the response that broke off; without its texts if events are missing, since they would lack a piece."""
    parts = [] if builder.lossy else [part for block in shown if (part := _part(block)) is not None]
    if parts or fields:
        builder.messages.append(Message("response", builder.at, parts, fields, first_part_at=first_part_at))


def _part(block: Block) -> Part | None:
    fields, text = block.fields, join(block.chunks)
    match fields.get("type"):
        case "text" | "thinking" as kind:
            return Part({"part_kind": kind, "content": text_or_empty(fields.get(kind)) + text}, done=block.ended)
        case "toolCall":
            name, call_id = text_or_empty(fields.get("name")), text_or_empty(fields.get("id"))
            args: Any = fields["arguments"] if isinstance(fields.get("arguments"), dict) else arguments(text)
            call = {"part_kind": "tool-call", "tool_name": name, "tool_call_id": call_id, "args": args}
            return Part(call, done=block.ended)
    return None

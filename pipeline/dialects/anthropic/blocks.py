"""Conversion of a message's content blocks to parts of a response.

A block comes whole, or begins empty and grows by deltas. The text of a call's arguments replaces the input from the
block's start. A signature replaces the previous one; text is appended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.parts import Part
from pipeline.dialects.anthropic.keys import note
from pipeline.dialects.wire_values import text_or_empty
from pipeline.turns.arguments import arguments
from pipeline.turns.text import join
from topics.json_text import Fields

CALLS: Final = {"tool_use": "tool-call", "server_tool_use": "builtin-tool-call", "mcp_tool_use": "builtin-tool-call"}
RESULT: Final = "_tool_result"  # the suffix of the types of server tools' results
REDACTED: Final = "redacted_thinking"
OF_DELTA: Final = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
}

# Deltas that append text: (kind of the part, type of the delta) -> the delta's key.
GROWS: Final = {
    ("text", "text_delta"): "text",
    ("thinking", "thinking_delta"): "thinking",
    ("tool-call", "input_json_delta"): "partial_json",
}


@dataclass(slots=True, eq=False)
class Block:
    """One content block. `given`: the input in its start."""

    part: Part
    kind: str
    given: Any = None
    citations: list[Any] = field(default_factory=list)

    def add(self, delta: Fields) -> bool:
        """Apply a delta; return False, and change nothing, if it does not fit this kind of block."""
        match self.part.fields["part_kind"], delta:
            case "text", {"type": "text_delta", "text": str(text)}:
                self.part.chunks.append(text)
            case "text", {"type": "citations_delta", "citation": citation}:
                self.citations.append(citation)
            case "thinking", {"type": "thinking_delta", "thinking": str(text)}:
                self.part.chunks.append(text)
            case "thinking", {"type": "signature_delta", "signature": str(signature)}:
                self.part.fields["signature"] = signature
            case "tool-call" | "builtin-tool-call", {"type": "input_json_delta", "partial_json": str(text)}:
                self.part.chunks.append(text)
            case kind, {"type": str()} if kind.startswith("custom:"):
                self.part.fields["block"] |= {key: value for key, value in delta.items() if key != "type"}
            case _:
                return False
        return True

    def grows_by(self, kind: str) -> str | None:
        """Return the key of the text in deltas of this type; None if such deltas add no text."""
        part_kind = self.part.fields["part_kind"]
        return GROWS.get((part_kind.removeprefix("builtin-"), kind))

    def close(self) -> None:
        """Close the block."""
        fields = self.part.fields
        if self.kind in CALLS:
            text = join(self.part.chunks)
            fields["args"] = arguments(text) if text.strip() else _given(self.given)
            self.part.chunks.clear()
        if self.citations:
            note(fields, {"citations": self.citations})
        self.part.done = True


def opened(block: Fields, provider: str) -> Block:
    """Return the block of a `content_block_start`, or of a whole message."""
    kind = block.get("type")
    kind = kind if isinstance(kind, str) else "block"
    if kind == "text":
        opened = Block(Part({"part_kind": "text", "content": ""}), kind)
        opened.part.chunks += _texts(block.get("text"))
        opened.citations += block["citations"] if isinstance(block.get("citations"), list) else ()
        note(opened.part.fields, _rest(block, "type", "text", "citations"))
        return opened
    if kind in ("thinking", REDACTED):
        return Block(_thought(block, kind, provider), kind)
    if kind in CALLS:
        call: Fields = {
            "part_kind": CALLS[kind],
            "tool_name": text_or_empty(block.get("name")),
            "tool_call_id": text_or_empty(block.get("id")),
        }
        call["args"] = None
        note(call, {"type": kind, **_rest(block, "type", "id", "name", "input")})
        return Block(Part(call), kind, block.get("input"))
    if kind.endswith(RESULT):
        return Block(Part(_result(block, kind)), kind)
    if kind == "container_upload":
        return Block(Part({"part_kind": "file", "content": {"kind": "custom:anthropic", "block": dict(block)}}), kind)
    return Block(Part({"part_kind": f"custom:{kind}", "block": dict(block)}), kind)


def hollow(delta: Fields, provider: str) -> Block | None:
    """Return a block whose start is missing, made from its first delta; None for an unknown kind of delta."""
    kind = OF_DELTA.get(str(delta.get("type")))
    return None if kind is None else opened({"type": kind}, provider)


def _thought(block: Fields, kind: str, provider: str) -> Part:
    part = Part({"part_kind": "thinking", "content": "", "provider_name": provider})
    if kind == REDACTED:
        part.fields |= {"signature": text_or_empty(block.get("data")), "thinking_id": REDACTED}
    elif text_or_empty(block.get("signature")):
        part.fields["signature"] = block["signature"]
    part.chunks += _texts(block.get("thinking"))
    note(part.fields, {"type": kind, **_rest(block, "type", "thinking", "signature", "data")})
    return part


def _result(block: Fields, kind: str) -> Fields:
    content = block.get("content")
    failed = block.get("is_error") is True or (
        isinstance(content, dict) and text_or_empty(content.get("type")).endswith("_error")
    )
    part: Fields = {
        "part_kind": "builtin-tool-return",
        "tool_name": "",
        "tool_call_id": text_or_empty(block.get("tool_use_id")),
        "status": "error" if failed else "success",
        "content": content,
    }
    note(part, {"type": kind, **_rest(block, "type", "tool_use_id", "content")})
    return part


def _given(value: Any) -> Fields:
    if value is None:
        return {}
    return value if isinstance(value, dict) else arguments(value if isinstance(value, str) else "")


def _rest(block: Fields, *known: str) -> Fields:
    return {key: value for key, value in block.items() if key not in known}


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) and value else []

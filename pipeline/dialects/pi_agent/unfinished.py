"""A response that broke off, as far as pi's events have shown it: only `meta:partial` keeps any of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.pi_agent.parts import blocks
from pipeline.turns.arguments import arguments
from pipeline.turns.text import join
from topics.json_text import Fields

KINDS: Final = {"text": "text", "thinking": "thinking", "toolcall": "toolCall"}  # kinds in events -> kinds of blocks
JOIN_AFTER: Final = 256  # deltas of a block from which on they are joined


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


def show(builder: Builder, shown: Iterable[Block], first_part_at: int | None) -> None:
    """Append the response that broke off, unless events are missing: its texts would lack a piece."""
    parts = [] if builder.lossy else [part for block in shown if (part := _part(block)) is not None]
    if parts:
        builder.messages.append(Message("response", builder.at, parts, first_part_at=first_part_at))


def _part(block: Block) -> Part | None:
    fields, text = block.fields, join(block.chunks)
    match fields.get("type"):
        case "text" | "thinking" as kind:
            return Part({"part_kind": kind, "content": _text_or_empty(fields.get(kind)) + text}, done=block.ended)
        case "toolCall":
            args: Any = fields["arguments"] if isinstance(fields.get("arguments"), dict) else arguments(text)
            call = {
                "tool_name": _text_or_empty(fields.get("name")),
                "tool_call_id": _text_or_empty(fields.get("id")),
                "args": args,
            }
            return Part({"part_kind": "tool-call", **call}, done=block.ended)
    return None


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""

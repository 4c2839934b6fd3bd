"""Thoughts in blocks, with their signatures, as gateways write them beside the text; and what else LiteLLM has there.

    thinking_blocks   LiteLLM 1.110: {type: thinking, thinking, signature}, {type: redacted_thinking, data}
    reasoning_items   LiteLLM, of Responses: {type: reasoning, id, encrypted_content, summary}
    content_blocks    Portkey 1.15, where it is not strict: as thinking_blocks, and texts and images

A stream has pieces of blocks by their `index`; Portkey's are {index, delta}, without a type. The same thought mostly
comes as a text, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.parts import Part
from pipeline.dialects.openai_chat.keys import META, note
from pipeline.dialects.wire_values import text_or_empty, text_or_none
from pipeline.turns.text import join
from topics.json_text import Fields, objects, present

BLOCKS: Final = ("thinking_blocks", "reasoning_items", "content_blocks")
REDACTED: Final = "redacted_thinking"
SEALS: Final = ("signature", "encrypted_content", "data")
GROWING: Final = ("thinking", "text", "data", "partial_json")
NOTED: Final = ("reasoning_details", *BLOCKS)  # the keys of META whose values the server gets back

Piece = tuple[str, Any, Fields]


def blocks_in(delta: Fields) -> Iterator[Piece]:
    """Yield the pieces of blocks in a delta or a message: their key, the block's index, their fields."""
    beside = delta.get("provider_specific_fields")
    for key in BLOCKS:
        value = delta.get(key)
        if value is None and isinstance(beside, dict):
            value = beside.get(key)
        for piece in objects(value) if value is not None else ():
            inner = piece.get("delta", piece)
            if isinstance(inner, dict):
                yield key, piece.get("index"), {name: inner[name] for name in inner if name != "index"}


def text_of(piece: Fields) -> str:
    """Return the thought in a piece."""
    summary = "".join(text_or_empty(part.get("text")) for part in objects(piece.get("summary")))
    return text_or_empty(piece.get("thinking")) or summary


@dataclass(slots=True, eq=False)
class Blocks:
    """The blocks of an answer so far, each with its key and its index."""

    blocks: list[Piece] = field(default_factory=list)

    def add(self, key: str, index: Any, piece: Fields, *, whole: bool) -> None:
        """Add a piece: to the block of its index, or else to the last, if that is of its type and not sealed."""
        block = None if whole else self._open(key, index, piece)
        if block is None:
            block = {}
            self.blocks.append((key, index, block))
        for name, value in piece.items():
            if name in GROWING and isinstance(value, str):
                block[name] = text_or_empty(block.get(name)) + value
            elif name == "citation":  # each of a text comes alone
                block["citations"] = [*objects(block.get("citations")), value]
            elif value not in (None, "") or name not in block:
                block[name] = value

    def sealed(self) -> bool:
        """Return True if there are thoughts that go back to their server in blocks."""
        return any(_is_thought(block) for _, _, block in self.blocks)

    def citations(self) -> list[Fields]:
        """Return the sources of texts in blocks."""
        return [cited for _, _, block in self.blocks for cited in objects(block.get("citations"))]

    def others(self) -> dict[str, list[Fields]]:
        """Return the blocks that are neither thoughts nor bare texts, by their key."""
        kept: dict[str, list[Fields]] = {}
        for key, _, block in self.blocks:
            if not _is_thought(block) and not block.keys() <= {"type", "text"}:
                kept.setdefault(key, []).append(block)
        return kept

    def thoughts(self, said: Part) -> list[Part]:
        """Return a part for each block of a thought, where their texts are `said`; else only that, with a signature."""
        blocks = [(key, block) for key, _, block in self.blocks if _is_thought(block)]
        key = blocks[0][0]
        for block in (block for _, block in blocks):
            block.setdefault("type", REDACTED if "data" in block else "thinking")
        blocks = [(name, block) for name, block in blocks if name == key]
        parts = [said]
        if len(blocks) > 1 and "".join(text_of(block) for _, block in blocks) == join(said.chunks):
            said.chunks[:] = [text_of(blocks[0][1])]
            for _, block in blocks[1:]:
                parts.append(Part({"part_kind": "thinking", "content": text_of(block), META: {"in": key}}))
        for part, (_, block) in zip(parts, blocks, strict=False):
            _seal(part, block)
        note(said.fields, {key: [block for _, block in blocks]})
        return parts

    def _open(self, key: str, index: Any, piece: Fields) -> Fields | None:
        for known, place, block in reversed(self.blocks):
            if known == key and (place == index if index is not None else place is None):
                kind = piece.get("type")
                whole = index is None and any(block.get(seal) for seal in SEALS)
                return None if whole or kind not in (None, block.get("type")) else block
        return None


def _is_thought(block: Fields) -> bool:
    return any(name in block for name in ("thinking", "summary", *SEALS))


def _seal(part: Part, block: Fields) -> None:
    signature = next((block[seal] for seal in SEALS if isinstance(block.get(seal), str) and block[seal]), None)
    identity = REDACTED if block.get("type") == REDACTED else text_or_none(block.get("id"))
    part.fields |= present({"signature": signature, "thinking_id": identity})


def with_more(before: Fields, now: Any) -> Fields:
    """Return LiteLLM's `provider_specific_fields` with those of another chunk, without blocks.

    Its lists are the whole list so far, or what is new; a citation comes alone.
    """
    if not isinstance(now, dict):
        return before
    both = dict(before)
    for key, told in now.items():
        name, value = ("citations", [told]) if key == "citation" else (key, told)
        known = both.get(name)
        if isinstance(known, list) and isinstance(value, list):
            both[name] = _with_more(known, value)
        elif value is not None and key not in BLOCKS:
            both[name] = value
    return both


def _with_more(known: list[Any], new: list[Any]) -> list[Any]:
    both = list(known)
    for item in new:
        at = next((n for n, other in enumerate(both) if other == item or _is_same(other, item)), len(both))
        both[at : at + 1] = [item]
    return both


def _is_same(left: Any, other: Any) -> bool:
    if not isinstance(left, dict) or not isinstance(other, dict):
        return False
    name = next((other[key] for key in ("id", "tool_use_id") if other.get(key)), None)
    return name is not None and name in (left.get("id"), left.get("tool_use_id"))

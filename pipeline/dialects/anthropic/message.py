"""The message of a call: its blocks by their index, its usage, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.parts import Message, Part
from pipeline.dialects.anthropic.blocks import RESULT, Block, hollow, opened
from pipeline.dialects.anthropic.keys import note
from topics.json_text import Fields

FINISH_REASONS: Final = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "end_turn": "stop",
    "stop_sequence": "stop",
}
READ_KEYS: Final = frozenset({"id", "type", "role", "model", "content", "usage", "stop_reason"})
UNCACHED: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(slots=True, eq=False)
class MessageAnswer:
    """One message. `blocks`: (index, block) in the order in which they began, those of the start first."""

    response: Message
    provider: str
    blocks: list[tuple[int, Block]] = field(default_factory=list)
    usage: Fields = field(default_factory=dict)
    stop_reason: Any = None
    settled: bool = False

    def start(self, message: Fields, at: int) -> None:
        """Apply `message_start`, or a whole message."""
        for key, name in (("id", "provider_response_id"), ("model", "model_name")):
            if isinstance(message.get(key), str) and message[key]:
                self.response.fields[name] = message[key]
        self.end(message, message.get("usage"))
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                self.open(-1, block, at).close()

    def open(self, index: int, block: Fields, at: int) -> Block:
        """Begin a block."""
        added = opened(block, self.provider)
        self._append(index, added, at)
        if added.kind == "fallback" and isinstance(block.get("to"), dict) and isinstance(block["to"].get("model"), str):
            self.response.fields["model_name"] = block["to"]["model"]
        return added

    def add(self, index: int, delta: Fields, at: int) -> bool:
        """Add a delta to the newest block of this index; return False if no block accepts it."""
        block = self.at(index)
        if block is None:
            block = hollow(delta, self.provider)
            if block is None:
                return False
            self._append(index, block, at)
        return block.add(delta)

    def at(self, index: int) -> Block | None:
        """Return the newest block of this index."""
        return next((block for number, block in reversed(self.blocks) if number == index), None)

    def end(self, delta: Fields, usage: Any) -> None:
        """Apply `message_delta`: stop reason and usage; a null count leaves the previous one."""
        reason = delta.get("stop_reason")
        self.stop_reason = reason if isinstance(reason, str) else None
        note(self.response.fields, {key: value for key, value in delta.items() if key not in READ_KEYS})
        if isinstance(usage, dict):
            self.usage |= {key: value for key, value in usage.items() if value is not None}

    def calls(self) -> list[Part]:
        """Return the calls of the application's tools."""
        return [block.part for _, block in self.blocks if block.part.fields["part_kind"] == "tool-call"]

    def settle(self, names: Fields, *, whole: bool) -> None:
        """Finish the message: order its parts by their indices. `names`: tools of the run by ids of calls."""
        if self.settled:
            return
        self.settled = True
        ordered = [block for _, block in sorted(self.blocks, key=lambda pair: pair[0])]
        self.response.parts[:] = [block.part for block in ordered]
        for block in ordered:
            if whole:
                block.close()
            else:
                block.part.done = False
            fields = block.part.fields
            if fields["part_kind"] == "builtin-tool-call":
                names[fields["tool_call_id"]] = fields["tool_name"]
            elif fields["part_kind"] == "builtin-tool-return":
                fields["tool_name"] = names.get(fields["tool_call_id"]) or block.kind.removesuffix(RESULT)
        self.response.closed = whole
        if self.stop_reason in FINISH_REASONS and not (self.calls() and FINISH_REASONS[self.stop_reason] == "stop"):
            self.response.fields["finish_reason"] = FINISH_REASONS[self.stop_reason]
        note(self.response.fields, {"stop_reason": self.stop_reason})

    def spent(self) -> Fields | None:
        """Return ThreadProtocol's usage: `input_tokens` include those of caches. None if no usage was reported."""
        if not self.usage:
            return None
        counts = [self.usage.get(key) for key in UNCACHED]
        known = [count for count in counts if isinstance(count, int) and not isinstance(count, bool)]
        return {**self.usage, "input_tokens": sum(known)} if known else self.usage

    def _append(self, index: int, block: Block, at: int) -> None:
        self.blocks.append((index, block))
        self.response.parts.append(block.part)
        if self.response.first_part_at is None:
            self.response.first_part_at = at

"""The message of a call: its blocks by their index, its usage, and how it ended.

A block comes whole, or begins empty and grows by deltas, and becomes a part of the response. The text of a call's
arguments replaces the input from the block's start. A signature replaces the previous one; text is appended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part
from pipeline.dialects import ends
from pipeline.dialects.anthropic.keys import note
from pipeline.dialects.wire_values import number_or_none, tell_names, text_or_empty, text_or_none
from pipeline.turns.arguments import arguments
from pipeline.turns.text import join
from pipeline.turns.tokens import SUMMED_CALLS, TIERS, normal
from topics.json_text import Fields, list_of, objects

IDENTITY: Final = {"id": "provider_response_id", "model": "model_name"}
READ_KEYS: Final = frozenset({"id", "type", "role", "model", "content", "usage", "stop_reason"})
WRITTEN: Final = "cache_creation_input_tokens"
UNCACHED: Final = ("input_tokens", WRITTEN, "cache_read_input_tokens")
BESIDE: Final = {"compaction": "compaction", "advisor_message": "advisor"}  # iterations not in the message's usage
FALLBACK: Final = "fallback_message"  # the iteration of the model that served after another had declined
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
class MessageAnswer:
    """One message. `names`: tools of the run by ids of calls.

    `blocks`: (index, block) in the order in which they began, those of the start first.
    """

    response: Message
    provider: str
    names: Fields
    blocks: list[tuple[int, Block]] = field(default_factory=list)
    usage: Fields = field(default_factory=dict)
    asides: list[Message] = field(default_factory=list)  # responses beside it, in the order of its iterations
    stop_reason: Any = None
    settled: bool = False

    def start(self, message: Fields, at: int) -> None:
        """Apply `message_start`, or a whole message."""
        tell_names(self.response.fields, message, IDENTITY)
        self.end(message, message.get("usage"))
        for block in list_of(message.get("content")):
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
        for number, block in reversed(self.blocks):
            if number == index:
                return block
        return None

    def end(self, delta: Fields, usage: Any) -> None:
        """Apply `message_delta`: stop reason and usage; a null count, or a zero, leaves the previous one."""
        self.stop_reason = text_or_none(delta.get("stop_reason"))
        note(self.response.fields, {key: value for key, value in delta.items() if key not in READ_KEYS})
        if isinstance(usage, dict):
            self.usage = merged(self.usage, usage)
            for iteration in self._iterations():
                if iteration.get("type") == FALLBACK and isinstance(iteration.get("model"), str):
                    self.response.fields["model_name"] = iteration["model"]

    def calls(self) -> list[Part]:
        """Return the calls of the application's tools."""
        return [block.part for _, block in self.blocks if block.part.fields["part_kind"] == "tool-call"]

    def settle(self, *, whole: bool) -> None:
        """Finish the message: order its parts by their indices."""
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
                self.names[fields["tool_call_id"]] = fields["tool_name"]
            elif fields["part_kind"] == "builtin-tool-return":
                fields["tool_name"] = self.names.get(fields["tool_call_id"]) or block.kind.removesuffix(RESULT)
        self.response.closed = whole
        ends.tell(self.response.fields, ends.ANTHROPIC, self.stop_reason)
        if self.stop_reason in ("end_turn", "stop_sequence") and not self.calls():
            self.response.fields["finish_reason"] = "stop"
        note(self.response.fields, {"stop_reason": self.stop_reason})

    def spent(self) -> Fields | None:
        """Return ThreadProtocol's usage: `input_tokens` include those of caches. None if no usage was reported."""
        if not self.usage:
            return None
        kinds = [iteration.get("type") for iteration in self._iterations()]
        summed = kinds.count("message") > 1 and FALLBACK not in kinds  # a declined attempt is not in the usage
        return with_caches(self.usage) | ({SUMMED_CALLS: True} if summed else {})

    def _iterations(self) -> list[Fields]:
        return objects(self.usage.get("iterations"))

    def _append(self, index: int, block: Block, at: int) -> None:
        self.blocks.append((index, block))
        self.response.parts.append(block.part)
        if self.response.first_part_at is None:
            self.response.first_part_at = at


def merged(before: Fields, usage: Fields) -> Fields:
    """Return a usage object with newer counts; a null, or a zero behind a count, leaves what was known."""
    both = dict(before)
    for key, value in usage.items():
        known = both.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            both[key] = merged(known, value)
        elif value is not None and (value or not known):
            both[key] = value
    return both


def with_caches(usage: Fields) -> Fields:
    """Return a usage object whose `input_tokens` include the tokens of caches; the API's exclude them."""
    usage = with_written(usage)
    known = [count for key in UNCACHED if (count := number_or_none(usage.get(key))) is not None]
    return {**usage, "input_tokens": sum(known)} if known else usage


def with_written(usage: Fields) -> Fields:
    """Return a usage object with the sum of the cache writes, where the API has only those of each lifetime."""
    written = usage.get("cache_creation")
    if not isinstance(written, dict) or usage.get(WRITTEN):
        return usage
    counts = [count for value in written.values() if (count := number_or_none(value)) is not None]
    return {**usage, WRITTEN: sum(counts)} if counts else usage


def set_apart(builder: Builder, usage: Fields, provider: str | None, model: Any, known: list[Message]) -> None:
    """Add the calls that the usage of a message does not include as responses beside it, or set their usage anew.

    `known`: those that were added before, in the order of the iterations. `model`: the message's.
    """
    served: Fields = {key: usage[key] for key in TIERS if key in usage}
    beside = [call for call in objects(usage.get("iterations")) if str(call.get("type")) in BESIDE]
    for number, iteration in enumerate(beside):
        counts = {key: value for key, value in iteration.items() if key not in ("type", "model")}
        spent = normal({**served, **with_caches(counts)})
        if number < len(known):
            known[number].fields["usage"] = spent
            continue
        named = next((name for name in (iteration.get("model"), model) if isinstance(name, str)), None)
        known.append(builder.beside(BESIDE[iteration["type"]], spent, model=named, provider=provider))


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
        opened.citations += list_of(block.get("citations"))
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

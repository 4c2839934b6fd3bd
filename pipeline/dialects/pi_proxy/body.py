"""One SSE body of pi's proxy: the blocks of its message, and the request that it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline.assembly.dialect import Violation
from pipeline.dialects.pi_agent.messages import Said
from pipeline.turns.text import join
from threadmill.envelope import loads
from threadmill.errors import InvalidRecord
from topics.json_text import Fields


@dataclass(slots=True, eq=False)
class Block:
    """One content block: its fields, and the deltas of its text or arguments."""

    fields: Fields
    chunks: list[str] = field(default_factory=list)
    ended: bool = False


@dataclass(slots=True, eq=False)
class Body:
    """One SSE body: what it answers, and what came of it. `over`: its terminal event was there, or its client threw."""

    request: Any
    model: Fields
    blocks: dict[int, Block] = field(default_factory=dict)
    first_part_at: int | None = None
    over: bool = False
    calls_tools: bool = False  # it is complete, and its client goes on with the results


def new_messages(body: Fields) -> list[Said]:
    """What a request says behind the last answer."""
    context = body.get("context")
    messages = context.get("messages") if isinstance(context, dict) else None
    tail: list[Said] = []
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            continue
        if message["role"] == "assistant":
            tail.clear()
        elif message["role"] != "system":
            tail.append(Said(message))
    return tail


def content(block: Block) -> Fields:
    """Block -> content of a pi message. Violation where the arguments are no JSON."""
    kind = block.fields["type"]
    if kind != "toolCall":
        return {**block.fields, kind: join(block.chunks)}
    if "arguments" in block.fields:
        return block.fields
    text = join(block.chunks)
    try:
        return {**block.fields, "arguments": loads(text.encode()) if text.strip() else {}}
    except InvalidRecord as error:
        raise Violation(f"the arguments of {block.fields['name']} are incomplete: {error.detail}") from None

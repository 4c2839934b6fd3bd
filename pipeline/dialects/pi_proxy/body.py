"""One SSE body of pi's proxy: the blocks of its message, and the request that it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline.dialects.pi_agent.messages import Received
from pipeline.dialects.pi_agent.unfinished import Block
from pipeline.turns.lineage import History
from pipeline.turns.text import join
from topics.json_text import Fields
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import loads


@dataclass(slots=True, eq=False)
class Body:
    """One SSE body: its request and its blocks. `over`: a terminal event came, or pi's client would have thrown."""

    request: Any
    model: Fields
    blocks: dict[int | str, Block] = field(default_factory=dict)
    first_part_at: int | None = None
    over: bool = False
    whole: bool = False  # `done` came
    calls_tools: bool = False  # it is complete, and the client's next request has the results


def new_messages(body: Fields) -> list[Received]:
    """Return the messages of a request body after the assistant's last."""
    tail: list[Received] = []
    for message in repeated(body).messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            continue
        if message["role"] == "assistant":
            tail.clear()
        elif message["role"] != "system":
            tail.append(Received(message))
    return tail


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats."""
    context = body.get("context") if isinstance(body, dict) else None
    messages = context.get("messages") if isinstance(context, dict) else None
    return History(messages if isinstance(messages, list) else ())


def content(block: Block) -> Fields:
    """Return a block as a content block of a pi message. Arguments that are not JSON stay a text."""
    kind = block.fields["type"]
    if kind != "toolCall":
        return {**block.fields, kind: join(block.chunks)}
    if "arguments" in block.fields:
        return block.fields
    text = join(block.chunks)
    try:
        return {**block.fields, "arguments": loads(text.encode()) if text.strip() else {}}
    except InvalidRecord:
        return {**block.fields, "arguments": text}

"""What an interrupted turn had shown and does not keep: the value of its `meta:partial`.

    {"messages": [{"message_type", "timestamp", "agent_id", "usage"?, "parts"}, ...]}

Messages have the form of the turn's own, and hold what `pipeline.assembly.agent_turn` leaves out: texts, thoughts and
calls that never got their end (each marked `meta:unfinished`), and whole responses whose calls were not all answered.
A response that stays in no part has its usage here, which the turn's total counts.
Arguments that broke off are {"INVALID_JSON": text}. Like all of `meta:*`, it is outside of the canonical hash.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pipeline.assembly.parts import Message, Part
from pipeline.turns import tokens
from pipeline.turns.arguments import arguments
from pipeline.turns.text import join, mend
from pipeline.turns.times import iso
from topics.json_text import Fields

UNFINISHED: Final = "meta:unfinished"


def partial(agent_id: str, messages: Sequence[tuple[Message, list[Part]]], kept: Collection[int]) -> Fields | None:
    """-> the value of `meta:partial`; None where nothing was lost.

    `messages`: those of the turn, each with the parts that it had before incomplete cycles were dropped. `kept`: the
    `id()` of the messages that stay.
    """
    found: list[Fields] = []
    clock = 0
    for message, parts in messages:
        if message.kind == "system":
            continue
        stay = {id(part) for part in message.parts if part.done} if id(message) in kept else set()
        lost = [fields for part in parts if id(part) not in stay and (fields := _shown(part)) is not None]
        clock = max(clock, message.at)
        if lost:
            head: Fields = {"message_type": message.kind, "timestamp": iso(clock), "agent_id": agent_id}
            usage = message.fields.get("usage")
            if isinstance(usage, dict) and id(message) not in kept:
                head["usage"] = tokens.normal(usage)
            found.append({**head, "parts": lost})
    return {"messages": found} if found else None


def _shown(part: Part) -> Fields | None:
    """A part as far as it came; None where it has no content."""
    fields = part.fields if part.done else {**part.fields, UNFINISHED: True}
    received_text = join(part.chunks)
    if fields["part_kind"] in ("text", "thinking"):
        content = mend(fields.get("content") or "") + received_text
        return {**fields, "content": content} if content else None
    if "args" in fields and not part.done and fields["args"] is None:
        return {**fields, "args": arguments(received_text)}
    return fields

"""Calls with the same id in one response, as from servers that number calls, and from joined histories."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.parts import Message, Part

CALL: Final = "tool-call"


def awaiting(response: Message, request: Message | None, call_id: str) -> Part | None:
    """Return the call of `response` that the next result with this id answers; `request` has the results so far.

    None if only one call has the id, or each of them has its result: then the newest result counts.
    """
    calls = [
        part for part in response.parts if part.done and _is_of(part, call_id) and part.fields["part_kind"] == CALL
    ]
    answered = sum(_is_of(part, call_id) for part in request.parts) if request is not None else 0
    return calls[answered] if answered < len(calls) and len(calls) > 1 else None


def _is_of(part: Part, call_id: str) -> bool:
    return bool(part.fields.get("tool_call_id") == call_id)

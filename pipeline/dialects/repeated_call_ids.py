"""Calls with the same id in one response, as from servers that number calls, and from joined histories."""

from __future__ import annotations

from pipeline.assembly.parts import Message, Part


def awaiting(response: Message, request: Message | None, call_id: str) -> Part | None:
    """Return the call of `response` that the next result with this id answers; `request` has the results so far.

    None if only one call has the id, or each of them has its result: then the newest result counts.
    """
    calls = [part for part in response.parts if part.done and part.fields.get("tool_call_id") == call_id]
    calls = [part for part in calls if part.fields["part_kind"] == "tool-call"]
    answers = request.parts if request is not None else []
    answered = sum(part.fields.get("tool_call_id") == call_id for part in answers)
    return calls[answered] if answered < len(calls) and len(calls) > 1 else None

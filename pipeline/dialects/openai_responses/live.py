"""What a stream of the Responses API tells while it comes, to those who don't assemble it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.assembly.dialect import Shown, StreamEnd


def recognises(event: Any) -> bool | None:
    """`error` is a type of other protocols, too, and so are the requests of other servers; a whole answer has none."""
    match event:
        case {"type": "error"}:
            return "sequence_number" in event or ("code" in event and "message" in event)
        case {"type": "threadmill.request", "request": {"messages": _}}:
            return False
        case {"object": "response"}:
            return True
    return None


def shows(event: Any) -> Sequence[Shown]:
    """Text and thoughts as they come, and the calls of tools."""
    match event:
        case {"type": "response.output_text.delta" | "response.refusal.delta", "delta": str(text)}:
            return [Shown("text", text)]
        case {"type": "response.reasoning_summary_text.delta" | "response.reasoning_text.delta", "delta": str(text)}:
            return [Shown("thinking", text)]
        case {"type": "response.output_item.added", "item": {"type": str(kind), "name": str(name)}} if kind.endswith(
            "_call"
        ):
            return [Shown("tool", name)]
        case {"type": "response.output_item.added", "item": {"type": str(kind)}} if kind.endswith("_call"):
            return [Shown("tool", kind.removesuffix("_call"))]
    return ()


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """`response.completed` and `response.incomplete` are ends of a call; the next one begins anew."""
    match event:
        case {"type": "response.completed" | "response.incomplete"} | {"object": "response", "status": "completed"}:
            return "complete"
        case {"type": "threadmill.request" | "threadmill.error"}:
            return None
        case {"type": "response.failed" | "error"} if before is None:
            return None
    return before

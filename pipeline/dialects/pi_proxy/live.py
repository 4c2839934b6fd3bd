"""What a stream of pi's proxy tells while it comes, to those who don't assemble it."""

from __future__ import annotations

from typing import Any

from pipeline.assembly.dialect import StreamEnd


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """`done` is the end of a body; a run that calls tools goes on with the `start` of the next one."""
    match event:
        case {"type": "done"}:
            return "complete"
        case {"type": "start"}:
            return None
    return before

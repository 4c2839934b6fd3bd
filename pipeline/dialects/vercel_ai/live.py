"""What a UI message stream tells while it comes, to those who don't assemble it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Shown, StreamEnd

# With these, `useChat({resume: true})` takes up a stream.
RESUME_HEADERS: Final = {"x-vercel-ai-ui-message-stream": "v1"}


def shows(event: Any) -> Sequence[Shown]:
    """Text and thoughts as they come, and the calls of tools."""
    match event:
        case {"type": "text-delta", "delta": str(text)}:
            return [Shown("text", text)]
        case {"type": "reasoning-delta", "delta": str(text)}:
            return [Shown("thinking", text)]
        case {"type": "tool-input-available", "toolName": str(name)}:
            return [Shown("tool", name)]
    return ()


def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    """`finish` and `abort` are ends; a `start` behind them begins anew."""
    match event:
        case {"type": "finish"}:
            return "complete"
        case {"type": "abort"}:
            return "aborted"
        case {"type": "start"}:
            return None
    return before

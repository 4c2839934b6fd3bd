"""What the wire `thread-protocol` can't carry, and what becomes of it."""

from __future__ import annotations

from typing import Final

# For readers of the docs: what is lost -> what Turnmill does instead. Nothing of a turn's content is lost.
LOSSES: Final = {
    "a first request that repeats the user turn before it": "read once; `export --repeat-user-prompt` writes it",
    "`finish_reason: tool_calls`": "read as `tool_call`",
    "a turn that breaks the specification": "refused: a dead letter that says where",
}

"""The last events of a stream whose run was stopped, in the form that the client's SDK expects. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

ENDS: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "vercel-ai": ({"type": "abort"},),
    "ag-ui": ({"type": "RUN_ERROR", "code": "run_stopped"},),
}


def stopped_events(dialect: str, why: str) -> list[dict[str, Any]]:
    """Return the last events of a stream; none if the wire has no such event, and the stream just breaks off."""
    return [{**event, "message": why} if "code" in event else event for event in ENDS.get(dialect, ())]


def stopped_end(dialect: str, why: str) -> bytes:
    """Return the same as Server-Sent Events, with the marker by which the SDK ends a stream."""
    last = b"data: [DONE]\n\n" if dialect == "vercel-ai" else b""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in stopped_events(dialect, why)) + last

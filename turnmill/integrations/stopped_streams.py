"""The end of an event stream whose run was stopped, as the client's SDK ends one. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

ENDS: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "vercel-ai": ({"type": "abort"},),
    "ag-ui": ({"type": "RUN_ERROR", "code": "run_stopped"},),
}


def stopped_events(dialect: str, why: str) -> list[dict[str, Any]]:
    """Return the last events of a stream; none where the wire has no word for it: it ends without its end."""
    return [{**event, "message": why} if "code" in event else event for event in ENDS.get(dialect, ())]


def stopped_end(dialect: str, why: str) -> bytes:
    """Return the same as Server-Sent Events, with what its SDK closes a stream by."""
    last = b"data: [DONE]\n\n" if dialect == "vercel-ai" else b""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in stopped_events(dialect, why)) + last

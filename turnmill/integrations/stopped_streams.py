"""The end of an event stream whose run was stopped, as the client's SDK ends one. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

ENDS: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "vercel-ai": ({"type": "abort"},),
    "ag-ui": ({"type": "RUN_ERROR", "code": "run_stopped"},),
}


def stopped_end(dialect: str, why: str) -> bytes:
    """Return the last events of a stream; nothing where the wire has no word for it: it ends without its end."""
    said = [{**event, "message": why} if "code" in event else event for event in ENDS.get(dialect, ())]
    last = b"data: [DONE]\n\n" if dialect == "vercel-ai" else b""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in said) + last

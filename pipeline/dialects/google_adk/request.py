"""What the user said to start a run, from the body that ADK's server was called with (`run.request`).

Known bodies: of `/run_sse` and `/run` ({"newMessage": Content, …}), a Content, a text.
"""

from __future__ import annotations

from typing import Any

from pipeline.dialects.google_adk.event import USER, Event, read


def new_message(body: Any) -> Event | None:
    """The body's message as an event of the user's; None where the body has another shape."""
    if isinstance(body, str):
        return read({"author": USER, "content": {"parts": [{"text": body}]}})
    if not isinstance(body, dict):
        return None
    content = body.get("newMessage", body.get("new_message", body if "parts" in body else None))
    return read({"author": USER, "content": content}) if isinstance(content, dict) else None

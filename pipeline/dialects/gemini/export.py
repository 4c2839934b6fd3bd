"""Thread document -> contents, as `generate_content(contents=…)` and the history of a chat take them.

They are the contents of an ADK session's events. Consecutive contents of one role are joined.
"""

from __future__ import annotations

from pipeline.dialects.google_adk.export import events
from topics.json_text import Fields


def contents(document: Fields) -> list[Fields]:
    """Return a thread's contents, oldest first, in turns of user and model."""
    found: list[Fields] = []
    for event in events(document):
        content = event.get("content")
        if content is None or not content["parts"]:
            continue
        if found and found[-1]["role"] == content["role"]:
            found[-1]["parts"] += content["parts"]
        else:
            found.append({"role": content["role"], "parts": list(content["parts"])})
    return found

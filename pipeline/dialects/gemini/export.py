"""Thread document -> contents, as `generate_content(contents=…)` and the history of a chat take them.

They are the contents of an ADK session's events. Consecutive contents of one role are joined.
"""

from __future__ import annotations

from pipeline.dialects.google_adk.export import events
from topics.json_text import Fields


def contents(document: Fields) -> list[Fields]:
    """Return a thread's contents, oldest first, in turns of user and model."""
    contents: list[Fields] = []
    for event in events(document):
        content = event.get("content")
        if content is None or not content["parts"]:
            continue
        if contents and contents[-1]["role"] == content["role"]:
            contents[-1]["parts"] += content["parts"]
        else:
            contents.append({"role": content["role"], "parts": list(content["parts"])})
    return contents

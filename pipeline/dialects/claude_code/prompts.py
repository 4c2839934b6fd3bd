"""The prompt of a run's request, which has several shapes; content blocks are those of the Messages API."""

from __future__ import annotations

from typing import Any

from pipeline.dialects.anthropic.request import parts
from topics.json_text import Fields


def prompts(content: Any) -> list[Fields]:
    """Return the user's prompts in a text, or in content blocks."""
    return parts({"role": "user", "content": content})


def asked(request: Any) -> list[Fields]:
    """Return the prompt in the body with which a run was started.

    The body is a text, a user line, a message, or options with a prompt.
    """
    match request:
        case str(text) | {"prompt": str(text)}:
            return prompts(text)
        case {"message": {"content": content}} | {"role": "user", "content": content}:
            return [part for part in prompts(content) if part["part_kind"] != "tool-return"]
    return []

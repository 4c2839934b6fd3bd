"""The thread document itself, as the export format `thread`."""

from __future__ import annotations

from topics.json_text import Fields
from topics.thread_versions import repeat_user_prompt as with_user_prompts


def document(thread: Fields, *, repeat_user_prompt: bool = False) -> Fields:
    """Return the document as it is; with `repeat_user_prompt`, agent turns begin with the user's words."""
    return with_user_prompts(thread) if repeat_user_prompt else thread

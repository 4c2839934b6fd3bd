"""ThreadProtocol itself, as a wire and as the format of whole threads."""

from typing import Final

from pipeline.assembly.dialect import Format
from pipeline.dialects.records import dialect
from topics.json_text import Fields
from topics.thread_versions import repeat_user_prompt as with_user_prompts


def document(thread: Fields, *, repeat_user_prompt: bool = False) -> Fields:
    """Return the document as it is; with `repeat_user_prompt`, agent turns begin with the user's words."""
    return with_user_prompts(thread) if repeat_user_prompt else thread


DIALECT: Final = dialect(
    __name__,
    ended=lambda event, before: "complete",  # each event is whole, so a stream may stop after any
    formats=(Format("thread", document, options={"repeat_user_prompt": bool}, is_document=True),),
)

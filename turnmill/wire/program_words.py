"""Words that Claude Code 2.1 writes in the user's name into its requests: nobody has said them. Pure."""

import re
from typing import Any, Final

# Commands of the program with their output, the summary that replaces a compacted history, and reminders.
NOTE: Final = re.compile(
    r"""\s*(?:
        <(?:local-command-|command-name>|command-message>|bash-) |
        This[ ]session[ ]is[ ]being[ ]continued[ ]from[ ]a[ ]previous[ ]conversation |
        <system-reminder>(?s:.*)</system-reminder>\s*\Z
    )""",
    re.VERBOSE,
)
# What the program asks the model on its own, behind the whole history -> the purpose of the answer.
PURPOSES: Final = {"[SUGGESTION MODE:": "suggestion", "CRITICAL: Respond with TEXT ONLY": "compaction"}
BEGINNINGS: Final = tuple(PURPOSES)


def is_note(text: str) -> bool:
    """Return True if a program wrote this text."""
    return NOTE.match(text) is not None


def purpose_of(message: Any) -> str | None:
    """Return the purpose of a request whose last message, which may be any JSON, is a program's; else None."""
    match message:
        case {"role": "user", "content": str(text) | [{"type": "text", "text": str(text)}]}:
            if text.startswith(BEGINNINGS):
                return next(purpose for beginning, purpose in PURPOSES.items() if text.startswith(beginning))
    return None

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
# What the program asks on its own, by how that begins and what it contains -> the purpose of the answer.
PURPOSES: Final = {
    ("[SUGGESTION MODE:", ""): "suggestion",
    ("CRITICAL: Respond with TEXT ONLY", ""): "compaction",
    ("<session>\n", "\n</session>\n\nWrite the title in"): "title",
}


def is_note(text: str) -> bool:
    """Return True if a program wrote this text."""
    return NOTE.match(text) is not None


def purpose_of(messages: Any) -> str | None:
    """Return the purpose of a request whose last message is a program's; None for one of the conversation."""
    match messages[-1] if isinstance(messages, list) and messages else None:
        case {"role": "user", "content": str(text) | [{"type": "text", "text": str(text)}]}:
            return next((why for (a, b), why in PURPOSES.items() if text.startswith(a) and b in text), None)
    return None

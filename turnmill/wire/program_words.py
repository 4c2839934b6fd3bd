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
# What the program asks on its own, by the purpose of the answer.
PURPOSE: Final = re.compile(
    r"""(?P<suggestion>\[SUGGESTION[ ]MODE:) |
        (?P<compaction>CRITICAL:[ ]Respond[ ]with[ ]TEXT[ ]ONLY) |
        (?P<title><session>\n(?s:.*)\n</session>\n\nWrite[ ]the[ ]title[ ]in)
    """,
    re.VERBOSE,
)


def is_note(text: str) -> bool:
    """Return True if a program wrote this text."""
    return NOTE.match(text) is not None


def purpose_of(messages: Any) -> str | None:
    """Return the purpose of a request whose last message is a program's; None for one of the conversation."""
    last = messages[-1] if isinstance(messages, list) and messages else None
    content = last.get("content") if isinstance(last, dict) and last.get("role") == "user" else None
    if isinstance(content, list):
        content = content[0].get("text") if len(content) == 1 and isinstance(content[0], dict) else None
    asked = PURPOSE.match(content) if isinstance(content, str) else None
    return asked and asked.lastgroup

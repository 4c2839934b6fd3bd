"""Words that Claude Code 2.1 writes in the user's name into its requests: nobody has said them. Pure."""

from typing import Any, Final

REMINDER: Final = ("<system-reminder>", "</system-reminder>")
# Commands of the program with their output, and the summary that replaces a compacted history.
NOTES: Final = (
    *("<local-command-", "<command-name>", "<command-message>", "<bash-"),
    "This session is being continued from a previous conversation",
)
# What the program asks the model on its own, behind the whole history -> the purpose of the answer.
PURPOSES: Final = {"[SUGGESTION MODE:": "suggestion", "CRITICAL: Respond with TEXT ONLY": "compaction"}
BEGINNINGS: Final = tuple(PURPOSES)


def is_note(text: str) -> bool:
    """Return True if a program wrote this text."""
    text = text.strip()
    return text.startswith(NOTES) or (text.startswith(REMINDER[0]) and text.endswith(REMINDER[1]))


def purpose_of(messages: Any) -> str | None:
    """Return the purpose of a request whose last message is a program's; None if it goes on with the conversation."""
    match messages:
        case [*_, {"role": "user", "content": str(text) | [{"type": "text", "text": str(text)}]}]:
            if text.startswith(BEGINNINGS):
                return next(purpose for beginning, purpose in PURPOSES.items() if text.startswith(beginning))
    return None

"""Masks the error texts of a turn, which often quote a request, or reveal the systems behind the agent."""

import re
from typing import Any, Final

from topics.json_text import Fields

GENERIC: Final = "An error occurred."
ERROR_EVENT: Final = re.compile(r"(?:.*[-_.])?error", re.IGNORECASE | re.DOTALL)
FAILED: Final = frozenset({"error", "validation_error", "failed"})
KEPT_OF_EVENT: Final = frozenset({"code", "type", "timestamp", "agent_id", "tool_call_id", "retryable"})
KEPT_OF_END: Final = frozenset({"reason", "interrupted_at"})


def masked(turn: Fields, notes: Fields) -> tuple[Fields, Fields, int]:
    """Return a turn and its notes with generic error texts, and the number of texts replaced in the turn.

    Error texts are: why a turn was interrupted, data of error events, results of failed tools, and prompts to retry;
    also repetitions of these in notes (`meta:*`, `metadata`). Codes and reasons are kept.
    """
    mask = _Mask()
    changed = mask.turn(turn)
    if not mask.count:
        return turn, notes, 0
    return mask.without_repeats(changed), mask.without_repeats(notes, note=True), mask.count


class _Mask:
    """Masks texts. `texts`: the masked texts, `count`: the number of replacements."""

    def __init__(self) -> None:
        self.count = 0
        self.texts: set[str] = set()

    def turn(self, turn: Fields) -> Fields:
        changed = dict(turn)
        if isinstance(turn.get("interruption"), dict):
            changed["interruption"] = self.members(turn["interruption"], KEPT_OF_END)
        if isinstance(turn.get("messages"), list):
            changed["messages"] = [self.message(message) for message in turn["messages"]]
        return self.parts(changed)

    def message(self, message: Any) -> Any:
        if not isinstance(message, dict):
            return message
        if message.get("message_type") == "system" and ERROR_EVENT.fullmatch(str(message.get("event_type"))):
            data = message.get("event_data")
            hidden = self.members(data, KEPT_OF_EVENT) if isinstance(data, dict) else self.value(data)
            return {**message, "event_data": hidden}
        return self.parts(message)

    def parts(self, owner: Fields) -> Fields:
        parts = owner.get("parts")
        return {**owner, "parts": [self.part(part) for part in parts]} if isinstance(parts, list) else owner

    def part(self, part: Any) -> Any:
        if not isinstance(part, dict) or "content" not in part:
            return part
        failed = part.get("part_kind") == "retry-prompt" or {part.get("status"), part.get("outcome")} & FAILED
        return {**part, "content": self.value(part["content"])} if failed else part

    def members(self, fields: Fields, kept: frozenset[str]) -> Fields:
        return {key: value if key in kept else self.value(value) for key, value in fields.items()}

    def value(self, value: Any) -> Any:
        """Return the generic text in place of an error text; numbers and empty values are kept."""
        if value is None or isinstance(value, bool | int | float) or value in ("", GENERIC):
            return value
        if isinstance(value, str):
            self.texts.add(value)
        self.count += 1
        return GENERIC

    def without_repeats(self, value: Any, *, note: bool = False) -> Any:
        """Return a value with the masked texts also masked wherever a note repeats them."""
        if isinstance(value, dict):
            changed = {}
            for key, member in value.items():
                noted = note or key == "metadata" or key.startswith("meta:")
                searched = noted or key in ("messages", "parts")
                changed[key] = self.without_repeats(member, note=noted) if searched else member
            return changed
        if isinstance(value, list):
            return [self.without_repeats(member, note=note) for member in value]
        return GENERIC if note and isinstance(value, str) and value in self.texts else value

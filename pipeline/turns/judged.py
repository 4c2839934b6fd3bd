"""Selects turns by feedback: a condition such as `helpful>=1`, and the turns of a thread that meet it. Pure."""

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from topics.feedback import FeedbackRecord
from topics.json_text import Fields
from turnmill.wire.feedback_record import problem_of

COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
FORM: Final = re.compile(r"([^<>=!]+)(>=|<=|!=|=|>|<)(?!=)(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on feedback of a name."""

    name: str
    sign: str
    value: Any

    def holds(self, record: FeedbackRecord) -> bool:
        """Return True if feedback meets the condition; a text is never greater or less than a number."""
        value = record["value"]
        if record["name"] != self.name or isinstance(value, str) is not isinstance(self.value, str):
            return False
        return COMPARED[self.sign](value, self.value)


def condition(text: str) -> Condition:
    """Return the condition of a text, `NAME>=VALUE`; a value that is not JSON is a string. Raises ValueError."""
    match = FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"NAME>=VALUE is expected (or <=, >, <, =, !=), not {text!r:.80}")
    name, sign, operand = (piece.strip() for piece in match.groups())
    try:
        value = json.loads(operand)
    except ValueError:
        value = operand
    problem = problem_of({"id": "-", "thread_id": "-", "name": name, "value": value})
    if problem is not None or value is None:
        raise ValueError(problem or "value is a number, a text, true or false")
    return Condition(name, sign, value)


def is_about(record: FeedbackRecord, turn: Fields) -> bool:
    """Return True if feedback is about this turn, or about its whole thread."""
    turn_id, run_id = record.get("turn_id"), record.get("run_id")
    if turn_id is not None:
        return turn_id == turn.get("meta:turn_id")
    return run_id is None or run_id == turn.get("meta:run_id")


def chosen(turns: Iterable[Fields], feedback: Sequence[FeedbackRecord], wanted: Condition) -> list[Fields]:
    """Return the turns that meet a condition, in their order."""
    good = [entry for entry in feedback if wanted.holds(entry)]
    return [turn for turn in turns if any(is_about(entry, turn) for entry in good)]


def score(turn: Fields, feedback: Iterable[FeedbackRecord], name: str | None) -> float | None:
    """Return the mean of numeric feedback on the turn itself, None without any. `name`: only feedback of this name."""
    numbers = [
        float(entry["value"])
        for entry in feedback
        if isinstance(entry["value"], bool | int | float)
        and name in (None, entry["name"])
        and (entry.get("turn_id") or entry.get("run_id"))
        and is_about(entry, turn)
    ]
    return sum(numbers) / len(numbers) if numbers else None

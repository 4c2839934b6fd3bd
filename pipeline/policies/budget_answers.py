"""People's answers to budgets that ask whether more may be used. Pure.

The question belongs to a separate thread, `budget:NAME`, so that all its answers are in one partition of the control
topic. The first answer counts, for the rest of the budget's hour, day or month.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pipeline.policies.budgets import Budget
from turnmill.control.answer_forms import approves
from turnmill.control.record import Command
from turnmill.identity import thread_uuid

PREFIX: Final = "budget:"


def thread_of(budget: Budget) -> tuple[str, str]:
    """Return the thread of a budget's question: its id, and its name."""
    name = PREFIX + budget.name
    return thread_uuid(name, budget.tenant or None)[0], name


class BudgetAnswers:
    """The answer to the newest question of each budget. `take` is called in the order of the topic."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        asking = [budget for budget in budgets if budget.enforce == "ask"]
        self._of_thread = {(budget.tenant or None, thread_of(budget)[0]): budget for budget in asking}
        self._first: dict[str, Command] = {}  # by the budget's name

    def take(self, command: Command, now: int) -> Command | None:
        """Note an answer. Return the first answer to its question; None if no budget asks that now."""
        budget = self._of_thread.get((command.tenant, command.thread_id))
        if budget is None or command.payload["answer_id"] != budget.question(now):
            return None
        first = self._first.get(budget.name)
        if first is None or first.payload["answer_id"] != command.payload["answer_id"]:
            first = self._first[budget.name] = command
        return first

    def approved(self, budget: Budget, now: int) -> bool | None:
        """Return the answer; None if nobody has answered, or the budget does not ask."""
        first = self._first.get(budget.name)
        if first is None or first.payload["answer_id"] != budget.question(now):
            return None
        return approves(first.payload.get("value"))

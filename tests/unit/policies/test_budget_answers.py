"""Answers to budgets that ask: which one counts, for how long, and whose budget it is for."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.policies.budgets import Budget, BudgetAnswers, Per, thread_of
from turnmill.control.record import ANSWER, NOW, Command
from turnmill.wire.envelope import encode

HOUR, DAY = 3_600_000, 86_400_000
MONTH = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1000)


def asking(per: Per = "hour", **more: Any) -> Budget:
    return Budget(**{"name": "b", "unit": "tokens", "limit": 100, "per": per, "enforce": "ask", **more})


def answer(budget: Budget, now: int, value: Any, tenant: str | None = None, answer_id: str | None = None) -> Command:
    payload = {"answer_id": answer_id or budget.question(now), "value": value, "asked": {}}
    command_id = f"{value} {now}"
    return Command(command_id, thread_of(budget)[0], "", tenant, ANSWER, NOW, "ann", now, now + DAY, encode(payload))


def test_the_first_answer_counts_for_the_rest_of_the_window() -> None:
    budget = asking()
    answers = BudgetAnswers([budget])
    assert answers.approved(budget, MONTH) is None
    first, second = answer(budget, MONTH, value=True), answer(budget, MONTH + 1, value=False)
    assert [answers.take(one, MONTH + 2) for one in (first, second, first)] == [first] * 3
    assert answers.approved(budget, MONTH + HOUR - 1) is True
    assert answers.approved(budget, MONTH + HOUR) is None
    assert answers.take(second, MONTH + HOUR) is None, "of the hour before"
    late = answer(budget, MONTH + HOUR, {"approved": False, "reason": "no"})
    assert answers.take(late, MONTH + HOUR) == late
    assert answers.approved(budget, MONTH + HOUR) is False


def test_an_answer_given_before_anybody_asked_does_not_count() -> None:
    budget = asking()
    answers = BudgetAnswers([budget])
    payload = encode({"answer_id": budget.question(MONTH), "value": True})
    early = Command("early", thread_of(budget)[0], "", None, ANSWER, NOW, "ann", MONTH, MONTH + DAY, payload)
    assert answers.take(early, MONTH) is None
    assert answers.approved(budget, MONTH) is None


@pytest.mark.parametrize(("value", "approved"), [(True, True), ({"approved": True}, True), ("yes", False), (1, False)])
def test_only_an_approval_approves(value: Any, *, approved: bool) -> None:
    budget = asking()
    answers = BudgetAnswers([budget])
    answers.take(answer(budget, MONTH, value), MONTH)
    assert answers.approved(budget, MONTH) is approved


def test_a_month_asks_again_before_the_topic_forgets_the_answer() -> None:
    budget = asking("month")
    days = [budget.question(MONTH + day * DAY) for day in range(31)]
    assert [days.index(one) for one in dict.fromkeys(days)] == [0, 14, 28]


def test_an_answer_is_for_one_budget() -> None:
    budget, other = asking(tenant="acme"), asking(name="other")
    answers = BudgetAnswers([budget, other, asking(name="stops", enforce="stop")])
    wrong = [
        answer(budget, MONTH, value=True),  # nobody's
        answer(budget, MONTH, True, "globex"),
        answer(budget, MONTH, True, "acme", other.question(MONTH)),
        answer(asking(tenant="acme", limit=200), MONTH, True, "acme"),  # which had another limit
        answer(asking(name="stops"), MONTH, value=True),
    ]
    assert [answers.take(one, MONTH) for one in wrong] == [None] * 5
    assert (answers.approved(budget, MONTH), answers.approved(other, MONTH)) == (None, None)
    right = answer(budget, MONTH, True, "acme")
    assert answers.take(right, MONTH) == right
    assert (answers.approved(budget, MONTH), answers.approved(other, MONTH)) == (True, None)

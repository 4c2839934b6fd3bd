"""Budgets that ask, in a gateway's memory: whether a call may pass, and who sees the question."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.gateway.budgets.memory import Budgets
from pipeline.policies.budgets import Budget, State, thread_of
from pipeline.stores.threads.reading import WaitingWanted
from turnmill.clock import now_ms
from turnmill.control.record import ANSWER, NOW, Command
from turnmill.wire.envelope import encode

ASKS = Budget("b", "tokens", 100, "month", "acme", agent="a", enforce="ask")
REFUSES = Budget("r", "tokens", 100, "month", enforce="refuse")


async def no_store() -> Any:
    raise AssertionError


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Budgets:
    """Budgets of which each look at the store finds what `used` says."""
    gateway: Any = SimpleNamespace(settings=SimpleNamespace(budget_list=(ASKS, REFUSES)), store=no_store)
    memory, used = Budgets(gateway), Counter[str]()

    async def states(*_: Any) -> list[State]:
        return [State(one, used[one.name], *one.window(now_ms())) for one in memory.budgets]

    async def store() -> Any:
        return None

    monkeypatch.setattr("pipeline.gateway.budgets.memory.states", states)
    memory._store = store
    memory.used = used  # type: ignore[attr-defined]
    return memory


def answered(memory: Budgets, *, value: bool) -> None:
    now = now_ms()
    payload = {"answer_id": ASKS.question(now), "value": value, "asked": {}}
    command = Command("c", thread_of(ASKS)[0], "", "acme", ANSWER, NOW, "ann", now, now + 1000, encode(payload))
    assert memory.answers.take(command, now) == command


async def test_a_question_is_open_until_it_is_answered(memory: Budgets) -> None:
    await memory.renew()
    assert memory.verdict("acme", (ASKS,)).allowed
    assert memory.waiting(WaitingWanted()) == []
    memory.used["b"] = 100  # type: ignore[attr-defined]
    await memory.renew()
    verdict = memory.verdict("acme", (ASKS, REFUSES))
    assert (verdict.allowed, verdict.asks) == (False, True)
    [asked] = memory.waiting(WaitingWanted(tenant="acme", agent="a", thread=("", "budget:b")))
    assert (asked.tenant, asked.external_id, asked.asked[0]["kind"]) == ("acme", "budget:b", "approval")
    for other in (
        WaitingWanted("globex"),
        WaitingWanted(""),
        WaitingWanted(agent="x"),
        WaitingWanted(thread=("", "t")),
    ):
        assert memory.waiting(other) == []
    assert not memory.stops(memory.states["b"])
    memory.used["r"] = 100  # type: ignore[attr-defined]
    await memory.renew()
    assert not memory.verdict("acme", (ASKS, REFUSES)).asks, "nobody can allow it"
    answered(memory, value=True)
    assert memory.verdict("acme", (ASKS,)).allowed
    assert memory.waiting(WaitingWanted()) == []


async def test_what_was_denied_is_not_asked_again(memory: Budgets) -> None:
    memory.used["b"] = 100  # type: ignore[attr-defined]
    await memory.renew()
    answered(memory, value=False)
    verdict = memory.verdict("acme", (ASKS,))
    assert (verdict.allowed, verdict.asks, memory.waiting(WaitingWanted())) == (False, False, [])
    assert memory.stops(memory.states["b"])


async def test_a_run_that_is_over_and_not_stored_yet_counts_on(memory: Budgets) -> None:
    open_use = Counter({"acme": 60})
    memory.open_use = lambda budget: open_use if budget == ASKS else {}
    memory.used["b"] = 20  # type: ignore[attr-defined]
    await memory.renew()
    assert memory.states["b"].used == 80
    open_use.clear()
    await memory.renew()
    assert memory.states["b"].used == 80
    memory.used["b"] = 90  # type: ignore[attr-defined]
    await memory.renew()
    assert memory.states["b"].used == 90

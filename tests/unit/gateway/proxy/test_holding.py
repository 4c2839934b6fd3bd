"""Calls that wait for the answer to a budget's question: for how long, how many, and for whom."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from pipeline.gateway.proxy.passing import Holding
from pipeline.policies.budgets import Verdict
from pipeline.policies.pools import HELD

ASKS, DENIED, FREE = Verdict(allowed=False, asks=True), Verdict(allowed=False), Verdict(allowed=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.gateway.proxy.passing.POLL_INTERVAL", 0.01)


async def stays() -> None:
    await asyncio.Future()


async def goes() -> None:
    await asyncio.sleep(0.02)


def budgets(verdict: Verdict) -> Any:
    """Budgets that say this, until a test sets something else."""
    said = SimpleNamespace(now=verdict)
    said.verdict = lambda *_: said.now
    return said


@pytest.mark.parametrize("answer", [FREE, DENIED])
async def test_a_call_goes_on_with_the_answer(answer: Verdict) -> None:
    said = budgets(ASKS)
    held = asyncio.create_task(Holding(said, 60).verdict("acme", (), stays))
    await asyncio.sleep(0.05)
    assert not held.done()
    said.now = answer
    assert await held == answer


async def test_who_is_not_asked_does_not_wait() -> None:
    assert await Holding(budgets(DENIED), 60).verdict("acme", (), stays) == DENIED


async def test_nobody_waits_for_ever() -> None:
    assert await Holding(budgets(ASKS), 0.05).verdict("acme", (), stays) == ASKS


async def test_a_client_that_has_gone_waits_no_longer() -> None:
    holding = Holding(budgets(ASKS), 60)
    with pytest.raises(ClientDisconnect):
        await holding.verdict("acme", (), goes)
    assert holding._room.shares.total == 0


async def test_a_tenant_leaves_room_for_others() -> None:
    holding = Holding(budgets(ASKS), 60)
    while holding._room.take("evil", 1):
        pass
    assert await holding.verdict("evil", (), stays) == ASKS, "at once"
    held = asyncio.create_task(holding.verdict("acme", (), stays))
    await asyncio.sleep(0.05)
    assert not held.done()
    assert holding._room.shares.total <= HELD.size
    held.cancel()

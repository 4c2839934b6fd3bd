"""Budgets over HTTP: from memory, and each tenant its own."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from pipeline.gateway.budgets.memory import Budgets
from pipeline.policies.budgets import NANO, State
from pipeline.settings import Settings
from pipeline.stores.database.errors import StoreError
from tests.support.gateways import Running, Tokens, client, running

BUDGETS = """[{"name": "acme-day", "tenant": "acme", "tokens": 10, "per": "day"},
  {"name": "globex-day", "tenant": "globex", "usd": 5, "per": "day"},
  {"name": "model-hour", "model": "gpt-4o", "tokens": 10, "per": "hour"}]"""


def settings_of(tmp_path: Path, tokens: Tokens) -> Settings:
    return Settings(home=tmp_path, gateway_port=0, gateway_tokens=SecretStr(tokens.setting), budgets=BUDGETS)


def memory_of(settings: Settings, store: Any) -> Budgets:
    gateway: Any = SimpleNamespace(settings=settings, store=store)
    return Budgets(gateway)


def use(gateway: Running, **used: int) -> None:
    """Let so much be used, as the next look at the store would have it."""
    memory: Budgets = gateway.app.state.gateway.service(Budgets)
    now = time.time_ns() // 1_000_000
    memory.budgets = tuple(one for one in memory.budgets if one.name)
    for budget in memory.budgets:
        memory.states[budget.name] = State(budget, used.get(budget.name.replace("-", "_"), 0), *budget.window(now))


def allowed(memory: Budgets, agent: str | None = None, *models: str) -> bool:
    """Return True if a call of acme is allowed."""
    return memory.verdict("acme", memory.counting("acme", agent, models)).allowed


async def test_each_tenant_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.gateway.budgets.memory.QUERY_INTERVAL", 3600.0)
    tokens = Tokens()
    async with running(settings_of(tmp_path, tokens)) as gateway, client(gateway.url, tokens.acme) as acme:
        assert [one["name"] for one in (await acme.get("/v1/budgets")).json()["budgets"]] == ["acme-day"]
        assert (await acme.get("/v1/budgets/check")).json()["allowed"]
        use(gateway, acme_day=10, globex_day=NANO)
        [mine] = (await acme.get("/v1/budgets")).json()["budgets"]
        assert (mine["used"], mine["limit"], mine["ratio"], mine["unit"]) == (10, 10, 1.0, "tokens")
        answer = (await acme.get("/v1/budgets/check", params={"agent": "a"})).json()
        assert (answer["allowed"], answer["exhausted"]) == (False, ["acme-day"])
        async with client(gateway.url, tokens.globex) as globex:
            [mine] = (await globex.get("/v1/budgets")).json()["budgets"]
            assert (mine["name"], mine["used"], mine["unit"]) == ("globex-day", 1.0, "usd")
            assert (await globex.get("/v1/budgets/check")).json()["allowed"]
            assert (await globex.get("/v1/budgets/check", params={"tenant": "acme"})).status_code == 403
            use(gateway, model_hour=11)
            answer = (await globex.get("/v1/budgets/check", params={"model": "gpt-4o-2024-08-06"})).json()
            assert (answer["allowed"], answer["exhausted"]) == (False, []), "everybody's budget is not named"
            assert (await globex.get("/v1/budgets/check", params={"model": "other"})).json()["allowed"]
        async with client(gateway.url, tokens.operator) as operator:
            assert len((await operator.get("/v1/budgets")).json()["budgets"]) == 3
            answer = (await operator.get("/v1/budgets/check", params={"model": "gpt-4o"})).json()
            assert answer["exhausted"] == ["model-hour"]


async def test_who_publishes_or_reads_may_ask(tmp_path: Path) -> None:
    tokens = Tokens()
    async with running(settings_of(tmp_path, tokens)) as gateway:
        document = gateway.app.openapi()["paths"]
        assert document["/v1/budgets/check"]["get"]["security"] == [{"token": ["read"]}, {"token": ["publish"]}]
        for token, listed, asked in ((tokens.sender, 403, 200), (tokens.reader, 200, 200), (tokens.admin, 403, 403)):
            async with client(gateway.url, token) as http:
                assert (await http.get("/v1/budgets")).status_code == listed
                answer = await http.get("/v1/budgets/check")
                assert answer.status_code == asked
        assert "'read'" in answer.text
        assert "'publish'" in answer.text
        async with client(gateway.url) as http:
            assert (await http.get("/v1/budgets/check")).status_code == 401
        async with client(gateway.url, tokens.sender) as http:
            assert (await http.get("/v1/budgets/check", params={"tenant": "globex"})).status_code == 403


async def test_asking_costs_no_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.gateway.budgets.memory.QUERY_INTERVAL", 3600.0)
    tokens = Tokens()
    async with running(settings_of(tmp_path, tokens)) as gateway, client(gateway.url, tokens.operator) as http:
        await http.get("/v1/budgets/check")
        memory: Budgets = gateway.app.state.gateway.service(Budgets)

        async def away() -> None:
            raise StoreError("the store is away", transient=True)

        monkeypatch.setattr(memory, "renew", away)
        assert allowed(memory, "a", "gpt-4o")
        assert (await http.get("/v1/budgets/check")).status_code == 200


async def test_who_asks_while_an_answer_is_on_its_way_waits_for_it(tmp_path: Path) -> None:
    asked: list[asyncio.Future[None]] = []

    async def slow() -> None:
        asked.append(asyncio.get_running_loop().create_future())
        await asked[-1]
        raise StoreError("the store is away", transient=True)

    memory = memory_of(Settings(home=tmp_path, budgets=BUDGETS), slow)
    several = [asyncio.create_task(memory.known()) for _ in range(3)]
    await asyncio.sleep(0.05)
    [answer] = asked
    answer.set_result(None)
    found = await asyncio.gather(*several, return_exceptions=True)
    assert [type(one) for one in found] == [StoreError] * 3
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(memory.renew(), 0.05)
    assert len(asked) == 2
    await memory.close()
    assert asked[1].cancelled()


async def test_what_was_never_known_refuses_nothing_and_says_so(tmp_path: Path) -> None:
    async def away() -> None:
        raise StoreError("the store is away", transient=True)

    memory = memory_of(Settings(home=tmp_path, budgets=BUDGETS), away)
    with pytest.raises(StoreError):
        await memory.known()
    assert allowed(memory)
    await memory.close()
    nothing = memory_of(Settings(home=tmp_path), away)
    await nothing.known()
    assert allowed(nothing)
    await nothing.close()

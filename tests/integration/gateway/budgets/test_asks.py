"""A budget that asks: calls are held until somebody answers, at whichever gateway, and all know the answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import httpx
import pytest
from pydantic import SecretStr

from pipeline.policies.budgets import Budget, State
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from tests.integration.gateway.budgets.test_stops import endless
from tests.support.gateways import Tokens, client, running
from tests.support.upstream import Answering, Asked, Upstream, chat_answer, playing
from tests.support.waiting import PATIENCE, until
from tests.support.workers import WorkerProcess
from turnmill import ClientSettings, Publisher, RunStopped
from turnmill.ending import ended

AGENTS: Final = ("yes", "no", "nobody")
BUDGETS: Final[list[dict[str, Any]]] = [
    {"name": one, "agent": one, "tokens": 100, "per": "month", "enforce": "ask"} for one in AGENTS
]

Gateways = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
async def spoken(applied_settings: Settings) -> AsyncIterator[tuple[Gateways, Upstream, Publisher]]:
    """What starts gateways before an upstream; a worker, and a publisher."""

    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole(chat_answer("Sunny."))

    async with playing(play) as upstream:
        changes = {"control": True, "checkpoint_interval": 0.2, "budgets": json.dumps(BUDGETS), "gateway_port": 0}
        changes["gateway_proxy"] = f"openai={upstream.url}"
        settings = applied_settings.model_copy(update=changes)

        @asynccontextmanager
        async def start(hold: float = 60.0) -> AsyncIterator[httpx.AsyncClient]:
            own = settings.model_copy(update={"gateway_proxy_hold": hold})
            async with running(own) as gateway, client(gateway.url) as http:
                yield http

        worker = WorkerProcess(settings, roles="assemble,store").start()
        known = {"brokers": settings.brokers, "topic_prefix": settings.topic_prefix, "home": settings.home}
        try:
            async with Publisher(ClientSettings(**known, control=True)) as publisher:
                yield start, upstream, publisher
        finally:
            worker.stop()


async def test_a_question_is_its_tenants(applied_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    async def used_up(_: Any, budgets: tuple[Budget, ...], now: int) -> list[State]:
        return [State(one, one.limit, *one.window(now)) for one in budgets]

    monkeypatch.setattr("pipeline.gateway.budgets.memory.states", used_up)
    tokens = Tokens()
    budgets = [{**BUDGETS[0], "name": "mine", "tenant": "acme"}, {**BUDGETS[0], "name": "all"}]
    changes = {"control": True, "gateway_port": 0, "budgets": json.dumps(budgets)}
    changes["gateway_tokens"] = SecretStr(tokens.setting)
    async with (
        await ThreadStore.open(applied_settings.store_url, migrate=True),
        running(applied_settings.model_copy(update=changes)) as gateway,
        client(gateway.url, tokens.operator) as operator,
        client(gateway.url, tokens.acme) as acme,
        client(gateway.url, tokens.globex) as globex,
    ):

        async def asks() -> bool:
            return (await asked(operator)).keys() == {"budget:mine", "budget:all"}

        await until(asks)
        questions = await asked(operator)
        assert await asked(acme) == {"budget:mine": questions["budget:mine"]}
        assert await asked(globex) == {}
        for http, name, status in ((globex, "mine", 404), (globex, "all", 404), (acme, "all", 404)):
            assert (await answer(http, name, questions[f"budget:{name}"], value=True)).status_code == status
        assert (await answer(globex, "mine", questions["budget:mine"] + "?tenant=acme", value=True)).status_code == 403
        for http, name in ((acme, "mine"), (operator, "all")):
            given = await answer(http, name, questions[f"budget:{name}"], value=True)
            assert given.status_code == 202, given.text

            async def counts(http: httpx.AsyncClient = http, given: httpx.Response = given) -> bool:
                return (await state(http, given))[0] == "acknowledged"

            await until(counts)
        assert await asked(operator) == {}


async def goes_on(publisher: Publisher, agent: str) -> None:
    async with publisher.run(thread_id=agent, agent_id=agent, dialect="vercel-ai") as run:
        async for _ in run.tee(endless()):
            pass


async def call(http: httpx.AsyncClient, agent: str) -> httpx.Response:
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "Weather?"}]}
    return await http.post("/proxy/openai/v1/chat/completions", json=body, headers={"Turnmill-Agent": agent})


async def asked(http: httpx.AsyncClient) -> dict[str, str]:
    """The open questions' ids, by the names of their threads."""
    rows = (await http.get("/v1/runs", params={"status": "waiting"})).json()["runs"]
    return {row["external_id"]: row["asked"][0]["answer_id"] for row in rows}


async def answer(http: httpx.AsyncClient, agent: str, answer_id: str, **said: Any) -> httpx.Response:
    return await http.post(f"/v1/threads/budget:{agent}/answers/{answer_id}", json=said)


async def state(http: httpx.AsyncClient, given: httpx.Response) -> tuple[str, str]:
    found = (await http.get(f"/v1/commands/{given.json()['command_id']}")).json()
    return found["state"], found["reason"]


def together(count: int) -> Callable[[Publisher, bytes, bytes], Awaitable[None]]:
    """Return a `Publisher.put` in which an answer waits until there are so many: none of them knows of another."""
    put, all_are_here = Publisher.put, asyncio.Event()
    answers: list[bytes] = []

    async def put_together(publisher: Publisher, key: bytes, value: bytes) -> None:
        if b'"answer_id"' in value:
            answers.append(value)
            if len(answers) == count:
                all_are_here.set()
            await asyncio.wait_for(all_are_here.wait(), PATIENCE)
        await put(publisher, key, value)

    return put_together


async def test_a_budget_asks_before_more_is_used(
    spoken: tuple[Gateways, Upstream, Publisher], monkeypatch: pytest.MonkeyPatch
) -> None:
    start, upstream, publisher = spoken
    async with start() as one, start() as other:
        runs = {agent: asyncio.create_task(goes_on(publisher, agent)) for agent in AGENTS}
        for http in (one, other):
            await until(lambda http=http: asks_all(http))
        questions = await asked(one)
        assert questions == await asked(other)
        held = {agent: asyncio.create_task(call(one, agent)) for agent in ("yes", "no")}
        await asyncio.sleep(1.0)
        assert not any(task.done() for task in held.values())
        assert upstream.asked == []

        given = await answer(other, "yes", questions["budget:yes"], value=True, by="ann")
        assert given.status_code == 202, given.text
        assert (await held["yes"]).status_code == 200
        assert (await call(other, "yes")).status_code == 200
        assert (await state(one, given))[0] == "acknowledged"
        assert not (await one.get("/v1/budgets/check", params={"agent": "no"})).json()["allowed"]
        assert (await one.get("/v1/budgets/check", params={"agent": "yes"})).json()["allowed"]

        both = [answer(http, "no", questions["budget:no"], value=False) for http in (one, other)]
        with monkeypatch.context() as patch:
            patch.setattr(Publisher, "put", together(2))
            first, second = await asyncio.gather(*both)
        refused = await held["no"]
        assert (refused.status_code, refused.json()["budgets"]) == (429, ["no"])
        with pytest.raises(RunStopped) as raised:
            await runs["no"]
        assert raised.value.by == "budget"

        async def one_counts() -> bool:
            return sorted([(await state(http, of))[0] for http in (one, other) for of in (first, second)]) == [
                *("acknowledged", "acknowledged", "refused", "refused")
            ]

        await until(one_counts)
        assert (await call(other, "no")).status_code == 429
        assert (await answer(one, "no", questions["budget:no"], value=True)).status_code == 404
    async with start(hold=0.5) as restarted:
        await until(lambda: asks_all(restarted, "nobody"))
        assert (await call(restarted, "yes")).status_code == 200

        async def refuses() -> bool:  # once the run that was stopped is stored
            return (await call(restarted, "no")).status_code == 429

        await until(refuses)
        assert (await asked(restarted)).keys() == {"budget:nobody"}
        late = await call(restarted, "nobody")
        assert (late.status_code, "nobody has answered" in late.json()["detail"]) == (429, True)
        assert not runs["nobody"].done()
        assert not runs["yes"].done()
    await asyncio.gather(*(ended(run) for run in runs.values()))


async def asks_all(http: httpx.AsyncClient, *agents: str) -> bool:
    return (await asked(http)).keys() == {f"budget:{one}" for one in agents or AGENTS}

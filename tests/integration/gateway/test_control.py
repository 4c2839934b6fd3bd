"""Stopping runs over HTTP: their programs hear of it by Kafka or by a gateway, and say what becomes of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from pipeline.settings import Settings
from pipeline.stores.sql import ThreadStore
from tests.support.gateways import Running, Tokens, client, running
from tests.support.waiting import until
from tests.support.workers import WorkerProcess
from turnmill import ClientSettings, PublishedRun, Publisher, RunStopped, SyncPublisher


@pytest.fixture
async def served(applied_settings: Settings) -> AsyncIterator[tuple[Running, Tokens]]:
    """A gateway that takes commands, and a worker."""
    tokens = Tokens()
    changes = {
        "gateway_port": 0,
        "gateway_tokens": SecretStr(tokens.setting),
        "control": True,
        "checkpoint_interval": 0.2,
    }
    settings = applied_settings.model_copy(update={**changes, "checkpoint_interval": 0.2})
    worker = WorkerProcess(settings.model_copy(update={"gateway_tokens": None}), roles="assemble,store").start()
    try:
        async with running(settings) as gateway:
            yield gateway, tokens
    finally:
        worker.stop()


def publishing(gateway: Running, tokens: Tokens, way: str) -> ClientSettings:
    of = gateway.settings
    if way == "kafka":
        return ClientSettings(brokers=of.brokers, topic_prefix=of.topic_prefix, home=of.home, control=True)
    return ClientSettings(publish_url=gateway.url, publish_token=SecretStr(tokens.acme), home=of.home, control=True)


async def endless() -> AsyncIterator[dict[str, Any]]:
    yield {"type": "start"}
    yield {"type": "text-start", "id": "t"}
    while True:
        yield {"type": "text-delta", "id": "t", "delta": "word "}
        await asyncio.sleep(0.02)


async def goes_on(run: PublishedRun) -> None:
    """A run without an end, but for one from elsewhere."""
    async with run:
        async for _ in run.tee(endless()):
            pass


async def state(http: httpx.AsyncClient, command_id: str) -> str:
    answer = await http.get(f"/v1/commands/{command_id}")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["state"])


async def stop(http: httpx.AsyncClient, run: str, **body: Any) -> str:
    answer = await http.post(f"/v1/threads/chat/runs/{run}/stop", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["command_id"])


@pytest.mark.parametrize("way", ["kafka", "http"])
async def test_a_run_is_stopped_and_says_so(served: tuple[Running, Tokens], way: str) -> None:
    gateway, tokens = served
    async with Publisher(publishing(gateway, tokens, way)) as publisher, client(gateway.url, tokens.acme) as http:
        tenant = "acme" if way == "kafka" else None
        run = publisher.run(thread_id="chat", agent_id="a", dialect="vercel-ai", run_id="r1", tenant=tenant)
        program = asyncio.create_task(goes_on(run))

        async def speaks() -> bool:
            return any(one["run_id"] == "r1" for one in (await http.get("/v1/runs")).json()["runs"])

        await until(speaks)
        command_id = await stop(http, "r1", by="ann")
        with pytest.raises(RunStopped) as raised:
            await program
        assert (raised.value.command_id, raised.value.by) == (command_id, "ann")

        async def has_ended() -> bool:
            return await state(http, command_id) == "ended"

        await until(has_ended)

    async def stored() -> bool:
        async with await ThreadStore.open(gateway.settings.store_url) as store:
            for key in await store.find("chat", "acme"):
                document = await store.thread(key)
                assert document is not None
                [turn] = [one for one in document["turns"] if one["turn_type"] == "agent"]
                assert turn["interruption"]["reason"] == "user_cancelled"
                assert turn["meta:stopped_by"] == {"command_id": command_id, "by": "ann"}
                return True
        return False

    await until(stored)


async def test_a_command_may_come_before_its_run(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served
    async with client(gateway.url, tokens.acme) as http:
        command_id = await stop(http, "early")
        assert await state(http, command_id) == "requested"
        async with Publisher(publishing(gateway, tokens, "http")) as publisher:
            run = publisher.run(thread_id="chat", agent_id="a", dialect="vercel-ai", run_id="early")
            with pytest.raises(RunStopped):
                await goes_on(run)


async def test_a_program_without_a_loop_is_stopped(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served

    def program() -> str:
        with SyncPublisher(publishing(gateway, tokens, "http")) as publisher:
            run = publisher.run(thread_id="chat", agent_id="a", dialect="vercel-ai", run_id="sync")

            def events() -> Any:
                yield {"type": "start"}
                while True:
                    time.sleep(0.02)
                    yield {"type": "start-step"}

            try:
                with run:
                    for _ in run.tee(events()):
                        pass
            except RunStopped as error:
                return error.by
        return "went on"

    async with client(gateway.url, tokens.acme) as http:
        running_program = asyncio.create_task(asyncio.to_thread(program))

        async def is_open() -> bool:
            runs = (await http.get("/v1/runs")).json()["runs"]
            return any(run["run_id"] == "sync" for run in runs)

        await until(is_open)
        answer = await http.post("/v1/threads/chat/stop", json={"by": "bob"})
        assert answer.status_code == 202
        assert len(answer.json()["command_ids"]) == 1
        assert await running_program == "bob"


async def test_a_run_that_is_over_has_won(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served
    async with Publisher(publishing(gateway, tokens, "http")) as publisher, client(gateway.url, tokens.acme) as http:
        async with publisher.run(thread_id="chat", agent_id="a", dialect="vercel-ai", run_id="short") as run:
            await run.send({"type": "start"})

        async def is_stored() -> bool:
            return (await http.get("/v1/threads/chat")).status_code == 200

        await until(is_stored)

        async def is_over() -> bool:
            return not (await http.get("/v1/runs")).json()["runs"]

        await until(is_over)
        assert await state(http, await stop(http, "short")) == "completed"
        assert (await http.post("/v1/threads/chat/stop")).status_code == 404


async def heard(http: httpx.AsyncClient) -> list[str]:
    """What the stream of commands says within two seconds."""
    found: list[str] = []
    async with http.stream("GET", "/v1/control") as stream:
        with suppress(TimeoutError):
            async with asyncio.timeout(2):
                async for line in stream.aiter_lines():
                    found += [line.removeprefix("data: ")] if line.startswith("data: ") else []
    return found


async def test_nobody_else_may(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served
    async with client(gateway.url, tokens.acme) as http:
        command_id = await stop(http, "r9")
    async with client(gateway.url, tokens.globex) as http:
        assert (await http.get(f"/v1/commands/{command_id}")).status_code == 404
        assert (await http.post("/v1/threads/chat/stop")).status_code == 404
        assert (await http.post("/v1/threads/chat/runs/r9/stop?tenant=acme")).status_code == 403
        assert await heard(http) == []
    async with client(gateway.url, tokens.acme) as http:
        assert [json.loads(line)["id"] for line in await heard(http)] == [command_id]
    for token in (tokens.reader, tokens.sender):
        async with client(gateway.url, token) as http:
            assert (await http.post("/v1/threads/chat/runs/r9/stop")).status_code == 403
            assert (await http.get(f"/v1/commands/{command_id}")).status_code == 403
    async with client(gateway.url, tokens.reader) as http:
        assert (await http.get("/v1/control")).status_code == 403

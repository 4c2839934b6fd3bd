"""Calls through the proxy that are stopped: the provider is left at once, and the client told in its wire's words."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import find_threads, read_thread
from tests.support.gateways import Running, client, running
from tests.support.talking_provider import Provider
from tests.support.waiting import until
from tests.support.workers import WorkerProcess

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
WHOLE = {**PATHS, "gemini": "/v1beta/models/m:generateContent"}
Served = tuple[Running, Provider]


@pytest.fixture
async def served(applied_settings: Settings) -> AsyncIterator[Served]:
    async with Provider().serving() as provider:
        changes = {"gateway_port": 0, "control": True, "checkpoint_interval": 0.2}
        settings = applied_settings.model_copy(update={**changes, "gateway_proxy": f"talk={provider.url}"})
        worker = WorkerProcess(settings, roles="assemble,store").start()
        try:
            async with running(settings) as gateway:
                yield gateway, provider
        finally:
            worker.stop()


async def ask(gateway: Running, name: str, path: str, *, stream: bool) -> tuple[httpx.Response, str]:
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": name}], "input": name}
    headers = {"Turnmill-Thread": name, "Turnmill-Run": name}
    async with (
        client(gateway.url) as http,
        http.stream("POST", f"/proxy/talk/{name}{path}", json=body, headers=headers) as answer,
    ):
        said = "".join([text async for text in answer.aiter_text()])
    return answer, said


async def stop(http: httpx.AsyncClient, name: str) -> str:
    answer = await http.post(f"/v1/threads/{name}/runs/{name}/stop", json={"by": "ann"})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["command_id"])


def error_of(said: str) -> Any:
    """The last event of a stream."""
    return json.loads(said.strip().splitlines()[-1].removeprefix("data: "))["error"]


async def ends(gateway: Running, http: httpx.AsyncClient, name: str, command_id: str) -> None:
    async def has_ended() -> bool:
        return bool((await http.get(f"/v1/commands/{command_id}")).json()["state"] == "ended")

    async def stored() -> bool:
        async with await ThreadStore.open(gateway.settings.store_url) as store:
            for key in await find_threads(store, name, None):
                document = await read_thread(store, key)
                assert document is not None
                agent = [turn for turn in document["turns"] if turn["turn_type"] == "agent"][-1]
                assert agent["interruption"]["reason"] == "user_cancelled"
                assert agent["meta:stopped_by"] == {"command_id": command_id, "by": "ann"}
                return True
        return False

    await until(has_ended)
    await until(stored)


async def test_a_stream_ends_in_the_words_of_its_wire(served: Served) -> None:
    gateway, provider = served
    async with client(gateway.url) as http:
        for dialect, path in PATHS.items():
            asking = asyncio.create_task(ask(gateway, dialect, path, stream=True))

            async def talks(name: str = dialect) -> bool:
                return name in provider.talks and len(provider.talks[name][0].sent) > 3

            await until(talks)
            command_id = await stop(http, dialect)
            answer, said = await asking
            assert answer.status_code == 200
            assert "stopped by ann" in error_of(said)["message"], dialect
            assert "turnmill.control" not in said
            assert provider.talks[dialect][0].closed is not None
            await ends(gateway, http, dialect, command_id)


async def test_a_whole_answer_is_refused_and_so_is_a_call_that_comes_behind_its_stop(served: Served) -> None:
    gateway, provider = served
    async with client(gateway.url) as http:
        for dialect, path in WHOLE.items():
            asking = asyncio.create_task(ask(gateway, dialect, path, stream=False))

            async def asked(name: str = dialect) -> bool:
                return name in provider.talks

            await until(asked)
            command_id = await stop(http, dialect)
            answer, said = await asking
            assert (answer.status_code, answer.headers["x-should-retry"]) == (400, "false")
            assert "stopped by ann" in json.loads(said)["error"]["message"]
            await ends(gateway, http, dialect, command_id)

        command_id = await stop(http, "early")
        answer, _ = await ask(gateway, "early", PATHS["openai-chat"], stream=True)
        assert answer.status_code == 400
        assert "early" not in provider.talks
        await ends(gateway, http, "early", command_id)


async def test_a_stop_of_before_counts_for_the_first_call_of_a_gateway(served: Served) -> None:
    gateway, provider = served
    async with client(gateway.url) as http:
        command_id = await stop(http, "first")
    async with running(gateway.settings) as another, client(another.url) as http:
        assert (await http.get(f"/v1/commands/{command_id}")).status_code == 200, "it has read what was commanded"
        answer, _ = await ask(another, "first", PATHS["openai-chat"], stream=True)
        assert answer.status_code == 400
        assert "first" not in provider.talks
        await ends(another, http, "first", command_id)


async def test_what_is_in_the_midst_of_an_event_breaks_off(served: Served) -> None:
    """The client sees a broken connection, never an answer that seems complete."""
    gateway, provider = served
    async with client(gateway.url) as http:
        provider.pieces = True
        asking = asyncio.create_task(ask(gateway, "cut", PATHS["openai-chat"], stream=True))

        async def talks() -> bool:
            return "cut" in provider.talks and len(provider.talks["cut"][0].sent) > 0

        await until(talks)
        command_id = await stop(http, "cut")
        with pytest.raises(httpx.RemoteProtocolError):
            await asking
        await ends(gateway, http, "cut", command_id)

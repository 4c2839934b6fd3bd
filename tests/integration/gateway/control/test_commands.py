"""Stopping runs over HTTP: their programs hear of it by Kafka or by a gateway, and say what becomes of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

import turnmill
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import find_threads, read_thread, run_events
from tests.support.commands import turnmill as commanded
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
            for key in await find_threads(store, "chat", "acme"):
                document = await read_thread(store, key)
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
        refused = await http.post("/v1/threads/chat/stop", json={"by": "budget"})
        assert (refused.status_code, refused.json()["type"]) == (400, "/docs#bad-request")
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
        for path, body in {"stop": {}, "steer": {"text": "on"}, "answers/a": {"value": True}}.items():
            refused = await http.post(f"/v1/threads/chat/{path}", json=body)
            assert (refused.status_code, refused.json()["type"]) == (409, "/docs#conflict")
            assert (await http.post(f"/v1/threads/never/{path}", json=body)).status_code == 404


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
    paths = {"runs/r9/stop": {}, "runs/r9/steer": {"text": "on"}, "answers/a": {"value": True}}
    of_thread = {"stop": {}, "steer": {"text": "on"}, "answers/a": {"value": True}}
    async with client(gateway.url, tokens.acme) as http:
        command_ids = [await stop(http, "r9"), (await post(http, "runs/r9/steer", text="on"))["command_id"]]
    async with client(gateway.url, tokens.globex) as http:
        for command_id in command_ids:
            assert (await http.get(f"/v1/commands/{command_id}")).status_code == 404
        for path, body in of_thread.items():
            assert (await http.post(f"/v1/threads/chat/{path}", json=body)).status_code == 404
        for path, body in paths.items():
            assert (await http.post(f"/v1/threads/chat/{path}?tenant=acme", json=body)).status_code == 403
        assert await heard(http) == []
    async with client(gateway.url, tokens.acme) as http:
        assert [json.loads(line)["id"] for line in await heard(http)] == command_ids
    for token in (tokens.reader, tokens.sender):
        async with client(gateway.url, token) as http:
            for path, body in paths.items():
                assert (await http.post(f"/v1/threads/chat/{path}", json=body)).status_code == 403
            assert (await http.get(f"/v1/commands/{command_ids[0]}")).status_code == 403
    async with client(gateway.url, tokens.reader) as http:
        assert (await http.get("/v1/control")).status_code == 403


async def is_in_state(http: httpx.AsyncClient, command_id: str, wanted: str) -> str:
    """Wait for a command's state -> its reason."""
    found: dict[str, Any] = {}

    async def there() -> bool:
        found.update((await http.get(f"/v1/commands/{command_id}")).json())
        return bool(found["state"] == wanted)

    await until(there)
    return str(found["reason"])


async def post(http: httpx.AsyncClient, path: str, **body: Any) -> Any:
    answer = await http.post(f"/v1/threads/chat/{path}", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def is_open(http: httpx.AsyncClient, run_id: str) -> None:
    async def there() -> bool:
        return any(one["run_id"] == run_id for one in (await http.get("/v1/runs")).json()["runs"])

    await until(there)


async def stored_turns(gateway: Running, *runs: str) -> list[dict[str, Any]]:
    """The agent turns of acme's thread, once these runs are stored."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        async with await ThreadStore.open(gateway.settings.store_url) as store:
            keys = await find_threads(store, "chat", "acme")
            stored = {run for key in keys for run in await run_events(store, key)}
            document = await read_thread(store, next(iter(keys))) if stored >= {*runs} else None
        found[:] = [one for one in (document or {"turns": []})["turns"] if one["turn_type"] == "agent"]
        return bool(found)

    await until(there)
    return found


@pytest.mark.parametrize("way", ["kafka", "http"])
async def test_a_message_is_taken_up_between_tools(served: tuple[Running, Tokens], way: str) -> None:
    gateway, tokens = served
    tenant = "acme" if way == "kafka" else None
    async with Publisher(publishing(gateway, tokens, way)) as publisher, client(gateway.url, tokens.acme) as http:
        run = publisher.run(
            thread_id="chat", agent_id="a", dialect="vercel-ai", run_id="r1", tenant=tenant, steers=True
        )
        deaf = publisher.run(thread_id="other", agent_id="a", dialect="vercel-ai", run_id="r2", tenant=tenant)
        async with run, deaf:
            for one in (run, deaf):
                await one.send({"type": "start"})
            await is_open(http, "r1")
            given = await post(http, "steer", text="And in Oslo?", by="ann")
            assert given["command_ids"] == [given["command_id"]]
            messages: list[Any] = []

            async def told() -> bool:
                messages.extend(await run.steered())
                return bool(messages)

            await until(told)
            assert [(one.text, one.by, one.command_id) for one in messages] == [
                ("And in Oslo?", "ann", given["command_id"])
            ]
            assert await run.steered() == []
            await is_in_state(http, given["command_id"], "acknowledged")
            answer = await http.post("/v1/threads/other/runs/r2/steer", json={"text": "Hello?"})
            assert "takes no messages" in await is_in_state(http, answer.json()["command_id"], "refused")
        await is_in_state(http, given["command_id"], "ended")
        [turn] = await stored_turns(gateway, "r1")
        [part] = [part for one in turn["messages"] for part in one["parts"]]
        assert (part["content"], part["meta:steered_by"]["by"]) == ("And in Oslo?", "ann")


async def test_a_stop_reaches_the_runs_that_it_started(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served
    async with Publisher(publishing(gateway, tokens, "http")) as publisher, client(gateway.url, tokens.acme) as http:
        info = {"parent_run_id": "r1", "parent_thread_id": "chat"}
        runs = [
            publisher.run(thread_id=thread, agent_id="a", dialect="vercel-ai", run_id=run_id, info=of)
            for thread, run_id, of in (("chat", "r1", {}), ("part", "r2", info), ("part", "r3", {}))
        ]
        programs = [asyncio.create_task(goes_on(run)) for run in runs]
        for run in runs:
            await is_open(http, run.run_id)
        await stop(http, "r1")
        for program in programs[:2]:
            with pytest.raises(RunStopped):
                await program
        assert not runs[2].stopped
        programs[2].cancel()
        await asyncio.wait(programs)


def asks(tenant: str | None = None) -> list[dict[str, Any]]:
    approval = {"type": "tool-approval-request", "approvalId": "ap1", "toolCallId": "c1"}
    call = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "pay", "input": {"sum": 3}}
    return [{"type": "start"}, {"type": "start-step"}, call, approval, {"type": "finish-step"}, {"type": "finish"}]


@pytest.mark.parametrize("way", ["kafka", "http"])
async def test_the_first_answer_counts_and_stays_until_a_run_takes_it_up(
    served: tuple[Running, Tokens], way: str
) -> None:
    gateway, tokens = served
    tenant = "acme" if way == "kafka" else None
    settings = publishing(gateway, tokens, way)
    identity = {"thread_id": "chat", "agent_id": "a", "dialect": "vercel-ai", "tenant": tenant}
    async with client(gateway.url, tokens.acme) as http, client(gateway.url, tokens.globex) as globex:
        async with Publisher(settings) as publisher, publisher.run(**identity, run_id="r1") as run:
            for event in asks():
                await run.send(event)
        asked: list[dict[str, Any]] = []

        async def waits() -> bool:
            for one in (await http.get("/v1/runs?status=waiting")).json()["runs"]:
                asked.extend(one["asked"])
            return bool(asked)

        await until(waits)
        answer_id = asked[0]["answer_id"]
        assert answer_id == turnmill.answer_id("r1", "ap1")
        path = f"answers/{answer_id}"
        assert (await globex.post(f"/v1/threads/chat/{path}", json={"value": True})).status_code == 404
        assert (await http.post("/v1/threads/chat/answers/other", json={"value": True})).status_code == 409
        first = await post(http, path, value=True, by="ann")
        second = await post(http, path, value=False, by="bob")
        reason = await is_in_state(http, second["command_id"], "refused")
        assert "by ann" in reason
        assert first["command_id"] in reason

        async def there() -> bool:
            return bool(await asyncio.to_thread(turnmill.answers, "chat", tenant=tenant, settings=settings))

        await until(there)
        for _ in range(2):  # also after a restart of the agent
            [answer] = await asyncio.to_thread(turnmill.answers, "chat", tenant=tenant, settings=settings)
            assert (answer.value, answer.by, answer.run_id) == (True, "ann", "r1")
        assert turnmill.resumption([answer])["content"] == [
            {"type": "tool-approval-response", "approvalId": "ap1", "approved": True}
        ]
        if way == "http":
            assert (await globex.get("/v1/threads/chat/answers")).json() == {"answers": []}
        async with Publisher(settings) as publisher, publisher.run(**identity, run_id="r2") as run:
            await run.acknowledge(answer)
            await run.send({"type": "start"})
        await is_in_state(http, first["command_id"], "acknowledged")

        async def taken_up() -> bool:
            return not await asyncio.to_thread(turnmill.answers, "chat", tenant=tenant, settings=settings)

        await until(taken_up)
        turn = (await stored_turns(gateway, "r1", "r2"))[-1]
        assert turn["meta:answered_by"][0] == {
            "command_id": first["command_id"],
            "by": "ann",
            "answer_id": answer_id,
            "asked": "c1",
        }


@pytest.mark.parametrize("way", ["kafka", "http"])
async def test_a_run_may_wait_for_an_answer(served: tuple[Running, Tokens], way: str) -> None:
    gateway, tokens = served
    tenant = "acme" if way == "kafka" else None
    async with Publisher(publishing(gateway, tokens, way)) as publisher, client(gateway.url, tokens.acme) as http:
        run = publisher.run(thread_id="chat", agent_id="a", dialect="claude-code", run_id="r1", tenant=tenant)
        async with run:
            await run.send({"type": "system", "subtype": "init"})
            await is_open(http, "r1")
            waiting = asyncio.create_task(run.answered("toolu_1"))
            given = await post(http, f"answers/{turnmill.answer_id('r1', 'toolu_1')}", value={"approved": True})
            answer = await waiting
            assert (answer.command_id, answer.value) == (given["command_id"], {"approved": True})
            await is_in_state(http, given["command_id"], "acknowledged")


async def test_another_gateway_knows_what_became_of_it(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served
    async with client(gateway.url, tokens.acme) as http:
        async with Publisher(publishing(gateway, tokens, "http")) as publisher:
            run = publisher.run(thread_id="chat", agent_id="a", dialect="vercel-ai", run_id="r1")
            program = asyncio.create_task(goes_on(run))
            await is_open(http, "r1")
            command_id = await stop(http, "r1")
            with pytest.raises(RunStopped):
                await program
        await is_in_state(http, command_id, "ended")
    async with running(gateway.settings) as other, client(other.url, tokens.acme) as http:
        assert await state(http, command_id) == "ended"


async def test_the_command_line_asks_a_gateway(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served
    given = {"TURNMILL_PUBLISH_TOKEN": tokens.acme}
    async with Publisher(publishing(gateway, tokens, "http")) as publisher, client(gateway.url, tokens.acme) as http:
        run = publisher.run(thread_id="chat", agent_id="a", dialect="vercel-ai", run_id="r1")
        program = asyncio.create_task(goes_on(run))
        await is_open(http, "r1")
        done = await commanded(gateway.settings, "steer", "chat", "Hello?", "--gateway", gateway.url, **given)
        assert done.returncode == 1, done.stderr
        assert "refused: the program takes no messages while it runs" in done.stdout
        done = await commanded(gateway.settings, "stop", "chat", "--by", "ann", "--gateway", gateway.url, **given)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].endswith("ended: the run has ended")
        with pytest.raises(RunStopped) as raised:
            await program
        assert raised.value.by == "ann"

        async def is_stored() -> bool:
            return (await http.get("/v1/threads/chat")).status_code == 200

        await until(is_stored)
        done = await commanded(gateway.settings, "answer", "chat", "none", "true", "--gateway", gateway.url, **given)
        assert done.returncode == 2
        assert "nothing of it waits for the answer" in done.stderr

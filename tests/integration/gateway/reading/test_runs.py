"""Open runs and waiting threads over HTTP and on the command line, with a real broker."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaConsumer

from pipeline.gateway.live import erased as erased_threads
from pipeline.gateway.live.follower import Follower
from pipeline.gateway.live.run_watch import RunWatch
from pipeline.kafka.offsets import group_lag
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import mark_erased
from pipeline.stores.turns import write_turns
from pipeline.worker.host.roles import ROLES
from tests.support.commands import turnmill
from tests.support.gateways import Running, Tokens, client, running, sse, talk
from tests.support.turn_records import make_record
from tests.support.waiting import PATIENCE, until
from tests.support.workers import WorkerProcess
from topics.catalog import EVENTS
from topics.thread_key import ThreadKey
from turnmill.ending import ended
from turnmill.identity import thread_uuid


async def upload(
    http: httpx.AsyncClient, thread: str, run: str, *, end: str = "open", seq: int = 0, **query: str
) -> None:
    events = talk(3)[:4] if end == "open" else talk(3)
    path = f"/v1/threads/{thread}/runs/{run}/stream"
    asked = {"dialect": "vercel-ai", "agent_id": "weather", "end": end, "from_seq": str(seq), **query}
    answer = await http.post(path, params=asked, content=sse(events[seq:], done=False))
    assert answer.status_code == 200, answer.text


async def listed(http: httpx.AsyncClient, **query: str) -> list[dict[str, Any]]:
    answer = await http.get("/v1/runs", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["runs"]
    return found


async def names(http: httpx.AsyncClient, **query: str) -> list[str]:
    return [run["run_id"] for run in await listed(http, **query)]


@asynccontextmanager
async def worker(settings: Settings, **variables: str) -> AsyncIterator[WorkerProcess]:
    process = WorkerProcess(settings, roles="assemble", **variables)
    process.start()
    try:
        yield process
    finally:
        process.end()


async def test_open_runs_come_and_go(http: httpx.AsyncClient) -> None:
    before = time.time_ns() // 1_000_000
    await upload(http, "chat-7", "r1", agent_name="Weather desk", model_name="gpt-5")
    (run,) = await listed(http, status="open")
    assert (run["run_id"], run["thread_id"], run["external_id"]) == ("r1", thread_uuid("chat-7")[0], "chat-7")
    assert (run["agent_id"], run["agent_name"], run["model"]) == ("weather", "Weather desk", "gpt-5")
    assert (run["dialect"], run["events"], run["last_event"]) == ("vercel-ai", 4, "text-delta")
    assert (run["tenant"], run["usual_silence_ms"], run["silent"]) == (None, None, None)
    assert before - 1000 <= run["started_at"] <= run["last_at"] <= time.time_ns() // 1_000_000 + 1000
    assert run["deadline_at"] == run["last_at"] + 300_000
    await upload(http, "chat-8", "r2", agent_id="travel")
    await until(lambda: are(http, ["r1", "r2"]))
    assert await names(http, agent="travel") == ["r2"]
    assert await names(http, thread="chat-7") == await names(http, thread=run["thread_id"]) == ["r1"]
    assert await names(http, limit="1") == ["r1"], "the one that is silent for longest"
    await upload(http, "chat-7", "r1", end="complete", seq=4)
    await until(lambda: are(http, ["r2"]))
    assert (await http.get("/v1/runs?status=closed")).status_code == 422


async def are(http: httpx.AsyncClient, expected: list[str]) -> bool:
    return sorted(await names(http)) == expected


async def test_a_gateway_that_has_just_started_lists_what_began_long_before(gateway_settings: Settings) -> None:
    """Their first records are behind the committed offset: on the state topic, or not needed any more."""
    settings = gateway_settings.model_copy(update={"spill_after": 1.0, "checkpoint_interval": 0.2, "port": 0})
    async with running(settings) as gateway, client(gateway.url) as http, worker(settings) as process:
        for name in ("spilled", "closed by mark"):
            await upload(http, "chat", name)
        await upload(http, "chat", "ended", end="complete")

        async def passed() -> bool:
            lags = await group_lag(settings, ROLES["assemble"].group(settings), [EVENTS])
            return all(row.committed == row.end for row in lags if row.end)

        await until(passed, process.text)
        await upload(http, "chat", "closed by mark", end="disconnected", seq=4)
        await upload(http, "chat", "new")
        async with running(settings) as another, client(another.url) as fresh:
            await until(lambda: are(fresh, ["new", "spilled"]))
            old = (await listed(fresh))[0]
            assert (old["run_id"], old["events"], old["last_event"]) == ("spilled", 4, "text-delta")
            assert old["started_at"] <= old["last_at"] < time.time_ns() // 1_000_000 - 500
        answer = await turnmill(settings, "runs", "--json", "--agent", "weather")
        assert sorted(run["run_id"] for run in json.loads(answer.stdout)["runs"]) == ["new", "spilled"], answer.stderr
        answer = await turnmill(settings, "runs", "--thread", "chat")
        assert answer.stdout.count("text-delta") == 2, answer.stdout
        assert "no run is open" in (await turnmill(settings, "runs", "--agent", "nobody")).stdout


async def test_a_run_that_the_assembler_closes_is_listed_no_more(gateway_settings: Settings) -> None:
    settings = gateway_settings.model_copy(update={"idle_timeout": 3.0, "checkpoint_interval": 0.2, "port": 0})
    async with running(settings) as gateway, client(gateway.url) as http:
        await upload(http, "chat", "hangs")
        await asyncio.sleep(3.5)
        assert await names(http) == ["hangs"], "nobody has closed it"
        async with worker(settings) as process:
            await until(lambda: are(http, []), process.text)


async def test_runs_that_are_silent_for_longer_than_usual(gateway_settings: Settings) -> None:
    async with running(gateway_settings) as gateway, client(gateway.url) as http:
        for n in range(20):
            await upload(http, f"chat-{n}", "whole", end="complete")
        await upload(http, "hangs", "r")
        (run,) = await listed(http)
        assert (run["usual_silence_ms"], run["silent"]) == (10_000, False)
        assert await names(http, silent="true") == []
        for one in gateway.app.state.gateway.service(Follower).runs:
            one.last_at -= 11_000
        assert [one["silent"] for one in await listed(http, silent="true")] == [True]

        async def counted() -> bool:
            return "turnmill_gateway_silent_runs 1.0" in (await http.get("/metrics")).text

        await until(counted)
    async with running(gateway_settings) as another, client(another.url) as fresh:
        (run,) = await listed(fresh)
        assert run["usual_silence_ms"] == 10_000, "learnt from what was before"


async def test_a_scrape_of_the_metrics_begins_to_follow(gateway_settings: Settings) -> None:
    async with running(gateway_settings) as gateway, client(gateway.url) as http:
        await upload(http, "chat", "r")

        async def counted() -> bool:
            return "turnmill_gateway_open_runs 1.0" in (await http.get("/metrics")).text

        await until(counted)


async def test_a_tenant_sees_its_own(guarded: Running, tokens: Tokens, gateway_settings: Settings) -> None:
    async with client(guarded.url, tokens.acme) as acme, client(guarded.url, tokens.globex) as globex:
        await upload(acme, "chat", "of acme")
        await upload(globex, "chat", "of globex")
        async with client(guarded.url, tokens.operator) as operator:
            await until(lambda: are(operator, ["of acme", "of globex"]))
            assert await names(operator, tenant="acme") == ["of acme"]
            assert await names(operator, tenant="") == []
        assert [(run["run_id"], run["tenant"]) for run in await listed(acme)] == [("of acme", "acme")]
        assert await names(globex, thread=thread_uuid("chat", "acme")[0]) == []
        assert (await globex.get("/v1/runs?tenant=acme")).status_code == 403
        async with await ThreadStore.open(gateway_settings.store_url) as store:
            await write_turns(store, [asking("acme")])
        for http, found in ((acme, ["asks"]), (globex, [])):
            assert await names(http, status="waiting") == found
            assert await names(http, status="waiting", thread="chat") == found
        assert (await globex.get("/v1/runs?status=waiting&tenant=acme")).status_code == 403


def asking(tenant: str | None = None) -> dict[str, Any]:
    record = make_record("chat", "asks", tenant=tenant) if tenant else make_record("chat", "asks")
    call = {"part_kind": "tool-call", "tool_name": "pay", "tool_call_id": "c1", "args": {"sum": 3}}
    record["turn"]["messages"][0]["parts"] = [{**call, "meta:vercel": {"approval": {"id": "a1"}}}]
    return record


async def test_threads_that_wait_say_for_what(gateway_settings: Settings, http: httpx.AsyncClient) -> None:
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        await write_turns(store, [asking()])
        (run,) = await listed(http, status="waiting")
        assert (run["external_id"], run["run_id"], run["agent_name"]) == ("chat", "asks", "A1")
        (asked,) = run["asked"]
        assert (asked["kind"], asked["tool_name"], asked["args"]) == ("approval", "pay", {"sum": 3})
        answer = await turnmill(gateway_settings, "runs", "--waiting")
        assert "approval" in answer.stdout
        assert '{"sum":3}' in answer.stdout
        answer = await turnmill(gateway_settings, "runs", "--waiting", "--json", "--thread", "chat")
        assert json.loads(answer.stdout)["runs"][0]["asked"] == run["asked"]
        await write_turns(store, [make_record("chat", "answer", seconds=60)])
        assert await listed(http, status="waiting") == []


async def test_runs_of_threads_that_were_deleted_are_left_out(
    gateway_settings: Settings, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erased_threads, "ERASED_TTL", 0.1)
    await upload(http, "gone", "r1")
    await upload(http, "stays", "r2")
    await until(lambda: are(http, ["r1", "r2"]))
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        await mark_erased(store, ThreadKey(thread_uuid("gone")[0]))
    await until(lambda: are(http, ["r2"]))


async def test_without_a_broker_the_answer_says_so(gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.gateway.live.run_watch.READY_TIMEOUT", 1.0)
    settings = gateway_settings.model_copy(update={"brokers": "127.0.0.1:1"})
    async with running(settings) as gateway, client(gateway.url) as http:
        answer = await http.get("/v1/runs")
        assert answer.status_code == 503
        assert "the open runs are not known" in answer.json()["detail"]
        assert "Retry-After" in answer.headers


async def test_a_stop_while_a_client_is_being_stopped(
    gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiokafka, while it stops a client, took our cancellation for that of its own tasks: a gateway that stopped right
    after its first scrape never came to an end.
    """
    follower = Follower(gateway_settings)
    watch = RunWatch(follower, Metrics(10))
    closing: list[asyncio.Task[None]] = []
    stop = AIOKafkaConsumer.stop

    async def stop_meanwhile(consumer: AIOKafkaConsumer) -> None:
        if not closing:
            closing.append(asyncio.create_task(follower.close()))
        await stop(consumer)

    monkeypatch.setattr(AIOKafkaConsumer, "stop", stop_meanwhile)
    monkeypatch.setattr("turnmill.ending.CANCEL_INTERVAL", PATIENCE)  # no second cancellation comes
    monkeypatch.setattr("pipeline.gateway.live.follower.ended", partial(ended, within=PATIENCE))
    follower.listen(watch)

    async def begun() -> bool:
        return bool(closing)

    await until(begun)
    await asyncio.wait_for(closing[0], PATIENCE / 2)

"""Two tenants with the same thread id and the same run id: neither sees, ends, hides or delays the other's stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from pipeline.gateway.live import erased as erased_threads
from pipeline.gateway.live import following
from pipeline.settings import Settings
from pipeline.stores.keeping.erasure import mark_erased
from tests.support.gateways import Message, Running, Tokens, client, messages, replayed, running, talk
from tests.support.topic_records import publish
from tests.support.waiting import PATIENCE, until
from topics.catalog import EVENTS
from topics.thread_key import ThreadKey
from turnmill.wire.envelope import encode

THREAD = "5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01"
LIVE = f"/v1/threads/{THREAD}/live"


def record(seq: int, events: list[Any], tenant: str | None, **more: Any) -> tuple[bytes, bytes]:
    envelope = {"v": 1, "thread_id": THREAD, "run_id": "r1", "agent_id": "a", "dialect": "vercel-ai", "seq": seq}
    whose = {} if tenant is None else {"tenant": tenant}
    return THREAD.encode(), encode({**envelope, "ts": 5, "events": events, **whose, **more})


def said(found: list[Message]) -> list[Any]:
    return [json.loads(message.data).get("event", "end") for message in found]


@pytest.fixture(params=["memory", "broker"])
async def reading(request: pytest.FixtureRequest, gateway_settings: Settings, tokens: Tokens) -> AsyncIterator[Running]:
    """A gateway that has read everything, and one that has room for nearly nothing."""
    room = gateway_settings.gateway_live_bytes if request.param == "memory" else 1000
    more = {"gateway_tokens": SecretStr(tokens.setting), "gateway_live_bytes": room}
    async with running(gateway_settings.model_copy(update=more)) as one:
        yield one


async def test_another_tenant_takes_nothing_from_a_stream(
    reading: Running, gateway_settings: Settings, tokens: Tokens
) -> None:
    """Found by the review: who named a thread and a run first hid another tenant's, and an `end` of theirs was its."""
    mine, theirs = talk(4), [{**event, "delta": "evil"} if "delta" in event else event for event in talk(9)]
    log = [
        record(0, theirs[:6], "globex"),
        record(0, mine[:4], "acme"),
        record(4, theirs[4:], "globex", end="complete"),
        record(4, mine[4:6], "acme"),
        record(0, [{"type": "text-delta", "delta": "nobody's"}], None),
    ]
    await publish(gateway_settings, EVENTS, log)
    async with client(reading.url, tokens.acme) as acme, client(reading.url, tokens.globex) as globex:
        found, other = await replayed(acme, THREAD), await replayed(globex, THREAD)
        assert said(found) == mine[:6]
        assert said(other) == [*theirs, "end"]
        assert said(await replayed(acme, THREAD, replay="open")) == mine[:6], "another tenant's end has not ended it"
        rest = await replayed(acme, THREAD, last_event_id=found[3].id)
        assert [message.id for message in rest] == [message.id for message in found[4:]]
        for dialect in ({}, {"dialect": "vercel-ai"}):
            foreign = await acme.get(LIVE, params={"last_event_id": other[-1].id, "follow": "false", **dialect})
            assert "evil" not in foreign.text
        assert foreign.status_code == 400, "the place of another tenant's record is no place of the thread"
        async with acme.stream("GET", LIVE, params={"dialect": "vercel-ai"}) as answer:
            assert answer.status_code == 200, "the run is active, whatever another tenant's of its id is"
            await publish(gateway_settings, EVENTS, [record(6, mine[6:], "acme", end="complete")])
            resumed = [message.data async for message in messages(answer)]
        assert [json.loads(data) for data in resumed[:-1]] == mine
        assert (await globex.get(LIVE, params={"dialect": "vercel-ai"})).status_code == 204


async def test_who_may_read_all_says_whose(guarded: Running, gateway_settings: Settings, tokens: Tokens) -> None:
    async def asked(http: httpx.AsyncClient, **query: str) -> tuple[int, list[Any]]:
        answer = await http.get(LIVE, params={"follow": "false", **query})
        return answer.status_code, [line for line in answer.text.splitlines() if line.startswith("data: ")]

    async with client(guarded.url, tokens.operator) as http:
        await publish(gateway_settings, EVENTS, [record(0, talk(1)[:1], "acme")])
        assert (await until(lambda: asked(http)))[0] == 200, "there is one only"
        await publish(gateway_settings, EVENTS, [record(0, talk(1)[:2], "globex"), record(0, talk(1)[:3], None)])

        async def several() -> httpx.Response | None:
            answer = await http.get(LIVE, params={"follow": "false"})
            return answer if answer.status_code == 409 else None

        problem = (await until(several)).json()
        assert (problem["type"], problem["tenants"]) == ("/docs#conflict", ["", "acme", "globex"])
        counts = [len((await asked(http, tenant=tenant))[1]) for tenant in ("acme", "globex", "")]
        assert counts == [1, 2, 3]
    async with client(guarded.url, tokens.acme) as http:
        assert (await asked(http))[0] == (await asked(http, tenant="acme"))[0] == 200
        assert (await asked(http, tenant="globex"))[0] == (await asked(http, tenant=""))[0] == 403


async def test_open_runs_show_nothing_of_another_tenant(
    guarded: Running, gateway_settings: Settings, tokens: Tokens
) -> None:
    """Found by the review: who named a thread and a run first saw the text of another tenant's."""
    secret = [{"type": "text-delta", "id": "t", "delta": "the-secret-of-acme"}]
    log = [record(0, talk(0)[:1], "globex"), record(0, secret, "acme"), record(1, secret, "acme")]
    await publish(gateway_settings, EVENTS, log)

    async def figures(token: str) -> dict[str, Any] | None:
        async with client(guarded.url, token) as http:
            answer = await http.get("/v1/figures/live", params={"follow": "false"})
            assert answer.status_code == 200
            shown: dict[str, Any] = json.loads(answer.text.partition("data: ")[2])
            assert "secret" not in answer.text or token == tokens.acme
            return shown if shown["open"] else None

    theirs, mine = await until(lambda: figures(tokens.globex)), await until(lambda: figures(tokens.acme))
    assert [(run["tenant"], run["events"], run["text"]) for run in theirs["runs"]] == [("globex", 1, "")]
    assert [(run["tenant"], run["events"]) for run in mine["runs"]] == [("acme", 2)]


async def test_the_stream_of_a_thread_that_is_deleted_ends(
    guarded: Running, gateway_settings: Settings, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the review: who followed a thread went on reading of it after it was deleted. Another tenant's thread
    with its id is another one.
    """
    monkeypatch.setattr(following, "RECHECK_INTERVAL", 0.1)
    monkeypatch.setattr(erased_threads, "ERASED_TTL", 0.1)
    events = talk(40)
    await publish(gateway_settings, EVENTS, [record(0, events[:2], tenant) for tenant in ("acme", "globex")])
    store = await guarded.app.state.gateway.store()
    async with (
        client(guarded.url, tokens.acme) as http,
        client(guarded.url, tokens.globex) as other,
        other.stream("GET", LIVE) as stays,
        asyncio.timeout(PATIENCE),
    ):
        async with http.stream("GET", LIVE) as answer:
            found = messages(answer)
            await anext(found)
            await mark_erased(store, ThreadKey(THREAD, "acme"))
            log = [record(seq, [events[seq]], tenant) for seq in range(2, 40) for tenant in ("acme", "globex")]
            await publish(gateway_settings, EVENTS, log, pause=0.05)
            assert len([message async for message in found]) < len(events) - 1
        assert (await http.get(LIVE)).status_code == 404
        theirs = messages(stays)
        assert said([await anext(theirs) for _ in range(40)]) == events[:40]
        figures = [(await one.get("/v1/figures/live?follow=false")).text for one in (http, other)]
        assert [text.count(THREAD) for text in figures] == [0, 1]

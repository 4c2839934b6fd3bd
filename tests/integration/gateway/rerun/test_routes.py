"""Asking a model again over HTTP: with the caller's key, where the operator allows it."""

import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pydantic import SecretStr

from pipeline.kafka.reading import records_of
from pipeline.policies.budgets import Budget, State
from pipeline.settings import Settings
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.integration.stores.test_rerun import ASKED, KEY, answer
from tests.support.gateways import Tokens, client, running
from tests.support.upstream import Answering, Asked, Upstream, chat_answer, playing
from topics.catalog import EVENTS
from turnmill.identity import thread_uuid

HEADERS = {"Turnmill-Provider-Key": KEY}


@pytest.fixture
async def upstream(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Upstream]:
    async def speaks(asked: Asked, answering: Answering) -> None:
        if asked.json["model"] == "gpt-none":
            await answering.whole({"error": {"message": f"no such model for {KEY}"}}, 401)
        else:
            await answering.whole({**chat_answer("It rains."), "model": asked.json["model"]})

    async with playing(speaks) as found:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{found.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-gateway-itself")
        yield found


@pytest.fixture
async def settings(applied_settings: Settings) -> Settings:
    async with await ThreadStore.open(applied_settings.store_url, migrate=True) as store:
        await write_turns(store, [*answer("chat", "acme"), *answer("chat", "globex")])
    return applied_settings.model_copy(update={"gateway_port": 0, "gateway_rerun": True})


async def published(settings: Settings) -> list[dict[str, Any]]:
    return [json.loads(record.value) async for record in records_of(settings, EVENTS)]


async def test_both_answers_come_back_and_the_new_one_is_published(
    settings: Settings, upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = Tokens()
    guarded = settings.model_copy(update={"gateway_tokens": SecretStr(tokens.setting)})
    async with running(guarded) as gateway, client(gateway.url, tokens.acme) as http:
        body = {"model": "gpt-5-mini", "system": "Be exact.", "values": {"temperature": None, "seed": 7}}
        answered = await http.post("/v1/threads/chat/rerun", json=body, headers=HEADERS)
        assert answered.status_code == 200, answered.text
        pair = answered.json()
        assert (pair["before"]["text"], pair["after"]["text"]) == ("Sunny.", "It rains.")
        assert (pair["after"]["model"], pair["after"]["problem"]) == ("gpt-5-mini", None)
        (asked,) = upstream.asked
        assert asked.headers["authorization"] == f"Bearer {KEY}", "not the gateway's own"
        system = {"role": "system", "content": "Be exact."}
        assert asked.json == {"model": "gpt-5-mini", "seed": 7, "messages": [system, ASKED["messages"][1]]}  # type: ignore[index]
        alone = await http.post("/v1/threads/chat/rerun", json={"turn": "r1", "publish": False}, headers=HEADERS)
        assert (alone.status_code, alone.json()["run_id"]) == (200, None)
        refused = await http.post("/v1/threads/chat/rerun", json={"model": "gpt-none"}, headers=HEADERS)
        assert refused.status_code == 200
        assert refused.json()["after"]["status"] == "interrupted"
        assert refused.json()["run_id"] is None, "what failed is no version"
        assert "no such model for ***" in refused.json()["after"]["problem"]
        assert KEY not in answered.text + alone.text + refused.text
    records = await published(settings)
    assert {(one["run_id"], one["tenant"], one["thread_id"]) for one in records} == {
        (pair["run_id"], "acme", thread_uuid("chat", "acme")[0])
    }
    assert records[0]["run"]["replaces"] == "r1"
    assert KEY not in json.dumps(records) + caplog.text


async def test_who_may_and_what_is_refused(settings: Settings, upstream: Upstream) -> None:
    tokens = Tokens()
    guarded = settings.model_copy(update={"gateway_tokens": SecretStr(tokens.setting)})
    async with running(guarded) as gateway:
        for token, status in ((tokens.reader, 403), (tokens.sender, 403), (None, 401)):
            async with client(gateway.url, token) as http:
                found = await http.post("/v1/threads/chat/rerun", json={"publish": False}, headers=HEADERS)
                assert found.status_code == status, found.text
                assert KEY not in found.text
        async with client(gateway.url, tokens.globex) as http:
            uuid = thread_uuid("chat", "acme")[0]
            assert (await http.post(f"/v1/threads/{uuid}/rerun", json={}, headers=HEADERS)).status_code == 404
            for body, headers, said in (
                ({}, {}, "Turnmill-Provider-Key"),
                ({"base_url": "http://169.254.169.254"}, HEADERS, "base_url"),
                ({"values": {"model.name": 1}}, HEADERS, "model is no object"),
                ({"turn": "nothing"}, HEADERS, "no such answer"),
                ({"model": "../../files"}, HEADERS, "no model has the name"),
                ({}, {"Turnmill-Provider-Key": KEY * 100}, "Turnmill-Provider-Key"),
            ):
                found = await http.post("/v1/threads/chat/rerun", json=body, headers=headers)
                assert found.status_code in (400, 422), found.text
                assert said.lower() in found.text.lower(), found.text
                assert KEY not in found.text
    assert upstream.asked == []


async def test_a_budget_that_is_used_up_refuses_it(
    settings: Settings, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def states(_: Any, budgets: Sequence[Budget], now: int) -> list[State]:
        return [State(budget, budget.limit, now - 1, now + 60_000) for budget in budgets]

    monkeypatch.setattr("pipeline.gateway.budgets.memory.states", states)
    budgets = [{"name": "acme", "tenant": "acme", "per": "month", "tokens": 1, "enforce": "refuse"}]
    tokens = Tokens()
    more = {"gateway_tokens": SecretStr(tokens.setting), "budgets": json.dumps(budgets)}
    async with running(settings.model_copy(update=more)) as gateway:
        for token, status in ((tokens.acme, 429), (tokens.globex, 200)):
            async with client(gateway.url, token) as http:
                answered = await http.post("/v1/threads/chat/rerun", json={"publish": False}, headers=HEADERS)
                assert answered.status_code == status, answered.text
    assert len(upstream.asked) == 1


async def test_more_than_a_response_may_hold_is_not_read_for_it(settings: Settings, upstream: Upstream) -> None:
    async def too_large(*_: Any) -> Any:
        raise StoreError("the values have more than 10 bytes")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ContentStore, "inlined", too_large)
        async with running(settings) as gateway, client(gateway.url) as http:
            answered = await http.post("/v1/threads/chat/rerun", json={}, params={"tenant": "acme"}, headers=HEADERS)
            assert (answered.status_code, "more than 10 bytes" in answered.text) == (409, True), answered.text
    assert upstream.asked == []


async def test_by_default_nobody_may(settings: Settings) -> None:
    async with running(settings.model_copy(update={"gateway_rerun": False})) as gateway, client(gateway.url) as http:
        assert (await http.post("/v1/threads/chat/rerun?tenant=acme", json={}, headers=HEADERS)).status_code in (
            404,
            405,
        )
        assert (await http.get("/static/features.json")).json() == {"rerun": False, "share": False}

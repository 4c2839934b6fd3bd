"""The audit log over HTTP: what tokens and people did, and were refused; a tenant sees its own alone."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from pipeline.gateway.access.security import Admission
from pipeline.settings import Settings
from pipeline.stores.accounts import audit as audit_trail
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.outbound.notices import due_notices
from pipeline.stores.turns import write_turns
from tests.support.gateways import Tokens, client, running
from tests.support.turn_records import make_record
from tests.support.waiting import until


def settings_of(tmp_path: Path, tokens: Tokens, **more: Any) -> Settings:
    return Settings(home=tmp_path, gateway_port=0, gateway_tokens=SecretStr(tokens.setting), **more)


async def entries(http: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await http.get("/v1/audit", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["records"]
    return found


async def has(http: httpx.AsyncClient, action: str) -> bool:
    return any(one["action"] == action for one in await entries(http))


async def test_what_was_done_is_stored_before_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_trail, "WRITE_INTERVAL", 60.0)
    tokens = Tokens()
    settings = settings_of(tmp_path, tokens, webhooks=SecretStr("[]"))
    async with running(settings) as gateway, client(gateway.url, tokens.acme) as acme:
        await acme.post("/v1/tokens", json={"name": "ci", "scopes": ["read"]})
        await acme.post("/v1/webhooks", json={"url": "https://hooks.example/", "events": ["turn.completed"]})
        await acme.get("/v1/usage", params={"format": "csv"})
        told = [entry["action"] for entry in reversed(await entries(acme))]
    assert told == ["token.make", "webhook.add", "usage.export"]


async def test_what_a_token_did_and_was_refused(tmp_path: Path) -> None:
    tokens = Tokens()
    settings = settings_of(tmp_path, tokens)
    record = make_record("chat-1", tenant="acme")
    async with running(settings) as gateway, client(gateway.url, tokens.acme) as acme:
        async with await ThreadStore.open(settings.store_url) as store:
            await write_turns(store, [record])
        thread = f"/v1/threads/{record['thread_id']}"
        made = (await acme.post("/v1/tokens", json={"name": "ci", "scopes": ["read"]})).json()
        for _ in range(3):
            assert (await acme.get(thread, params={"format": "openai-chat"})).status_code == 200
        assert (await acme.get(thread)).status_code == 200
        assert (await acme.get("/v1/usage", params={"format": "csv"})).status_code == 200
        assert (await acme.put(f"{thread}/hold")).status_code == 200
        assert (await acme.delete(f"{thread}/hold")).status_code == 200
        assert (await acme.delete(thread)).status_code == 200
        async with client(gateway.url, made["token"]) as reader:
            for _ in range(5):
                assert (await reader.get("/v1/audit")).status_code == 403
        async with client(gateway.url, "tm_wrong") as nobody, client(gateway.url) as first:
            assert (await nobody.get("/v1/threads")).status_code == 401
            assert (await first.get("/v1/threads")).status_code == 401
        await until(lambda: has(acme, "refused"))
        async with client(gateway.url, tokens.operator) as operator:

            async def tells_of_somebody_unknown() -> bool:
                return any(one["who"] == "" for one in await entries(operator))

            await until(tells_of_somebody_unknown)
            everything = await entries(operator)
            [unknown] = [one for one in everything if one["who"] == ""]
            assert (unknown["subject"], unknown["outcome"], unknown["tenant"]) == ("GET /v1/threads", "refused", None)
            assert await entries(operator, tenant="globex") == []
        found = await entries(acme)
        told = [(one["who"], one["action"], one["subject"], one["outcome"]) for one in reversed(found)]
        assert told == [
            ("acme", "token.make", made["id"], "done"),
            ("acme", "thread.export", record["thread_id"], "done"),
            ("acme", "usage.export", "", "done"),
            ("acme", "thread.hold", record["thread_id"], "done"),
            ("acme", "thread.release", record["thread_id"], "done"),
            ("acme", "thread.erase", record["thread_id"], "done"),
            ("ci", "refused", "GET /v1/audit", "refused"),
        ]
        assert {one["tenant"] for one in found} == {"acme"}
        assert {one["address"] for one in found} == {"127.0.0.1"}
        assert found[0]["token"] == made["id"]
        assert [one["who"] for one in await entries(acme, who="ci")] == ["ci"]
        assert len(await entries(acme, what="thread")) == 4
        page = (await acme.get("/v1/audit", params={"limit": 5})).json()
        rest = (await acme.get("/v1/audit", params={"limit": 5, "cursor": page["next"]})).json()
        assert (page["records"] + rest["records"], rest["next"]) == (found, None)
        assert (await acme.get("/v1/audit", params={"cursor": "x"})).status_code == 400
        assert (await acme.get("/v1/audit", params={"tenant": "globex"})).status_code == 403


async def test_what_waits_when_a_gateway_stops_is_kept(tmp_path: Path) -> None:
    tokens = Tokens()
    settings = settings_of(tmp_path, tokens, webhooks=SecretStr("[]"))
    async with running(settings) as gateway, client(gateway.url, tokens.operator) as http:
        wanted = {"url": "https://example.com/hook", "events": ["audit.recorded"]}
        made = (await http.post("/v1/webhooks", json=wanted)).json()
    async with await ThreadStore.open(settings.store_url) as store:
        notices = await due_notices(store, 2**50)
    [notice] = [notice for notice in notices if notice["type"] == "audit.recorded"]
    assert (notice["type"], notice["data"]["action"], notice["data"]["subject"]) == (
        "audit.recorded",
        "webhook.add",
        made["id"],
    )


async def test_without_retention_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens()

    async def kept(*_: object, **__: object) -> None:
        raise AssertionError("nothing is written")

    monkeypatch.setattr(audit_trail, "add_audit", kept)
    async with running(settings_of(tmp_path, tokens, audit_retention=0)) as gateway:
        async with client(gateway.url, tokens.operator) as http:
            assert (await http.post("/v1/tokens", json={"name": "ci", "scopes": ["read"]})).status_code == 201
            assert (await http.get("/v1/audit")).status_code == 409
        assert gateway.app.state.gateway.service(Admission).trail is None

"""Links over HTTP: for whom they are made, what they open, and that they open nothing else."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from pydantic import SecretStr

from pipeline.gateway.access.authenticator import PROOF
from pipeline.gateway.access.token_table import made_token, new_secret, new_token
from pipeline.settings import Settings
from pipeline.stores.accounts.tokens import Session, begin_session, end_sessions
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.support.gateways import Running, Tokens, client, running
from tests.support.turn_records import make_record
from tests.support.waiting import until
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid

SHARE = "/v1/threads/one/share"
EVERYTHING: dict[str, Any] = {
    "gateway_share_seconds": 3600,
    "gateway_rerun": True,
    "gateway_proxy": "up=http://127.0.0.1:9",
    "webhooks": SecretStr("[]"),
}


@asynccontextmanager
async def shared(home: Path, tokens: str | None, **more: Any) -> AsyncIterator[Running]:
    """A gateway with two threads of acme's and one of globex's."""
    secret = None if tokens is None else SecretStr(tokens)
    settings = Settings(home=home, gateway_port=0, gateway_tokens=secret, **EVERYTHING | more)
    async with await ThreadStore.open(settings.store_url) as store:
        records = [make_record("one", f"r{n}", seconds=n, text=f"acme {n}", tenant="acme") for n in range(3)]
        records += [make_record(chat, text="another", tenant=of) for chat, of in (("two", "acme"), ("one", "globex"))]
        for record in records:
            record["turn"]["meta:turn_id"] = record["turn_id"]
        await write_turns(store, records)
    async with running(settings) as one:
        yield one


async def test_a_link_opens_its_thread_until_it_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens = Tokens()
    caplog.set_level("INFO", "pipeline.audit")
    async with (
        shared(tmp_path, tokens.setting) as gateway,
        client(gateway.url, tokens.acme) as acme,
        client(gateway.url, tokens.operator) as operator,
    ):
        made = (await acme.post(SHARE)).json()
        secret = made.pop("token")
        assert made["address"] == f"/#/shared/{secret}"
        assert 3_590_000 < made["expires_at"] - now_ms() <= 3_600_000
        short = (await acme.post(SHARE, params={"seconds": 60})).json()
        assert short["expires_at"] - now_ms() <= 60_000
        long = (await acme.post(SHARE, params={"seconds": 10**9})).json()
        assert long["expires_at"] - now_ms() <= 3_600_000
        async with client(gateway.url, secret) as guest:
            page = (await guest.get("/v1/shared")).json()
            assert (page["thread_id"], len(page["turns"]), page["previous"]) == (thread_uuid("one")[0], 3, None)
            last = (await guest.get("/v1/shared?last=1")).json()
            assert ["acme 2" in json.dumps(turn) for turn in last["turns"]] == [True]
            before = (await guest.get("/v1/shared", params={"before": last["previous"]})).json()
            assert len(before["turns"]) == 2
            assert (await guest.get("/v1/shared?before=nothing")).status_code == 404
        for caller, expected in ((acme, 401), (operator, 401)):
            assert (await caller.get("/v1/shared")).status_code == expected, "a token is no link"
        [listed] = [one for one in (await acme.get("/v1/tokens")).json()["tokens"] if one["id"] == made["id"]]
        assert (listed["thread"], listed["scopes"]) == (f"{thread_uuid('one')[0]}/acme", [])
        assert (await acme.post(f"/v1/tokens/{made['id']}/rotate")).status_code == 404
        assert (await operator.post(SHARE)).status_code == 409, "whose thread is meant?"
        assert (await acme.delete(SHARE)).json() == {"ended": 3}
        assert (await status(gateway, secret)) == 401
        audited = (await acme.get("/v1/audit", params={"what": "thread"})).json()["records"]
        assert [(one["action"], one["outcome"]) for one in audited] == [
            ("thread.unshare", "done"),
            *[("thread.share", "done")] * 3,
        ]
        refused = (await operator.get("/v1/audit", params={"what": "refused"})).json()["records"]
        assert "GET /v1/shared" in {one["subject"] for one in refused}
    for kept in (secret, short["token"]):
        assert kept not in caplog.text
        assert not [file for file in tmp_path.rglob("*") if file.is_file() and kept.encode() in file.read_bytes()]


async def status(gateway: Running, secret: str, path: str = "/v1/shared", method: str = "GET") -> int:
    async with client(gateway.url, secret) as guest:
        return (await guest.request(method, path)).status_code


async def test_each_other_door_is_closed_to_a_link(tmp_path: Path) -> None:
    tokens = Tokens()
    async with shared(tmp_path, tokens.setting) as gateway, client(gateway.url, tokens.acme) as acme:
        secret = (await acme.post(SHARE)).json()["token"]
        tried, let_in = 0, set()
        async with client(gateway.url, secret) as guest, client(gateway.url) as nobody:
            for route in gateway.app.router.routes:
                if not isinstance(route, APIRoute) or route.path == "/v1/shared":
                    continue
                path = re.sub(r"\{[^}]+\}", thread_uuid("one")[0], route.path)
                for method in route.methods:
                    answers = [
                        (await caller.request(method, path, headers=more)).status_code
                        for caller, more in (
                            (guest, {}),
                            (nobody, {"Turnmill-Token": secret}),
                            (nobody, {"Cookie": f"turnmill={secret}"}),
                        )
                    ]
                    tried += 1
                    if {*answers} - {401, 403}:
                        let_in.add(route.path)
            assert (await nobody.get(f"/proxy/t/{secret}/up/v1/models")).status_code == 401
            assert await status(gateway, secret) == 200, "it was good all the time"
        assert tried > 50
        public = {"/", "/docs", "/docs.css", "/openapi.json", "/livez", "/readyz", "/metrics"}
        assert {path for path in let_in if not path.startswith("/static/")} <= public


async def test_a_link_ends_with_its_thread_and_its_maker(tmp_path: Path) -> None:
    tokens, file = Tokens(), tmp_path / "tokens.jsonl"
    lines = tokens.setting.splitlines()
    file.write_text("\n".join(lines))
    async with shared(tmp_path, str(file)) as gateway, client(gateway.url, tokens.acme) as acme:
        end = now_ms() + 50_000
        wanted = {"name": "short", "scopes": ["read", "feedback"], "expires": end}
        maker = (await acme.post("/v1/tokens", json=wanted)).json()
        async with client(gateway.url, maker["token"]) as short:
            link = (await short.post(SHARE)).json()
        assert link["expires_at"] <= end
        assert await status(gateway, link["token"]) == 200
        await acme.delete(f"/v1/tokens/{maker['id']}")
        assert await status(gateway, link["token"]) == 401, "its maker was revoked"

        of_settings = (await acme.post(SHARE)).json()["token"]
        of_two = (await acme.post("/v1/threads/two/share")).json()["token"]
        assert await status(gateway, of_settings) == 200
        await acme.delete("/v1/threads/one")
        assert await status(gateway, of_settings) in (401, 404)
        await until(lambda: ended(gateway, of_settings))
        assert await status(gateway, of_two) == 200
        file.write_text("\n".join(line for line in lines if '"name":"acme"' not in line))
        assert await status(gateway, of_two) == 401, "its maker is no more in the settings"


async def test_a_persons_link_ends_with_the_session_that_the_provider_ends(tmp_path: Path) -> None:
    origin, secret, end = "http://127.0.0.1:1", new_secret(), now_ms() + 1_000_000
    made = made_token(secret, "eve", ("read", "feedback"), "acme", by="a sign-in", expires_at=end)
    oidc = {
        "gateway_url": origin,
        "gateway_oidc": SecretStr(origin),
        "gateway_oidc_client_id": "x",
        "gateway_oidc_client_secret": SecretStr("x" * 32),
        "gateway_oidc_roles": json.dumps([{"role": "editor", "claim": "sub", "value": "eve", "tenant": "acme"}]),
    }
    async with shared(tmp_path, None, **oidc) as gateway, client(gateway.url) as browser:
        async with await ThreadStore.open(gateway.settings.store_url) as store:
            await begin_session(
                store, replace(made, session=Session("p", "eve", None, "editor", 10**9)), None, now_ms()
            )
            browser.cookies.set("turnmill", secret)
            ours = {"Origin": origin, "Sec-Fetch-Site": "same-origin", PROOF: "1"}
            answers = [await browser.post(SHARE, headers=ours) for _ in range(2)]
            links = [answer.json() for answer in answers]
            assert all(link["expires_at"] <= end for link in links), links
            async with client(gateway.url) as other:
                other.cookies.set("turnmill", links[0]["token"])
                assert (await other.get("/v1/shared")).status_code == 401, "a link is no cookie"
            assert await status(gateway, links[0]["token"]) == 200
            assert await end_sessions(store, "p", "eve", None) == 1
        await until(lambda: ended(gateway, links[0]["token"]))


async def ended(gateway: Running, secret: str) -> bool:
    return await status(gateway, secret) == 401


async def test_who_may_make_links(tmp_path: Path) -> None:
    tokens = Tokens()
    writer, line = new_token("writer", ("feedback",), "acme")
    setting = f"{tokens.setting}\n{line.model_dump_json()}"
    async with shared(tmp_path, setting, gateway_rate=0.0) as gateway:
        for token, expected in ((tokens.reader, 403), (tokens.sender, 403), (tokens.admin, 403), (writer, 403)):
            assert await status(gateway, token, SHARE, "POST") == expected
        assert await status(gateway, tokens.globex, "/v1/threads/two/share", "POST") == 404
        assert await status(gateway, tokens.globex, "/v1/threads/two/share", "DELETE") == 404
        async with client(gateway.url, tokens.acme) as acme:
            near = {"name": "near", "scopes": ["read", "feedback"], "addresses": ["127.0.0.1"], "rate": 1}
            maker = (await acme.post("/v1/tokens", json=near)).json()["token"]
            async with client(gateway.url, maker) as bound:
                link = (await bound.post(SHARE)).json()
            [listed] = [one for one in (await acme.get("/v1/tokens")).json()["tokens"] if one["id"] == link["id"]]
            assert (listed["addresses"], listed["rate"]) == (["127.0.0.1/32"], 1)
            assert [await status(gateway, link["token"]) for _ in range(4)].count(429) >= 1
    async with shared(tmp_path / "off", tokens.setting, gateway_share_seconds=0) as gateway:
        assert await status(gateway, tokens.acme, SHARE, "POST") == 404
    async with shared(tmp_path / "open", None) as gateway, httpx.AsyncClient(base_url=gateway.url) as http:
        answer = await http.post(f"{SHARE}?tenant=acme")
        assert (answer.status_code, "without tokens" in answer.text) == (409, True)

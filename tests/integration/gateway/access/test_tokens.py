"""Tokens of the store: made by the API, good on all gateways within a second, never more than their maker has."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from pipeline.gateway.access import token_memory, tokens
from pipeline.settings import Settings
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from tests.support.gateways import Tokens, client, running
from tests.support.waiting import until


def settings_of(tmp_path: Path, tokens: str) -> Settings:
    return Settings(home=tmp_path, gateway_port=0, gateway_tokens=SecretStr(tokens))


async def status(url: str, token: str, path: str = "/v1/threads") -> int:
    async with client(url, token) as http:
        return (await http.get(path)).status_code


async def test_a_token_from_its_making_to_its_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pipeline.audit")
    given = Tokens()
    settings = settings_of(tmp_path, given.setting)
    async with running(settings) as one, running(settings) as other, client(one.url, given.acme) as http:
        made = await http.post("/v1/tokens", json={"name": "ci", "scopes": ["read"]})
        assert made.status_code == 201
        fresh = made.json()
        secret = fresh.pop("token")
        assert (fresh["name"], fresh["scopes"], fresh["tenant"], fresh["made_by"]) == ("ci", ["read"], "acme", "acme")
        for gateway in (one, other):
            await until(lambda url=gateway.url: good(url, secret))  # type: ignore[misc]
            assert await status(gateway.url, secret, "/v1/tokens") == 403, "it may read, and nothing else"
        await until(lambda: used(http))
        rotated = (await http.post(f"/v1/tokens/{fresh['id']}/rotate", params={"overlap": 3600})).json()
        await until(lambda: good(other.url, rotated["token"]))
        assert await status(other.url, secret) == 200, "for an hour both are good"
        again = (await http.post(f"/v1/tokens/{fresh['id']}/rotate", params={"overlap": 0})).json()
        await until(lambda: bad(other.url, rotated["token"]))
        assert await status(other.url, again["token"]) == 200
        assert (await http.delete(f"/v1/tokens/{fresh['id']}")).status_code == 204
        assert (await http.delete(f"/v1/tokens/{fresh['id']}")).status_code == 404
        await until(lambda: bad(other.url, again["token"]))
    for kept in (secret, rotated["token"], again["token"]):
        assert kept not in caplog.text
        assert not [file for file in tmp_path.rglob("*") if file.is_file() and kept.encode() in file.read_bytes()]
    said = [record.getMessage() for record in caplog.records if record.name == "pipeline.audit"]
    said = [line for line in said if line.startswith("token ")]
    assert [line.split(" ", 3)[3].split(",")[0] for line in said] == ["made", "rotated", "rotated", "revoked"]


async def good(url: str, token: str) -> bool:
    return await status(url, token) == 200


async def bad(url: str, token: str) -> bool:
    return await status(url, token) == 401


async def used(http: httpx.AsyncClient) -> bool:
    return all(one["used_at"] is not None for one in (await http.get("/v1/tokens")).json()["tokens"])


@pytest.mark.parametrize(
    ("maker", "wanted", "answer"),
    [
        ("admin", {"scopes": ["read"]}, 403),  # it has no such scope itself
        ("acme", {"scopes": ["read"], "tenant": "globex"}, 403),
        ("acme", {"scopes": ["read"], "expires": "2020-01-01T00:00:00Z"}, 400),
        ("acme", {"scopes": ["read"], "addresses": ["10.0.0.1/8"]}, 400),
        ("acme", {"scopes": []}, 422),
        ("acme", {"scopes": ["everything"]}, 422),
        ("acme", {"scopes": ["read"], "rate": 0}, 422),
        ("acme", {"scopes": ["read"], "tenants": "acme"}, 422),
        ("operator", {"scopes": ["read"], "tenant": "no \0 name"}, 400),
        ("reader", {"scopes": ["read"]}, 403),
    ],
)
async def test_what_is_refused(tmp_path: Path, maker: str, wanted: dict[str, Any], answer: int) -> None:
    given = Tokens()
    async with running(settings_of(tmp_path, given.setting)) as gateway:
        async with client(gateway.url, getattr(given, maker)) as http:
            body = {"name": "x", **wanted}
            assert (await http.post("/v1/tokens", json=body)).status_code == answer
        async with client(gateway.url, given.operator) as http:
            assert (await http.get("/v1/tokens")).json() == {"tokens": []}


async def test_what_a_maker_is_bound_to_its_tokens_are(tmp_path: Path) -> None:
    given = Tokens()
    async with running(settings_of(tmp_path, given.setting)) as gateway, client(gateway.url, given.acme) as http:
        bounds = {"expires": "2100-01-01T00:00:00Z", "rate": 50, "addresses": ["127.0.0.0/8"]}
        maker = (await http.post("/v1/tokens", json={"name": "m", "scopes": ["admin", "read"], **bounds})).json()
        await until(lambda: good(gateway.url, maker["token"]))
        async with client(gateway.url, maker["token"]) as mine:
            plain = (await mine.post("/v1/tokens", json={"name": "a", "scopes": ["read"]})).json()
            wide = {"expires": "2200-01-01T00:00:00Z", "rate": 500, "addresses": ["127.0.0.1"]}
            wider = (await mine.post("/v1/tokens", json={"name": "b", "scopes": ["read"], **wide})).json()
            for one in (plain, wider):
                assert (one["expires_at"], one["rate"]) == (maker["expires_at"], 50)
            assert (plain["addresses"], wider["addresses"]) == (["127.0.0.0/8"], ["127.0.0.1/32"])
            elsewhere = {"name": "c", "scopes": ["read"], "addresses": ["0.0.0.0/0"]}
            assert (await mine.post("/v1/tokens", json=elsewhere)).status_code == 403
        far = {"name": "far", "scopes": ["read"], "addresses": ["203.0.113.0/24"]}
        far_off = (await http.post("/v1/tokens", json=far)).json()
        await until(lambda: refused(gateway.url, far_off["token"]))


async def refused(url: str, token: str) -> bool:
    return await status(url, token) == 403


async def test_its_own_rate_and_expiry(tmp_path: Path) -> None:
    given = Tokens()
    async with running(settings_of(tmp_path, given.setting)) as gateway, client(gateway.url, given.acme) as http:
        slow = (await http.post("/v1/tokens", json={"name": "s", "scopes": ["read"], "rate": 1})).json()
        async with client(gateway.url, slow["token"]) as mine:

            async def limited() -> bool:
                return (await mine.get("/v1/threads")).status_code == 429

            await until(limited)
        assert (await http.get("/v1/threads")).status_code == 200, "others have their own"
        soon = int(time.time() * 1000) + 2000
        short = await http.post("/v1/tokens", json={"name": "e", "scopes": ["read"], "expires": soon})
        assert short.json()["expires_at"] == soon
        await until(lambda: bad(gateway.url, short.json()["token"]))


async def test_tenants_see_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKENS", 2)
    given = Tokens()
    async with running(settings_of(tmp_path, given.setting)) as gateway:
        async with client(gateway.url, given.acme) as acme, client(gateway.url, given.globex) as globex:
            made = (await acme.post("/v1/tokens", json={"name": "x", "scopes": ["read"]})).json()
            path = f"/v1/tokens/{made['id']}"
            assert (await globex.get("/v1/tokens")).json() == {"tokens": []}
            assert (await globex.post(f"{path}/rotate")).status_code == 404
            assert (await globex.delete(path)).status_code == 404
            codes = [
                (await acme.post("/v1/tokens", json={"name": "x", "scopes": ["read"]})).status_code for _ in range(2)
            ]
            assert codes == [201, 409]
            assert (await globex.post("/v1/tokens", json={"name": "x", "scopes": ["read"]})).status_code == 201
        async with client(gateway.url, given.operator) as operator:
            assert len((await operator.get("/v1/tokens")).json()["tokens"]) == 3
            assert len((await operator.get("/v1/tokens", params={"tenant": "acme"})).json()["tokens"]) == 2


async def test_tokens_of_an_open_gateway_do_not_close_it(tmp_path: Path) -> None:
    async with running(Settings(home=tmp_path, gateway_port=0)) as gateway, client(gateway.url) as http:
        assert (await http.post("/v1/tokens", json={"name": "x", "scopes": ["read"]})).status_code == 201
        assert (await http.get("/v1/threads")).status_code == 200


async def test_a_gateway_with_tokens_of_the_store_alone(tmp_path: Path) -> None:
    async with running(settings_of(tmp_path, "store")) as gateway, client(gateway.url) as http:
        assert (await http.get("/v1/threads")).status_code == 401
        assert await status(gateway.url, "tm_unknown") == 401


async def test_while_the_store_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that are known hold for some minutes; then nobody knows whether they were revoked."""
    given = Tokens()
    async with running(settings_of(tmp_path, given.setting)) as gateway, client(gateway.url, given.acme) as http:
        secret = (await http.post("/v1/tokens", json={"name": "x", "scopes": ["read"]})).json()["token"]
        await until(lambda: good(gateway.url, secret))

        async def away(_: ThreadStore) -> tuple[int, int]:
            raise StoreError("away", transient=True)

        monkeypatch.setattr(token_memory, "tokens_stamp", away)
        monkeypatch.setattr(token_memory, "FRESH_SECONDS", 0.0)
        assert await status(gateway.url, secret) == 200
        monkeypatch.setattr(token_memory, "STALE_SECONDS", 0.0)
        assert await status(gateway.url, secret) == 503
        assert (await http.get("/v1/threads")).status_code == 200, "those of the settings need no store"

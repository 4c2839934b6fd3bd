"""Saved views: one's own, the team's, and nobody else's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from pipeline.gateway.access.principal import Scope
from pipeline.gateway.access.token_table import new_token
from pipeline.gateway.dashboard import views
from pipeline.settings import Settings
from pipeline.stores.accounts.views import forget_views
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.tenant_erasure import rows_left
from tests.support.gateways import client, running

VIEW = {"name": "failed", "address": "#/threads?status=interrupted&sort=cost"}
CALLERS: dict[str, tuple[tuple[Scope, ...], str | None]] = {
    "ann": (("read", "feedback"), "acme"),
    "bob": (("read", "feedback"), "acme"),
    "viewer": (("read",), "acme"),
    "boss": (("read", "feedback", "admin"), "acme"),
    "eve": (("read", "feedback", "admin"), "globex"),
    "operator": (("read", "feedback", "admin"), None),
}


@asynccontextmanager
async def callers(tmp_path: Path, **more: Any) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    made = {name: new_token(name, *rest) for name, rest in CALLERS.items()}
    lines = "\n".join(line.model_dump_json(exclude_none=True) for _, line in made.values())
    async with running(Settings(home=tmp_path, gateway_port=0, gateway_tokens=SecretStr(lines), **more)) as gateway:
        found = {}
        for name, (token, _) in made.items():
            found[name] = httpx.AsyncClient(base_url=gateway.url, headers={"Authorization": f"Bearer {token}"})
        yield found
        for one in found.values():
            await one.aclose()


async def seen(one: httpx.AsyncClient) -> list[tuple[str, bool]]:
    return [(view["name"], view["own"]) for view in (await one.get("/v1/views")).json()["views"]]


async def test_ones_own_and_the_teams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with callers(tmp_path) as of:
        mine = await of["ann"].post("/v1/views", json=VIEW)
        assert mine.status_code == 201
        assert mine.json() == {**VIEW, "id": mine.json()["id"], "shared": False, "owner": "ann", "own": True}
        ours = (await of["ann"].post("/v1/views", json={**VIEW, "name": "ours", "shared": True})).json()
        assert (await of["viewer"].post("/v1/views", json=VIEW)).status_code == 403
        assert await seen(of["ann"]) == [("failed", True), ("ours", True)]
        assert await seen(of["bob"]) == await seen(of["viewer"]) == [("ours", False)]
        assert await seen(of["boss"]) == [("ours", True)]
        assert await seen(of["eve"]) == await seen(of["operator"]) == []
        path = f"/v1/views/{ours['id']}"
        assert (await of["bob"].delete(path)).status_code == 403
        assert (await of["viewer"].delete(path)).status_code == 403
        assert (await of["eve"].delete(path)).status_code == 404
        assert (await of["boss"].delete(f"/v1/views/{mine.json()['id']}")).status_code == 404, "it is ann's alone"
        assert (await of["boss"].delete(path)).status_code == 204
        assert await seen(of["bob"]) == []
        monkeypatch.setattr(views, "VIEWS", 1)
        assert (await of["bob"].post("/v1/views", json=VIEW)).status_code == 409
    async with await ThreadStore.open(f"sqlite:///{tmp_path / 'threads.db'}") as store:
        assert (await rows_left(store, "acme"))["views"] == 1
        await forget_views(store, "acme")
        assert (await rows_left(store, "acme"))["views"] == 0


async def test_views_are_of_a_caller_and_not_of_a_name(tmp_path: Path) -> None:
    async with callers(tmp_path) as of:
        wanted = {"name": "twin", "scopes": ["read", "feedback"]}
        first, second = [(await of["boss"].post("/v1/tokens", json=wanted)).json() for _ in range(2)]
        boss = of["boss"]

        def speaks(token: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {token}"}

        made = await boss.post("/v1/views", json=VIEW, headers=speaks(first["token"]))
        assert made.status_code == 201, made.text
        assert (await boss.get("/v1/views", headers=speaks(second["token"]))).json() == {"views": []}
        path = f"/v1/views/{made.json()['id']}"
        assert (await boss.delete(path, headers=speaks(second["token"]))).status_code == 404
        rotated = (await boss.post(f"/v1/tokens/{first['id']}/rotate")).json()["token"]
        [still] = (await boss.get("/v1/views", headers=speaks(rotated))).json()["views"]
        assert (still["owner"], still["own"]) == ("twin", True)


@pytest.mark.parametrize(
    "address", ["", "/", "https://evil.example", "javascript:alert(1)", "#/tokens", "#/threads?a b", "#//evil.example"]
)
async def test_an_address_is_one_of_our_own_page(tmp_path: Path, address: str) -> None:
    async with callers(tmp_path) as of:
        assert (await of["ann"].post("/v1/views", json={**VIEW, "address": address})).status_code == 422


async def test_on_an_open_gateway_all_are_shared(tmp_path: Path) -> None:
    async with running(Settings(home=tmp_path, gateway_port=0)) as gateway, client(gateway.url) as http:
        made = (await http.post("/v1/views", json={"name": "x", "address": "#/"})).json()
        assert made["shared"]
        assert await seen(http) == [("x", True)]
        assert (await http.delete(f"/v1/views/{made['id']}")).status_code == 204

"""Attacks by a backup: what was revoked, rotated, held, erased or given since is right in a store that is restored."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import httpx

from tests.attack.attack import Attack
from tests.attack.erasing import SETTINGS
from tests.attack.stage import Said, Stage
from tests.support.gateways import client
from tests.support.waiting import until


def copied(stage: Stage, name: str) -> str:
    """The address of a copy of the store, as a backup makes it."""
    store = stage.settings.store_url.removeprefix("sqlite:///")
    copy = Path(stage.settings.home) / f"{name}.db"
    with closing(sqlite3.connect(store)) as one, closing(sqlite3.connect(copy)) as other:
        one.backup(other)
    return f"sqlite:///{copy}"


@asynccontextmanager
async def restored(stage: Stage, backup: str) -> AsyncIterator[str]:
    """Follow the documented steps with a backup -> the address of a gateway of the restored store."""
    store = stage.settings.store_url.removeprefix("sqlite:///")

    async def all_told() -> bool:
        with closing(sqlite3.connect(store)) as connection:
            told = connection.execute("SELECT count(*) FROM notices WHERE record LIKE '%store.changed%'").fetchone()
        return told == (0,)

    await until(all_told, stage.worker.text)
    status, said = await stage.command("doctor", "--ledger", store=backup)
    assert (status, "turnmill store restore" in said) == (1, True), f"an old store is not noticed: {said[-800:]}"
    status, said = await stage.command("store", "restore", store=backup)
    assert status == 0, said[-2000:]
    async with stage.another_gateway(store=backup, gateway_tokens=stage.settings.gateway_tokens) as url:
        yield url


async def made(stage: Stage, kind: str, /, **body: Any) -> dict[str, Any]:
    answer = await stage.acme.post(f"/v1/{kind}", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def bearer(stage: Stage) -> str:
    return stage.acme.headers["Authorization"].removeprefix("Bearer ")


async def status_of(url: str, token: str) -> int:
    async with client(url, token) as http:
        return (await http.get("/v1/threads")).status_code


async def judged(stage: Stage, said: Said, name: str, value: object) -> None:
    body = {"id": name, "name": name, "value": value}
    answer = await stage.acme.post(f"/v1/threads/{said.thread}/feedback", json=body)
    assert answer.status_code < 300, answer.text
    await until(lambda: shown(stage.acme, said, name, value))


async def shown(caller: httpx.AsyncClient, said: Said, name: str, value: object) -> bool:
    found = (await caller.get(f"/v1/threads/{said.thread}?feedback=true")).json()["meta:feedback"]
    return [one["value"] for one in found if one["id"] == name] == ([] if value is None else [value])


async def of_old_rights(stage: Stage) -> None:
    """Tokens, holds, erasures and feedback."""
    kept, gone, held = [await stage.speak() for _ in range(3)]
    for one in (kept, gone, held):
        await stage.is_whole(one)
    revoked = await made(stage, "tokens", name="revoked", scopes=["read"])
    rotated = await made(stage, "tokens", name="rotated", scopes=["read"])
    await judged(stage, kept, "changed", 1)
    await judged(stage, kept, "withdrawn", 1)
    backup = copied(stage, "rights")

    await stage.acme.delete(f"/v1/tokens/{revoked['id']}")
    fresh = (await stage.acme.post(f"/v1/tokens/{rotated['id']}/rotate?overlap=0")).json()["token"]
    since = await made(stage, "tokens", name="since", scopes=["read"])
    assert (await stage.acme.put(f"/v1/threads/{held.thread}/hold")).status_code == 200
    assert (await stage.acme.delete(f"/v1/threads/{gone.thread}")).status_code == 200
    for name, value in (("changed", 0), ("withdrawn", None), ("given", 1)):
        await judged(stage, kept, name, value)

    async with restored(stage, backup) as url:
        tokens = [revoked["token"], rotated["token"], fresh, since["token"]]
        found = await asyncio.gather(*(status_of(url, token) for token in tokens))
        assert found == [401, 401, 200, 200], f"revoked, old, new and later tokens answer {found}"
        async with client(url, bearer(stage)) as acme:
            assert (await acme.delete(f"/v1/threads/{held.thread}")).status_code == 409, "a held thread can be deleted"
            assert (await acme.get(f"/v1/threads/{gone.thread}")).status_code == 404, "an erased thread is back"
            for name, value in (("changed", 0), ("withdrawn", None), ("given", 1)):
                assert await shown(acme, kept, name, value), f"the feedback {name!r} is that of the backup"
    await stage.acme.delete(f"/v1/threads/{held.thread}/hold")


async def of_old_settings(stage: Stage) -> None:
    """Webhooks with their secrets, and views."""
    hooks = [await made(stage, "webhooks", url=f"https://{name}.example/") for name in ("dropped", "rotated")]
    view = await made(stage, "views", name="dropped", address="#/threads", shared=True)
    backup = copied(stage, "settings")
    await stage.acme.delete(f"/v1/webhooks/{hooks[0]['id']}")
    assert (await stage.acme.post(f"/v1/webhooks/{hooks[1]['id']}/secret")).status_code < 300
    since = await made(stage, "webhooks", url="https://since.example/")
    await stage.acme.delete(f"/v1/views/{view['id']}")
    await made(stage, "views", name="since", address="#/threads", shared=True)
    store = stage.settings.store_url.removeprefix("sqlite:///")
    async with restored(stage, backup) as url, client(url, bearer(stage)) as acme:
        ids = {one["id"] for one in (await acme.get("/v1/webhooks")).json()["webhooks"]}
        assert ids == {hooks[1]["id"], since["id"]}, f"webhooks of the backup: {ids}"
        names = [one["name"] for one in (await acme.get("/v1/views")).json()["views"]]
        assert names == ["since"], f"views of the backup: {names}"
        signs = [secrets(file, hooks[1]["id"]) for file in (store, backup.removeprefix("sqlite:///"))]
        assert signs[0] == signs[1], "a webhook signs with the secret that was replaced"
    for one in (hooks[1], since):
        assert (await stage.acme.delete(f"/v1/webhooks/{one['id']}")).status_code == 204


def secrets(file: str, webhook: str) -> Any:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT secrets FROM webhooks WHERE id = ?", (webhook,)).fetchone()


ATTACKS: Final = (
    Attack(
        "restored rights",
        "a store of before tokens were revoked and rotated, threads held and erased, feedback changed and withdrawn",
        "give back what was taken away",
        of_old_rights,
        SETTINGS,
    ),
    Attack(
        "restored settings",
        "a store of before webhooks were dropped and given other secrets, and views deleted",
        "give them back",
        of_old_settings,
        SETTINGS,
    ),
)

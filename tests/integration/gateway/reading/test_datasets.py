"""Data sets over HTTP: who fills them, who sees them, and threads by them."""

from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import datasets as stored
from pipeline.stores.turns import write_turns
from tests.support.gateways import Running, Tokens, client
from tests.support.turn_records import make_record
from turnmill.identity import thread_uuid, turn_id

ONE = thread_uuid("one")[0]


@pytest.fixture
def gateway_settings(gateway_settings: Settings) -> Settings:
    return gateway_settings.model_copy(update={"audit_retention": 1.0, "webhooks": SecretStr("[]")})


@pytest.fixture(autouse=True)
async def chats(gateway_settings: Settings) -> None:
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        for tenant in ("acme", "globex"):
            made = [make_record("one", f"r{n}", seconds=n, text=f"{tenant} {n}", tenant=tenant) for n in range(3)]
            for one in made:
                one["turn"] |= {"meta:turn_id": one["turn_id"], "meta:run_id": one["run_id"]}
            await write_turns(store, made)


async def test_who_gives_feedback_fills_them_and_who_reads_sees_them(guarded: Running, tokens: Tokens) -> None:
    turn = turn_id(ONE, "r1")
    path = "/v1/threads/one/datasets/Good%20ones"
    async with (
        client(guarded.url, tokens.acme) as acme,
        client(guarded.url, tokens.reader) as reader,
        client(guarded.url, tokens.globex) as globex,
        client(guarded.url, tokens.operator) as operator,
    ):
        made = (await acme.put(path, params={"turn": turn})).json()
        assert made == {"dataset": "Good ones", "tenant": "acme", "turns": 1}
        assert (await acme.put(path)).json()["turns"] == 2
        for method in ("PUT", "DELETE"):
            assert (await reader.request(method, path)).status_code == 403
        assert (await reader.delete("/v1/datasets/Good%20ones")).status_code == 403
        [listed] = (await reader.get("/v1/datasets")).json()["datasets"]
        assert (listed["name"], listed["tenant"], listed["turns"]) == ("Good ones", "acme", 3)
        page = (await reader.get("/v1/datasets/Good%20ones?limit=2")).json()
        assert [(each["number"], each["thread_id"]) for each in page["turns"]] == [(1, ONE), (2, ONE)]
        rest = (await reader.get(f"/v1/datasets/Good%20ones?after={page['next']}")).json()
        assert (page["turns"][0]["turn_id"], [each["number"] for each in rest["turns"]], rest["next"]) == (
            turn,
            [3],
            None,
        )

        assert (await globex.get("/v1/datasets")).json() == {"datasets": []}
        assert (await globex.get("/v1/datasets/Good%20ones")).status_code == 404
        assert (await globex.delete("/v1/datasets/Good%20ones")).status_code == 404
        assert (await globex.delete(path)).status_code == 404
        assert (await globex.get("/v1/threads?dataset=Good%20ones")).json()["threads"] == []
        assert (await operator.put(path)).status_code == 409, "whose thread is meant?"
        assert (await operator.put(path, params={"tenant": "globex"})).json()["turns"] == 3
        assert len((await operator.get("/v1/datasets")).json()["datasets"]) == 2
        assert (await operator.delete("/v1/datasets/Good%20ones", params={"tenant": "globex"})).json()["turns"] == 3

        assert (await acme.delete(path, params={"turn": turn})).json()["turns"] == 1
        assert (await acme.delete(path, params={"turn": turn})).status_code == 404
        assert (await acme.delete("/v1/datasets/Good%20ones")).json()["turns"] == 2
        assert (await acme.get("/v1/datasets/Good%20ones")).status_code == 404
        entries = (await acme.get("/v1/audit", params={"what": "dataset"})).json()["records"]
        assert [(each["action"], each["subject"], each["who"]) for each in entries] == [
            ("dataset.delete", "Good ones", "acme"),
            ("dataset.remove", ONE, "acme"),
            ("dataset.add", ONE, "acme"),
            ("dataset.add", ONE, "acme"),
        ]


async def test_what_is_refused_says_what_to_do(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async def said(method: str, path: str, status: int) -> str:
        answer = await http.request(method, path)
        assert answer.status_code == status, answer.text
        return str(answer.json()["detail"])

    of = "?tenant=acme"
    assert "no turn 'none'" in await said("PUT", f"/v1/threads/one/datasets/x{of}&turn=none", 404)
    for name in ("%20x", "a%0Ab", "x" * 101, "a%5Cb", "%00"):
        await said("PUT", f"/v1/threads/one/datasets/{name}{of}", 422)
    await said("GET", "/v1/datasets/x?after=-1", 422)
    monkeypatch.setattr(stored, "DATASET_TURNS", 2)
    assert "at most 2 turns" in await said("PUT", f"/v1/threads/one/datasets/x{of}", 409)
    assert "no data set 'x'" in await said("GET", "/v1/datasets/x", 404)


async def test_a_thread_has_the_turns_that_are_in_a_set(guarded: Running, tokens: Tokens) -> None:
    async with client(guarded.url, tokens.acme) as acme:
        for run in ("r0", "r2"):
            await acme.put("/v1/threads/one/datasets/golden", params={"turn": turn_id(ONE, run)})

        async def read(**query: Any) -> httpx.Response:
            return await acme.get("/v1/threads/one", params={"dataset": "golden", **query})

        document = (await read()).json()
        assert [turn["meta:run_id"] for turn in document["turns"]] == ["r0", "r2"]
        messages = (await read(format="openai-chat")).json()["messages"]
        assert [message["content"] for message in messages] == ["acme 0", "acme 2"]
        assert (await read(last=1)).status_code == (await read(branch="r0")).status_code == 400
        assert (await read(dataset="none")).status_code == 404
        found = (await acme.get("/v1/threads?dataset=golden")).json()["threads"]
        assert [thread["thread_id"] for thread in found] == [ONE]
        tag = (await read()).headers["etag"]
        assert (await acme.get("/v1/threads/one?dataset=golden", headers={"If-None-Match": tag})).status_code == 304

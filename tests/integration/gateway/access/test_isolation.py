"""Tenants: every route of the app, as its own OpenAPI document lists them, with another tenant's ids."""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx
import pytest

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.datasets import add_turns
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback
from pipeline.stores.turns import write_turns
from pipeline.turns.requests import digest
from tests.support.assembled import assembled
from tests.support.endpoints import facts_of_routes
from tests.support.gateways import Running, Tokens, client, replayed, sse, talk
from tests.support.turn_records import make_record
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

SECRET = "the-secret-of-acme"
WORD = "the"  # of the secret: a hit would show the rest of it
OPEN = {"/livez", "/readyz", "/metrics"}
LISTS = (("feedback", "names"), ("datasets", "datasets"), ("tools", "tools"))  # of what people named, and their key


@pytest.fixture
async def secret(gateway_settings: Settings, guarded: Running, tokens: Tokens) -> str:
    """A thread of acme, stored and on the topic, with the secret in every place that has room for it."""
    events = [{**event, "delta": SECRET} if "delta" in event else event for event in talk(3)]
    async with client(guarded.url, tokens.acme) as http:
        answer = await http.post(
            f"/v1/threads/{SECRET}/runs/{SECRET}/stream",
            params={"dialect": "vercel-ai", "agent_name": SECRET, "model_name": SECRET},
            content=sse(events),
        )
        thread_id: str = answer.json()["thread_id"]
        goes_on = await http.post(
            f"/v1/threads/open/runs/{SECRET}/stream",
            params={"dialect": "vercel-ai", "agent_id": SECRET, "agent_name": SECRET, "end": "open"},
            content=sse(events[:4]),
        )
        assert goes_on.status_code == 200, goes_on.text
    run = {"agent_name": SECRET, "model_name": SECRET, "external_id": SECRET}
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        records: list[Any] = [
            {**record, "thread_id": thread_id, "tenant": "acme", "agent_id": SECRET}
            for record in assembled("vercel-ai", events, run=run, end="complete").records
        ]
        body = {"system": SECRET}
        records[-1]["requests"] = {digest(body): body}
        [answer] = [message for message in records[-1]["turn"]["messages"] if message["message_type"] == "response"]
        answer["parts"].append({"part_kind": "tool-call", "tool_name": SECRET, "tool_call_id": "c", "args": {}})
        await write_turns(store, records)
        judged: Any = {"v": 1, "thread_id": thread_id, "tenant": "acme", "id": "f", "name": SECRET, "value": 1}
        await add_feedback(store, [ReceivedFeedback({**judged, "at": 1_768_903_200_000}, 1_768_903_200_000, 0)])
        await add_turns(store, ThreadKey.of(thread_id, "acme"), SECRET, None, 0)
    return thread_id


def requests_of(document: dict[str, Any], thread_id: str) -> list[tuple[str, str, dict[str, Any], int]]:
    """Method, path and query of each operation, with everything that is asked for filled in; and the status for
    another tenant's thread. Of what takes JSON, none is sent; whose thread it is about: test_feedback.py,
    test_commands.py.
    """
    found, facts = [], facts_of_routes()
    for template, methods in document["paths"].items():
        for method, operation in methods.items():
            takes_json = "application/json" in operation.get("requestBody", {}).get("content", {})
            expected = 422 if takes_json else facts[method, template].strangers
            path = template
            query: dict[str, Any] = {"follow": "false"}
            for parameter in operation.get("parameters", ()):
                schema = parameter["schema"]
                if parameter["in"] == "path":
                    value = (
                        "0" if schema.get("type") == "integer" else "r" if parameter["name"] == "run_id" else thread_id
                    )
                    path = path.replace(f"{{{parameter['name']}}}", value)
                elif parameter["in"] == "query" and parameter.get("required"):
                    query[parameter["name"]] = (
                        WORD if parameter["name"] == "q" else schema["enum"][-1] if "enum" in schema else "1"
                    )
            found.append((method, path, query, expected))
    return sorted(found, key=lambda request: request[0] == "post")  # last: a tenant may use the id for its own thread


async def tried(http: httpx.AsyncClient, method: str, path: str, query: dict[str, Any]) -> tuple[int, str]:
    """Status and the beginning of the answer; streams without an end are read for a moment."""
    content = sse(talk(1)) if method == "post" else None
    text = ""
    async with http.stream(method.upper(), path, params=query, content=content) as answer:
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                async for chunk in answer.aiter_text():
                    text += chunk
        return answer.status_code, text


async def judgement(http: httpx.AsyncClient) -> dict[str, Any]:
    """Return mean and count of the feedback that is named like the secret, from a report of usage."""
    report = (await http.get("/v1/usage", params={"feedback": SECRET})).json()
    judged: dict[str, Any] = report["total"]["feedback"][SECRET]
    return judged


async def test_no_route_gives_anything_of_another_tenant(guarded: Running, tokens: Tokens, secret: str) -> None:
    document = guarded.app.openapi()
    async with client(guarded.url, tokens.acme) as http:
        place = (await replayed(http, secret))[2].id
    async with client(guarded.url, tokens.globex) as http:
        for ids in (secret, SECRET):
            for method, path, query, expected in requests_of(document, ids):
                status, text = await tried(http, method, path, query)
                assert status < 500, (method, path, text)
                echoed = text.replace(ids, "") if ids == SECRET else text
                assert SECRET not in echoed, (method, path, text[:2000])
                if ids == secret and f"/{secret}" in path:
                    assert status == expected, (method, path, status, text)
        asked = f"/v1/requests/{digest({'system': SECRET})}"
        assert (await http.get(asked)).status_code == 404
        for query in ({}, {"thread": "open"}, {"agent": SECRET}, {"status": "waiting"}):
            answer = await http.get("/v1/runs", params=query)
            assert answer.json() == {"runs": []}, query
        for path, key in LISTS:
            answer = await http.get(f"/v1/{path}")
            assert answer.json()[key] == [], path
        for narrowed in ({"feedback": f"{SECRET}=1"}, {"dataset": SECRET}, {"tool": SECRET}, {"agent": SECRET}):
            for path in ("threads", "tools"):
                answer = await http.get(f"/v1/{path}", params=narrowed)
                assert answer.json().get(path) == [], (narrowed, answer.text)
        assert await judgement(http) == {"mean": None, "count": 0}
        for more in ({}, {"dialect": "vercel-ai"}, {"wait": "true"}, {"replay": "none", "wait": "true"}):
            for after in ({}, {"last_event_id": place}):
                query = {"follow": "false", **more, **after}
                _, text = await tried(http, "get", f"/v1/threads/{secret}/live", query)
                assert SECRET not in text, query
    async with client(guarded.url, tokens.acme) as http:
        answer = await http.get(f"/v1/threads/{secret}")
        assert answer.status_code == 200, "it is still there"
        assert answer.text.count(SECRET) >= 3
        assert (await http.get(asked)).json() == {"system": SECRET}
        assert len(await replayed(http, secret)) == len(talk(3)) + 1, "and nobody has added to it"
        listed = (await http.get("/v1/threads")).json()["threads"]
        assert [run["run_id"] for run in (await http.get("/v1/runs")).json()["runs"]] == [SECRET]
        assert [(thread["thread_id"], thread["tenant"]) for thread in listed] == [(secret, "acme")]
        for path, _ in LISTS:
            assert SECRET in (await http.get(f"/v1/{path}")).text, path
        assert (await http.get("/v1/threads", params={"feedback": f"{SECRET}=1"})).json()["threads"] == listed
        assert await judgement(http) == {"mean": 1.0, "count": 1}
        (found,) = (await http.get("/v1/search", params={"q": WORD})).json()["results"]
        assert found["thread_id"] == secret
        assert SECRET in found["snippet"]
    async with client(guarded.url, tokens.operator) as http:
        assert (await http.get("/v1/threads?tenant=acme")).json()["threads"]
        assert not (await http.get("/v1/threads?tenant=globex")).json()["threads"]


async def test_without_a_good_token_no_route_answers(guarded: Running, tokens: Tokens) -> None:
    for token, allowed in ((None, set()), ("tm_made-up", set()), (tokens.reader, {"read"})):
        async with client(guarded.url, token) as http:
            for path, methods in guarded.app.openapi()["paths"].items():
                for method, operation in methods.items():
                    needs = [set(need["token"]) for need in operation.get("security", ())]  # each of them will do
                    assert all(needs), f"{path} needs no scope"
                    assert needs or path in OPEN, f"{path} needs no scope"
                    if not needs or any(scopes <= allowed for scopes in needs):
                        continue
                    target = path.replace("{thread_id}", "x").replace("{run_id}", "y")
                    target = target.replace("{partition}", "0").replace("{offset}", "0")
                    answer = await http.request(method, target, params={"dialect": "vercel-ai"})
                    assert answer.status_code == (403 if allowed else 401), (method, path, answer.text)
                    assert answer.headers["www-authenticate"].startswith("Bearer")
                    assert answer.headers["content-type"] == "application/problem+json"


async def test_two_tenants_may_call_their_conversations_alike(guarded: Running, tokens: Tokens) -> None:
    ids = set()
    for token, count in ((tokens.acme, 1), (tokens.globex, 2), (tokens.operator, 3)):
        async with client(guarded.url, token) as http:
            answer = await http.post("/v1/threads/chat-1/runs/r/stream?dialect=vercel-ai", content=sse(talk(count)))
            ids.add(answer.json()["thread_id"])
    assert len(ids) == 3
    for token, count, tenant in ((tokens.acme, 1, "acme"), (tokens.globex, 2, "globex")):
        async with client(guarded.url, token) as http:
            assert len(await replayed(http, "chat-1")) == len(talk(count)) + 1
            assert len(await replayed(http, thread_uuid("chat-1", tenant)[0])) == len(talk(count)) + 1


async def test_one_uuid_of_several_tenants_is_as_many_threads(guarded: Running, tokens: Tokens) -> None:
    """Whoever comes first, and whether or not anything of it is stored: nobody can take it from anybody else."""
    uuid = str(uuid4())
    url = f"/v1/threads/{uuid}/runs/r/stream?dialect=vercel-ai"
    for token, query, count in (
        (tokens.acme, "", 1),
        (tokens.globex, "", 2),
        (tokens.operator, "", 3),
        (tokens.operator, "&tenant=globex", 2),
        (tokens.acme, "", 1),
    ):
        async with client(guarded.url, token) as http:
            answer = await http.post(url + query, content=sse(talk(count)))
            assert (answer.status_code, answer.json()["thread_id"]) == (200, uuid), (query, answer.text)


async def test_nobody_takes_over_a_thread_by_coming_first(
    gateway_settings: Settings, guarded: Running, tokens: Tokens
) -> None:
    """A UUID that anyone can compute, used first by another tenant, and dated to the future."""
    uuid = thread_uuid("order-4711", "acme")[0]
    mine, theirs = f"/v1/threads/{uuid}", f"/v1/threads/{uuid}/runs/r/stream?dialect=vercel-ai"
    records: list[Any] = [
        make_record(uuid, "evil", tenant="globex", text="globex was here", seconds=9999),
        make_record(uuid, "r", "user", role="user", tenant="acme", text=SECRET, thread={"external_id": "order-4711"}),
    ]
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        await write_turns(store, records)
    async with client(guarded.url, tokens.globex) as globex, client(guarded.url, tokens.acme) as acme:
        assert (await globex.post(theirs, content=sse(talk(1)))).status_code == 200
        for path in ("/v1/threads", mine, f"{mine}/tree", f"{mine}/usage", "/v1/usage?group_by=thread"):
            answer = await globex.get(path)
            assert (answer.status_code, SECRET in answer.text) == (200, False), path
        for name in (uuid, "order-4711"):
            assert SECRET in (await acme.get(f"/v1/threads/{name}")).text
        assert (await acme.get(f"{mine}?tenant=globex")).status_code == 403
        async with client(guarded.url, tokens.operator) as operator:
            for method in ("GET", "DELETE"):
                answer = await operator.request(method, mine)
                assert (answer.status_code, answer.json()["tenants"]) == (409, ["acme", "globex"]), answer.text
            for path in (f"{mine}/tree", f"{mine}/usage"):
                assert (await operator.get(path)).status_code == 409, path
                assert (await operator.get(f"{path}?tenant=acme")).status_code == 200, path
            assert (await operator.get(f"{mine}?tenant=")).status_code == 404, "none is without a tenant"
        assert (await globex.delete(mine)).status_code == 200
        assert (await globex.get(mine)).status_code == 404
        assert (await globex.post(theirs, content=sse(talk(1)))).status_code == 409
        assert SECRET in (await acme.get(mine)).text
        for name in (uuid, "order-4711"):
            url = f"/v1/threads/{name}/runs/r2/stream?dialect=vercel-ai"
            assert (await acme.post(url, content=sse(talk(1)))).status_code == 200


async def test_a_token_of_a_tenant_names_no_other(guarded: Running, tokens: Tokens) -> None:
    async with client(guarded.url, tokens.acme) as http:
        for method, path in (
            ("GET", "/v1/threads?tenant=globex"),
            ("POST", "/v1/threads/x/runs/y/stream?tenant=globex&dialect=vercel-ai"),
        ):
            answer = await http.request(method, path, content=sse(talk(1)) if method == "POST" else None)
            assert (answer.status_code, answer.json()["type"]) == (403, "/docs#forbidden")


async def test_who_reaches_all_says_whose_thread_is_read_and_deleted(
    gateway_settings: Settings, guarded: Running, tokens: Tokens
) -> None:
    """Found by the review: an operator's deletion by a conversation's id hit whichever tenant came first."""
    uuid = str(uuid4())
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        for tenant in ("acme", "globex"):
            run = {"external_id": "order-4711"}
            for record in assembled("vercel-ai", talk(3), run=run, end="complete").records:
                for thread_id in (uuid, thread_uuid("order-4711", tenant)[0]):
                    mine: Any = {**record, "thread_id": thread_id, "tenant": tenant}
                    await write_turns(store, [mine])
    async with client(guarded.url, tokens.operator) as http:
        for name in (uuid, "order-4711"):
            for method, path in (("GET", ""), ("GET", "/tree"), ("GET", "/usage"), ("GET", "/live"), ("DELETE", "")):
                answer = await http.request(method, f"/v1/threads/{name}{path}", params={"follow": "false"})
                assert answer.status_code == 409, (method, name, path, answer.text)
                assert answer.json()["tenants"] == ["acme", "globex"]
        assert (await http.delete(f"/v1/threads/{uuid}?tenant=acme")).status_code == 200
        assert (await http.get(f"/v1/threads/{uuid}?tenant=acme")).status_code == 404
        assert (await http.get(f"/v1/threads/{uuid}?tenant=globex")).status_code == 200
    async with client(guarded.url, tokens.globex) as http:
        assert (await http.get(f"/v1/threads/{uuid}")).status_code == 200
        assert (await http.get("/v1/threads/order-4711")).status_code == 200

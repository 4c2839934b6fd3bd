"""Feedback from its callers, over HTTP and Kafka, into the store and the documents of threads."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from pipeline.gateway.access.token_table import new_token
from pipeline.kafka.reading import records_of
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.support.gateways import Running, Tokens, client, running
from tests.support.turn_records import make_record
from tests.support.waiting import until
from tests.support.workers import WorkerProcess
from topics.catalog import DEAD_LETTERS, FEEDBACK
from turnmill import ClientSettings, Publisher, feedback
from turnmill.errors import BrokerError
from turnmill.identity import thread_uuid


@pytest.fixture
async def served(applied_settings: Settings) -> AsyncIterator[tuple[Running, Tokens]]:
    """A gateway with tokens, a worker that stores feedback, and a stored thread of two tenants."""
    tokens = Tokens()
    settings = applied_settings.model_copy(
        update={"gateway_port": 0, "gateway_tokens": SecretStr(tokens.setting), "checkpoint_interval": 0.2}
    )
    async with await ThreadStore.open(settings.store_url, migrate=True) as store:
        for tenant in ("acme", "globex"):
            uuid = thread_uuid("chat", tenant)[0]
            await write_turns(store, [{**make_record("chat", tenant=tenant), "thread_id": uuid}])
    worker = WorkerProcess(settings.model_copy(update={"gateway_tokens": None}), roles="feedback").start()
    try:
        async with running(settings) as gateway:
            yield gateway, tokens
    finally:
        worker.stop()


async def shown(http: httpx.AsyncClient, chat: str = "chat") -> list[dict[str, Any]]:
    answer = await http.get(f"/v1/threads/{chat}", params={"feedback": "true"})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["meta:feedback"]
    return found


async def say(http: httpx.AsyncClient, **given: Any) -> str:
    answer = await http.post("/v1/threads/chat/feedback", json=given)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_feedback_is_said_replaced_and_taken_back(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served
    async with client(gateway.url, tokens.acme) as http, client(gateway.url, tokens.globex) as other:
        assert await shown(http) == []
        first = await say(http, name="helpful", value=True, turn_id="t", message=0, comment="to the point")
        mine = await say(http, name="score", value=0.5, id="mine", by="judge")
        assert mine == "mine"

        async def both() -> bool:
            return len(await shown(http)) == 2

        await until(both)
        about = {one["id"]: one for one in await shown(http)}
        assert about[first].items() >= {"value": True, "turn_id": "t", "message": 0, "by": "acme"}.items()
        assert about["mine"]["by"] == "judge"
        await say(http, name="score", value=0.9, id="mine")
        await say(http, name="helpful", value=None, id=first)

        async def changed() -> bool:
            return [(one["id"], one["value"]) for one in await shown(http)] == [("mine", 0.9)]

        await until(changed)
        assert await shown(other) == []
        assert (await http.get("/v1/threads/chat", params={"feedback": "true", "format": "ag-ui"})).status_code == 400


async def test_who_may_say_something(applied_settings: Settings) -> None:
    tokens = Tokens()
    judge, line = new_token("judge", ("feedback",), "acme")
    setting = SecretStr(f"{tokens.setting}\n{line.model_dump_json(exclude_none=True)}")
    settings = applied_settings.model_copy(update={"gateway_port": 0, "gateway_tokens": setting})
    async with running(settings) as gateway:
        for token, status in ((judge, 201), (tokens.sender, 201), (tokens.reader, 403), (tokens.admin, 403)):
            async with client(gateway.url, token) as http:
                answer = await http.post("/v1/threads/chat/feedback", json={"name": "n", "value": 1})
                assert answer.status_code == status, answer.text
        async with client(gateway.url, judge) as http:
            assert (await http.get("/v1/threads/chat")).status_code == 403
            answer = await http.post("/v1/threads/chat/feedback?tenant=globex", json={"name": "n", "value": 1})
            assert answer.status_code == 403


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"name": "n"}, 422),
        ({"value": 1}, 422),
        ({"name": "", "value": 1}, 422),
        ({"name": "n", "value": [1]}, 422),
        ({"name": "n", "value": 2**60}, 400),
        ({"name": "n", "value": 1, "turn_id": "a\0b"}, 400),
        ({"name": "n", "value": 1, "message": -1}, 422),
        ({"name": "n", "value": 1, "other": 1}, 422),
        ({"name": "n", "value": "x" * 1001}, 422),
    ],
)
async def test_what_is_not_well_formed_is_refused(gateway: Running, given: dict[str, Any], status: int) -> None:
    async with client(gateway.url) as http:
        answer = await http.post("/v1/threads/chat/feedback", json=given)
    assert answer.status_code == status, answer.text


async def test_feedback_is_of_a_caller_and_not_of_a_name(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served
    async with client(gateway.url, tokens.acme) as http:
        wanted = {"name": "twin", "scopes": ["feedback"]}
        first, second = [(await http.post("/v1/tokens", json=wanted)).json()["token"] for _ in range(2)]

        async def stored() -> bool:
            return [each["id"] for each in await shown(http)] == ["f"]

        async with client(gateway.url, first) as judge:
            await say(judge, name="helpful", value=True, id="f")
            await until(stored)
            await say(judge, name="helpful", value=0.5, id="f")
        assert (await shown(http))[0].keys().isdisjoint({"by_id"})
        async with client(gateway.url, second) as judge:
            given = {"name": "helpful", "value": False, "id": "f"}
            answer = await judge.post("/v1/threads/chat/feedback", json=given)
            assert (answer.status_code, answer.json()["detail"]) == (403, "this feedback is 'twin''s")


async def test_programs_say_it_over_kafka_and_over_http(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served
    brokers = ClientSettings(brokers=gateway.settings.brokers, topic_prefix=gateway.settings.topic_prefix)
    over_http = ClientSettings(publish_url=gateway.url, publish_token=SecretStr(tokens.acme))
    await asyncio.to_thread(feedback, "chat", "helpful", True, tenant="acme", by="ann", settings=brokers)
    feedback_id = await asyncio.to_thread(feedback, "chat", "helpful", False, comment="no", settings=over_http)
    async with client(gateway.url, tokens.acme) as http:

        async def both() -> bool:
            return sorted(one["value"] for one in await shown(http)) == [False, True]

        await until(both)
        assert feedback_id in {one["id"] for one in await shown(http)}
    wrong = over_http.model_copy(update={"publish_token": SecretStr("wrong")})
    with pytest.raises(BrokerError, match="did not take it: 401"):
        await asyncio.to_thread(feedback, "chat", "helpful", True, settings=wrong)


async def test_what_is_no_feedback_becomes_a_dead_letter(served: tuple[Running, Tokens]) -> None:
    gateway, tokens = served
    async with Publisher(gateway.settings, topic=FEEDBACK.name) as publisher:
        await publisher.put(b"chat", b"rubbish")
        await publisher.put(b"chat", json.dumps({"v": 1, "at": 1, "id": "i", "thread_id": "t", "name": "n"}).encode())
    async with client(gateway.url, tokens.acme) as http:
        await say(http, name="n", value=1)

        async def stored() -> bool:
            return len(await shown(http)) == 1

        await until(stored)
    letters = [record.value async for record in records_of(gateway.settings, DEAD_LETTERS)]
    assert b"rubbish" in letters


async def test_off_there_is_none(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"gateway_port": 0, "feedback": False})
    async with running(settings) as gateway, client(gateway.url) as http:
        assert (await http.post("/v1/threads/chat/feedback", json={"name": "n", "value": 1})).status_code in (404, 405)


async def test_a_run_says_it_in_its_own_stream(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"gateway_port": 0, "checkpoint_interval": 0.2})
    await (await ThreadStore.open(settings.store_url, migrate=True)).close()
    told = [{"type": "data-feedback", "data": data} for data in ({"name": "score", "value": 0.5}, {"name": "score"})]
    worker = WorkerProcess(settings, roles="assemble,store,feedback").start()
    try:
        async with running(settings) as gateway, client(gateway.url) as http:
            publisher = ClientSettings(brokers=settings.brokers, topic_prefix=settings.topic_prefix, home=settings.home)
            async with (
                Publisher(publisher) as sender,
                sender.run(thread_id="chat", agent_id="a", dialect="vercel-ai") as run,
            ):
                for event in [{"type": "start"}, *told, {"type": "finish"}]:
                    await run.send(event)

            async def stored() -> bool:
                answer = await http.get("/v1/threads/chat", params={"feedback": "true"})
                return answer.status_code == 200 and bool(answer.json()["meta:feedback"])

            await until(stored)
            (one,) = await shown(http)
            assert (one["name"], one["value"], one["run_id"]) == ("score", 0.5, run.run_id)
            used = (await http.get("/v1/usage", params={"group_by": "agent", "feedback": ["score", "other"]})).json()
            (row,) = used["rows"]
            assert row["feedback"]["score"] == used["total"]["feedback"]["score"] == {"mean": 0.5, "count": 1}
            assert (await http.get("/v1/usage", params={"feedback": list("abcdefghijk")})).status_code == 422
            letters = [dict(record.headers) async for record in records_of(settings, DEAD_LETTERS)]
            details = [letter["turnmill.detail"] for letter in letters]
            assert details == [b"data-feedback: there is no value"]
    finally:
        worker.stop()

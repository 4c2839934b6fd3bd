"""Marks in every field on the way from an agent to a store, in commands, answers, views and tokens.

Behind erasure and retention, no byte outside the store has one: the files of a real broker, the spools of an agent and
of a gateway, what webhooks are told.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from pydantic import SecretStr

from pipeline.devbroker import local
from pipeline.devbroker.local import Cluster
from pipeline.devbroker.ports import free_ports
from pipeline.gateway.access.token_table import new_token
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import scrub
from pipeline.stores.keeping.tenant_erasure import erase_tenant, what_is_left
from pipeline.stores.usage.summing import sum_up
from pipeline.worker.host.roles import ROLES
from pipeline.worker.host.worker import begin
from tests.support.gateways import ALL, client, running, sse
from tests.support.places import CACHE
from tests.support.receiver import receiving
from tests.support.topic_records import publish
from tests.support.waiting import until
from tests.support.workers import WorkerProcess
from topics.catalog import CATALOG, EVENTS, STATE
from turnmill import Publisher

MARK: Final = re.compile(rb"markof[a-z]+", re.IGNORECASE)
TENANT: Final = "markoftenant1"
OFTEN: Final = {  # a broker that looks for what is due all the time
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.backoff.ms": "200",
}
EVENT_STREAM: Final = {"Content-Type": "text/event-stream"}
TOOL: Final = {"toolCallId": "markofcall", "toolName": "markoftool"}
SAID: Final[list[dict[str, Any]]] = [
    {"type": "start", "messageId": "markofmessage", "messageMetadata": {"title": "markoftitle"}},
    {"type": "start-step"},
    {"type": "reasoning-start", "id": "markofthought"},
    {"type": "reasoning-delta", "id": "markofthought", "delta": "markofreasoning"},
    {"type": "reasoning-end", "id": "markofthought"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "markoftext "},
    {"type": "text-end", "id": "t"},
    {"type": "tool-input-available", **TOOL, "input": {"markofargument": "markofinput"}},
    {"type": "tool-output-available", "toolCallId": "markofcall", "output": {"markofkey": "markofoutput " * 5000}},
    {"type": "source-url", "sourceId": "markofsource", "url": "https://markofurl/", "title": "markofpage"},
    {"type": "file", "url": "data:text/markofmedia,markoffile", "mediaType": "text/plain"},
    {"type": "data-markofdata", "id": "d", "data": {"a": "markofpayload"}},
    {"type": "data-sys-markofevent", "data": {"a": "markoftelemetry"}},
    {"type": "data-feedback", "data": {"name": "markofjudged", "value": "markofword", "comment": "markofremark"}},
    {"type": "text-delta", "id": "never begun", "delta": "markofrefused"},
    {"type": "error", "errorText": "markoferror"},
    {"type": "finish-step"},
    {"type": "finish"},
]
ABOUT: Final = {"agent_name": "markofname", "model_name": "markofmodel", "provider_name": "markofprovider"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    own = Settings(home=tmp_path / "broker", cache=CACHE, brokers=f"127.0.0.1:{free_ports(1)[0]}")
    with local.running(own, extra=OFTEN) as one:
        yield one


def marks(folder: Path) -> dict[str, set[str]]:
    """Path below the folder -> the marks in the bytes of this file, and in its name."""
    found = {}
    for file in folder.rglob("*"):
        try:
            data = file.read_bytes() if file.is_file() else b""
        except FileNotFoundError:  # a segment that the broker has just deleted
            continue
        if here := {one.decode().lower() for one in MARK.findall(file.name.encode() + b"\n" + data)}:
            found[str(file.relative_to(folder))] = here
    return found


def topics(files: dict[str, set[str]]) -> set[str]:
    """Which topics of ours have marks; files of the broker that are no topic's go by their own name."""
    names = {topic.full_name("turnmill"): topic.name for topic in CATALOG}
    return {names.get(Path(file).parent.name.rpartition("-")[0], file) for file in files}


async def speak(publisher: Publisher, run: str) -> None:
    async with publisher.run(
        thread_id="markofagentchat",
        agent_id="markofagent",
        dialect="vercel-ai",
        run_id=run,
        tenant=TENANT,
        info={**ABOUT, "request": {"prompt": "markofprompt"}, "external_id": "markofexternal"},
    ) as one:
        for event in SAID:
            await one.send(event)


async def command(http: httpx.AsyncClient) -> None:
    """Steer, stop and answer runs that are still to begin, save a view, and make a token: all in words with marks."""
    run, view = "/v1/threads/markofchat/runs/markoflater", {"name": "markofview", "address": "#/threads?q=markofasked"}
    asked = {"toolCallId": "markofapproval", "toolName": "markofguard", "input": {"markofwhat": "markofwhy"}}
    waits = [
        {"type": "start", "messageId": "markofwaiting"},
        {"type": "tool-input-available", **asked},
        {"type": "tool-approval-request", "approvalId": "markofquestion", "toolCallId": "markofapproval"},
        {"type": "finish"},
    ]
    path = "/v1/threads/markofchat/runs/markofasking/stream?dialect=vercel-ai&agent_id=markofagent"
    assert (await http.post(path, content=sse(waits), headers=EVENT_STREAM)).status_code == 200

    async def waiting() -> bool:
        return bool((await http.get("/v1/runs?status=waiting")).json()["runs"])

    await until(waiting)
    [thread] = (await http.get("/v1/runs?status=waiting")).json()["runs"]
    answer_id = thread["asked"][0]["answer_id"]
    given = (
        (f"{run}/steer", {"text": "markofsteer", "by": "markofsteerer"}, 202),
        (f"{run}/stop", {"by": "markofstopper"}, 202),
        (
            f"/v1/threads/markofchat/answers/{answer_id}",
            {"value": {"markofno": "markofanswer"}, "by": "markofboss"},
            202,
        ),
        ("/v1/views", view, 201),
        ("/v1/tokens", {"name": "markofbearer", "scopes": ["read"]}, 201),
    )
    for where, body, status in given:
        answer = await http.post(where, json=body)
        assert answer.status_code == status, (where, answer.text)


async def test_what_was_said_is_nowhere_behind_erasure_and_retention(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, line = new_token("markofcaller", ALL, TENANT)
    settings = Settings(
        home=tmp_path / "home",
        cache=CACHE,
        brokers=cluster.bootstrap,
        partitions=1,
        compression="none",  # marks are looked for in bytes
        port=0,
        gateway_port=0,
        gateway_tokens=SecretStr(line.model_dump_json()),
        webhooks=SecretStr("[]"),
        webhooks_allow="127.0.0.1/32",
        checkpoint_interval=0.2,
        prices=json.dumps([{"model": "mark*", "tenant": TENANT, "input": 1, "output": 2}]),
    )
    agent = settings.model_copy(update={"home": tmp_path / "agent"})
    nobody = {"brokers": f"127.0.0.1:{free_ports(1)[0]}"}
    await apply_topics(settings)
    await begin(settings, [ROLES["webhooks"], ROLES["notices"]], since=0)
    worker = WorkerProcess(settings, roles="assemble,metrics,store,feedback,webhooks,notices")
    settings.home.mkdir(exist_ok=True)

    # Spools, of an agent and of a gateway that have no broker: they hold all, and nothing once it is sent.
    path = "/v1/threads/markofchat/runs/markofrun/stream?dialect=vercel-ai&agent_id=markofagent"
    with monkeypatch.context() as patch:
        patch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.1)
        async with Publisher(agent.model_copy(update=nobody)) as publisher:
            await speak(publisher, "markofrun")
        async with running(settings.model_copy(update=nobody)) as gateway, client(gateway.url, token) as http:
            answer = await http.post(path, content=sse(SAID), headers=EVENT_STREAM)
            assert answer.status_code == 200, answer.text
    for home in (agent.home, settings.home):
        assert {"markoftext", "markofinput", "markoftelemetry"} <= set().union(*marks(home / "spool").values())
    async with Publisher(agent) as publisher:
        await speak(publisher, "markofsecond")
    assert marks(agent.home) == {}

    async with receiving() as receiver, running(settings) as gateway, client(gateway.url, token) as http:
        made = await http.post("/v1/webhooks", json={"url": f"{receiver.url}/markofhook?key=markofhookkey"})
        assert made.status_code == 201, made.text
        worker.start()
        try:
            again = await http.post(path.replace("markofrun", "markofthird"), content=sse(SAID))
            assert again.status_code == 200, again.text
            await publish(settings, EVENTS, [(b"markofletterkey", b'{"markofletter')])
            await command(http)
            said = {"name": "markofjudgement", "value": "markoflabel", "comment": "markofcomment", "by": "markofjudge"}
            assert (await http.post("/v1/threads/markofchat/feedback", json=said)).status_code == 201

            def turns() -> set[tuple[str, str]]:
                ends = [one["data"] for one in receiver.taken if one["type"].startswith("turn.")]
                return {(one["thread_id"], one["run_id"]) for one in ends}

            async def heard() -> bool:
                return len(turns()) == 5

            await until(heard, turns)
            assert marks(settings.home / "spool") == {}

            async def on_all_topics() -> bool:
                return {topic.name for topic in CATALOG} - {"notices"} <= topics(marks(cluster.nodes[0].folder))

            await until(on_all_topics, lambda: topics(marks(cluster.nodes[0].folder)))
            for chat in ("markofchat", "markofagentchat"):
                assert (await http.delete(f"/v1/threads/{chat}")).status_code == 200
            before = len(receiver.came)

            async def told() -> bool:
                return sum(one["type"] == "thread.deleted" for one in receiver.taken) == 2

            await until(told, worker.text)
            assert not any(b"markoftext" in body for _, body in receiver.came[before:])
            worker.stop()
        finally:
            worker.end()
    async with await ThreadStore.open(settings.store_url) as store:
        await erase_tenant(settings, store, TENANT, "a test", lambda _: None)
        left = await what_is_left(settings, store, TENANT)
        while await sum_up(store):
            pass
        await scrub(store)
    assert left.nothing, left

    # Of a compacted topic, a key and its tombstone go by retention as well.
    await publish(settings, STATE, [(b"markofstatekey", b"markofsegment"), (b"markofstatekey", None)])  # type: ignore[list-item]
    assert "state" in topics(marks(cluster.nodes[0].folder))
    soon = ",".join(f"{topic.name}=1" for topic in CATALOG)
    await apply_topics(settings.model_copy(update={"retention": soon}))

    async def nowhere() -> bool:
        return not marks(cluster.nodes[0].folder)

    await until(nowhere, lambda: marks(cluster.nodes[0].folder))
    stays = {"markoftenant", "markofchat", "markofagentchat", "markofcaller"}  # in the audit log, and of erased threads
    for file, found in marks(tmp_path).items():
        assert file.endswith(".log") or file.startswith("home/threads.db"), file
        assert found <= stays, (file, found)

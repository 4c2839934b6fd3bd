"""Publishers whose settings name a gateway: a real one, in front of a real broker."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.support.gateways import Running, Tokens, client, running
from tests.support.topic_records import read_all
from topics.catalog import EVENTS
from turnmill import BrokerError, CallerError, ClientSettings, Publisher, SyncPublisher
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import decode

RUN: dict[str, Any] = {"thread_id": "chat-17", "agent_id": "weather", "dialect": "vercel-ai"}
ELSEWHERE = "127.0.0.1:9"  # whoever has an address of a gateway needs none of a broker


def over_http(home: Path, url: str, token: str | None = None, **more: Any) -> ClientSettings:
    secret = None if token is None else SecretStr(token)
    return ClientSettings(home=home, brokers=ELSEWHERE, publish_url=url, publish_token=secret, **more)


def delta(n: int) -> dict[str, Any]:
    return {"type": "text-delta", "id": "t", "delta": f"word {n} "}


async def envelopes(settings: Settings) -> list[dict[str, Any]]:
    return [decode(record.value) for record in await read_all(settings, EVENTS)]  # type: ignore[attr-defined]


async def published(settings: Settings) -> dict[tuple[str | None, str], tuple[list[Any], str | None]]:
    """(tenant, run_id) -> (its events by number, once each; how it ended). Asserts their order."""
    runs: dict[tuple[str | None, str], tuple[list[Any], str | None]] = {}
    for one in await envelopes(settings):
        run = one.get("tenant"), one["run_id"]
        events, end = runs.get(run, ([], None))
        assert one["seq"] <= len(events), "a hole"
        runs[run] = (events + one["events"][len(events) - one["seq"] :], one.get("end") or end)
    return runs


async def test_a_run_is_the_token_s_tenant_s(
    guarded: Running, gateway_settings: Settings, tokens: Tokens, tmp_path: Path
) -> None:
    async with Publisher(over_http(tmp_path, guarded.url, tokens.acme)) as publisher:
        info = {"agent_name": "Weather", "parent_thread_id": "chat-16", "parent_run_id": "r0"}
        async with publisher.run(**RUN, run_id="r1", info=info) as run:
            assert run.thread_id == "chat-17"
            for n in range(300):
                await run.send(delta(n))
        await publisher.flush()
        report = publisher.report()
        assert (report.confirmed, report.waiting, report.spooled) == (report.sent, 0, 0)
    found = await envelopes(gateway_settings)
    assert {one["thread_id"] for one in found} == {thread_uuid("chat-17", "acme")[0]}
    assert found[0]["run"]["external_id"] == "chat-17"
    assert found[0]["run"]["parent_thread_id"] == thread_uuid("chat-16", "acme")[0]
    assert await published(gateway_settings) == {("acme", "r1"): ([delta(n) for n in range(300)], "complete")}
    keys = {record.key for record in await read_all(gateway_settings, EVENTS)}
    assert keys == {thread_uuid("chat-17", "acme")[0].encode()}, "all of a thread are in one partition"
    async with client(guarded.url, tokens.operator) as http:
        assert '{dialect="vercel-ai"} 300.0' in (await http.get("/metrics")).text


async def test_another_tenant_s_name_is_refused_and_kept(
    guarded: Running, gateway_settings: Settings, tokens: Tokens, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = over_http(tmp_path, guarded.url, tokens.acme)
    async with Publisher(settings) as publisher:
        for name, tenant in (("mine", "acme"), ("theirs", "globex"), ("whose", None)):
            async with publisher.run(**RUN, run_id=name, tenant=tenant) as run:
                await run.send(delta(0))
        await publisher.flush()
        assert publisher.report().refused == 1
    whole = ([delta(0)], "complete")
    assert await published(gateway_settings) == {("acme", "mine"): whole, ("acme", "whose"): whole}
    [kept] = settings.spool_folder.glob("*/refused.jsonl")
    assert "bound to its own tenant" in kept.read_text()
    assert tokens.acme not in caplog.text


async def test_a_token_without_a_tenant_may_name_any(
    guarded: Running, gateway_settings: Settings, tokens: Tokens, tmp_path: Path
) -> None:
    def publish() -> None:
        with SyncPublisher(over_http(tmp_path, guarded.url, tokens.operator), spool=False) as publisher:
            for tenant in ("acme", "globex", None):
                with publisher.run(**RUN, run_id="r", tenant=tenant) as run:
                    run.send(delta(0))
            publisher.flush()

    await asyncio.to_thread(publish)  # the gateway runs in this loop
    whole = ([delta(0)], "complete")
    assert await published(gateway_settings) == {(tenant, "r"): whole for tenant in ("acme", "globex", None)}


async def test_a_gateway_that_comes_and_goes(
    gateway_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.5)
    port = free_ports(1)[0]
    settings = over_http(tmp_path, f"http://127.0.0.1:{port}")
    served = gateway_settings.model_copy(update={"gateway_port": port})
    async with Publisher(settings) as publisher:
        run = publisher.run(**RUN, run_id="r1")
        for n in range(20):
            await run.send(delta(n))
        await publisher.kept()
        assert "no gateway answers" in str(publisher.report().trouble)
        run.leave()
    assert publisher.report().spooled > 0
    async with Publisher(settings) as publisher, running(served):
        assert publisher.report().adopted > 0
        run = publisher.run(**RUN, run_id="r1", first_seq=20)
        await run.send(delta(20))
        await publisher.flush()
    async with running(served), Publisher(settings) as publisher:
        run = publisher.run(**RUN, run_id="r1", first_seq=21)
        await run.end()
        await publisher.flush()
    assert await published(gateway_settings) == {(None, "r1"): ([delta(n) for n in range(21)], "complete")}


async def test_what_is_wrong_is_said_at_once_without_a_spool(
    guarded: Running, tokens: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusal(settings: ClientSettings) -> str:
        with pytest.raises((BrokerError, CallerError)) as caught:
            await Publisher(settings, spool=False).__aenter__()
        assert tokens.reader not in str(caught.value)
        return str(caught.value)

    empty, there = tmp_path / "empty", tmp_path / "token"
    empty.touch()
    there.write_text(f"{tokens.acme}\n")
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
    assert "no gateway answers" in await refusal(over_http(tmp_path, nowhere, tokens.acme))
    assert "refuses access: send `Authorization" in await refusal(over_http(tmp_path, guarded.url))
    assert "lacks the scope 'publish'" in await refusal(over_http(tmp_path, guarded.url, tokens.reader))
    assert "is it a gateway" in await refusal(over_http(tmp_path, f"{guarded.url}/elsewhere", tokens.acme))
    assert "is empty" in await refusal(over_http(tmp_path, guarded.url, publish_token_file=empty))
    assert "both set" in await refusal(over_http(tmp_path, guarded.url, tokens.acme, publish_token_file=there))
    async with Publisher(over_http(tmp_path, guarded.url, publish_token_file=there), spool=False):
        pass


async def test_lines_that_are_no_records_stop_no_others(
    guarded: Running, gateway_settings: Settings, tokens: Tokens
) -> None:
    good = {"v": 1, **RUN, "run_id": "r1", "seq": 0, "ts": 1, "events": [delta(0)]}
    lines = [
        b"rubbish",
        json.dumps(good).encode(),
        b"[]",
        json.dumps({**good, "thread_id": 7}).encode(),
        json.dumps({**good, "seq": -1}).encode(),
        json.dumps({**good, "tenant": {"a": 1}}).encode(),
        b"",
        json.dumps({**good, "seq": 1, "end": "complete"}).encode(),
    ]
    async with client(guarded.url, tokens.operator) as http:
        answer = await http.post("/v1/records", content=b"\n".join(lines))
        assert answer.status_code == 200, answer.text
        said = answer.json()
        assert said["records"] == 2
        assert {one["line"]: one["reason"] for one in said["refusals"]} == {
            1: "undecodable",
            **dict.fromkeys((3, 4, 5, 6), "not_an_envelope"),
        }
        answer = await http.post("/v1/records", content=b" " * (8 * 1024 * 1024 + 1))
        assert (answer.status_code, answer.json()["type"]) == (413, "/docs#too-large")
    async with client(guarded.url) as http:
        assert (await http.post("/v1/records", content=b"")).status_code == 401
    assert await published(gateway_settings) == {(None, "r1"): ([delta(0)] * 2, "complete")}

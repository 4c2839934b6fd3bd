"""Large tool results and secrets, from the events topic to the store and back; the content store comes and goes."""

import logging
from typing import Any

import aiohttp
import boto3
import pytest
from moto.server import ThreadedMotoServer

from pipeline.assembly.offline import assemble
from pipeline.devbroker.ports import free_ports
from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import all_documents
from pipeline.turns.canonical import turn_hash
from tests.support.fleet import AgentRun, expected, run_of
from tests.support.topic_records import publish, read_all
from tests.support.waiting import PATIENCE, until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics import dead_letter, json_text
from topics.catalog import DEAD_LETTERS, EVENTS, TURNS
from topics.thread_key import ThreadKey
from turnmill.errors import Reason
from turnmill.wire.envelope import encode

KEY = "AKIAIOSFODNN7EXAMPLE"


def large_run(number: int, output: Any, said: str = "done") -> AgentRun:
    """A run whose tool gives `output` back, and whose text comes letter by letter."""
    run = run_of(7, number)
    events = [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "dump", "input": {}},
        {"type": "tool-output-available", "toolCallId": "c", "output": output},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "text-start", "id": "t"},
        *({"type": "text-delta", "id": "t", "delta": letter} for letter in said),
        {"type": "text-end", "id": "t"},
        {"type": "finish-step"},
        {"type": "finish"},
    ]
    envelope = {**run.envelopes[0], "events": events, "end": "complete"}
    del envelope["dt"]
    return AgentRun(run.thread_id, run.run_id, [envelope])


def records(runs: list[AgentRun]) -> list[tuple[bytes, bytes]]:
    return [(run.key, value) for run in runs for value in run.values()]


async def documents(settings: Settings) -> dict[str, dict[str, Any]]:
    async with await ThreadStore.open(settings.store_url) as store:
        return {document["thread_id"]: document async for _, document in all_documents(store)}


def results(document: dict[str, Any]) -> list[dict[str, Any]]:
    parts = [p for t in document["turns"] for msg in t["messages"] for p in msg.get("parts", ())]
    return [part for part in parts if part["part_kind"] == "tool-return"]


async def test_a_result_of_300_kb_and_secrets(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"redact": "secrets"})
    big = large_run(1, {"rows": ["x" * 1000] * 300})
    secret = large_run(2, {"env": {"key": KEY}}, f"The key is {KEY}.")
    worker = WorkerProcess(settings).start()
    try:
        await publish(settings, EVENTS, records([big, secret]))
        await wait_until_stored(settings, 2, [worker])
        async with aiohttp.ClientSession() as client, client.get(f"{await worker.url()}/metrics") as page:
            metrics = await page.text()
        assert worker.stop() == 0
    finally:
        worker.end()
    found = await documents(settings)
    [part] = results(found[big.thread_id])
    assert part["content_ref"]["uri"].startswith(f"{(settings.home / 'content').as_uri()}/{big.thread_id}/")
    assert part["content_ref"]["media_type"] == "application/json"
    assert "content" not in part
    turns = [record.value for record in await read_all(settings, TURNS)]  # type: ignore[attr-defined]
    assert max(map(len, turns)) < 5000
    assert not any(KEY.encode() in value for value in turns)
    inlined = await ContentStore.of(settings).inlined(ThreadKey(big.thread_id), found[big.thread_id])
    assert [turn_hash(turn) for turn in inlined["turns"]] == list(expected([big]).values())
    assert results(found[secret.thread_id])[0]["content"] == {"env": {"key": "[aws-key]"}}
    assert 'turnmill_redactions_total{rule="aws-key"} 2.0' in metrics
    assert "turnmill_content_objects_total 1.0" in metrics
    assert await read_all(settings, DEAD_LETTERS) == []


async def test_a_content_store_that_is_away_loses_nothing(
    applied_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker waits and says so; it is killed meanwhile; when the store is there, so are all turns."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    port = free_ports(1)[0]
    endpoint = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    settings = applied_settings.model_copy(update={"content": "s3://bucket/c", "session_timeout": 6.0})
    runs = [large_run(number, f"{number}" * 200_000 if number % 3 == 0 else number) for number in range(30)]
    first, worker = WorkerProcess(settings, "first").start(), WorkerProcess(settings, "second")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    try:
        await publish(settings, EVENTS, records(runs))
        await said(first, "stands still")
        first.kill()
        worker.start()
        await said(worker, "stands still")
        server.start()
        boto3.client("s3").create_bucket(Bucket="bucket")
        await wait_until_stored(settings, 30, [worker])
        assert worker.stop() == 0
        found = await documents(settings)
        contents = ContentStore.of(settings)
        hashes = {
            turn["meta:turn_id"]: turn_hash(turn)
            for document in found.values()
            for turn in (await contents.inlined(ThreadKey(document["thread_id"]), document))["turns"]
        }
        server.stop()
    finally:
        first.end()
        worker.end()
    assert hashes == expected(runs)
    assert sum("content_ref" in results(document)[0] for document in found.values()) == 10
    assert await read_all(settings, DEAD_LETTERS) == []


def run_with(thread: int, parts: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Envelopes of a run, the events of one part each."""
    first = run_of(11, thread).envelopes[0]
    fixed = {key: first[key] for key in ("v", "thread_id", "run_id", "agent_id", "ts", "dialect")}
    begin, end = [{"type": "start"}, {"type": "start-step"}], [{"type": "finish-step"}, {"type": "finish"}]
    envelopes, seq = [], 0
    for events in (begin, *parts, end):
        envelopes.append({**fixed, "seq": seq, "events": events})
        seq += len(events)
    envelopes[-1]["end"] = "complete"
    return envelopes


def calls(count: int, size: int, *, large: str) -> list[list[dict[str, Any]]]:
    """Calls whose arguments or results have so many bytes, one a record."""
    found = []
    for number in range(count):
        call = {"toolCallId": f"c{number}", "toolName": "dump"}
        value = f"{number:06} " * (size // 7)
        found.append(
            [
                {"type": "tool-input-available", **call, "input": {"text": value if large == "arguments" else "x"}},
                {
                    "type": "tool-output-available",
                    "toolCallId": call["toolCallId"],
                    "output": value if large == "results" else "done",
                },
            ]
        )
    return found


async def test_a_turn_that_is_too_large_for_its_topic_is_cut_off(applied_settings: Settings) -> None:
    """25 results of 850 KB, and no content store: none of their bytes is lost."""
    settings = applied_settings.model_copy(update={"content": "inline"})
    envelopes = run_with(1, calls(25, 850_000, large="results"))
    values = [encode(envelope) for envelope in envelopes]
    key = envelopes[0]["thread_id"].encode()
    worker = WorkerProcess(settings).start()
    try:
        await publish(settings, EVENTS, [(key, value) for value in values])
        await wait_until_stored(settings, 1, [worker])
        assert worker.stop() == 0
    finally:
        worker.end()
    [document] = (await documents(settings)).values()
    [turn] = document["turns"]
    letters = [dead_letter.from_record(r.key, r.value, r.headers) for r in await read_all(settings, DEAD_LETTERS)]  # type: ignore[attr-defined]
    assert (turn["completion_status"], turn["interruption"]["reason"]) == ("interrupted", "too_large")
    kept = [part for message in turn["meta:partial"]["messages"] for part in message["parts"]]
    kept += [part for message in turn["messages"] for part in message["parts"]]
    assert len([part for part in kept if part["part_kind"] == "tool-return"]) == len(values) - len(letters) - 1 > 20
    assert [letter.value for letter in letters] == values[-len(letters) :]
    assert {letter.reason for letter in letters} == {Reason.TOO_LARGE}
    assert all("TURNMILL_CONTENT" in letter.detail for letter in letters)


async def test_arguments_of_30_mb_are_kept_in_the_content_store(applied_settings: Settings) -> None:
    settings = applied_settings
    envelopes = run_with(2, calls(36, 850_000, large="arguments"))
    worker = WorkerProcess(settings).start()
    try:
        await publish(settings, EVENTS, [(envelopes[0]["thread_id"].encode(), encode(one)) for one in envelopes])
        await wait_until_stored(settings, 1, [worker])
        assert worker.stop() == 0
    finally:
        worker.end()
    [document] = (await documents(settings)).values()
    assert await read_all(settings, DEAD_LETTERS) == []
    assert document["turns"][0]["completion_status"] == "complete"
    assert len(json_text.dumps(document)) < 20_000_000
    inlined = await ContentStore.of(settings).inlined(ThreadKey(document["thread_id"]), document)
    [right] = assemble(DIALECTS["vercel-ai"], envelopes)[0]
    assert inlined["turns"][0] == right["turn"]
    assert turn_hash(inlined["turns"][0]) == right["hash"]


async def said(worker: WorkerProcess, words: str) -> None:
    """Until the worker's health says so."""
    url = await worker.url()
    async with aiohttp.ClientSession() as client:

        async def status_with_them() -> int:
            async with client.get(f"{url}/readyz") as ready:
                return ready.status if words in await ready.text() else 0

        assert await until(status_with_them, lambda: f"not {words!r}\n{worker.text()[-3000:]}") == 503


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"redact": "no-such-rule"}, "no built-in rule 'no-such-rule'"),
        ({"content": "azure://box/x"}, "azure://box/x: Generic MicrosoftAzure error: Account must be specified"),
    ],
)
def test_what_cant_work_ends_the_worker_at_start(
    applied_settings: Settings, change: dict[str, str], message: str
) -> None:
    worker = WorkerProcess(applied_settings.model_copy(update=change)).start()
    try:
        assert worker.process is not None
        assert worker.process.wait(PATIENCE) == 2
    finally:
        worker.end()
    assert message in worker.text()
    assert "Traceback" not in worker.text()

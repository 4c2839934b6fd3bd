"""Dead letters on a real broker: listed, shown, and sent again to the byte."""

import json
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import mark_erased
from tests.support.commands import turnmill
from tests.support.topic_records import publish, read_all
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import DEAD_LETTERS, EVENTS
from topics.dead_letter import DeadLetter
from topics.thread_key import ThreadKey
from turnmill.errors import Reason
from turnmill.wire.envelope import encode

THREAD = "5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01"
BROKEN = b'\xff{"v":1 \x00'


@pytest.fixture
async def letters(applied_settings: Settings) -> list[DeadLetter]:
    """Three dead letters, and a record that is none, on partition 2."""
    origin = EVENTS.full_name(applied_settings.topic_prefix)
    filed = [
        DeadLetter(Reason.UNDECODABLE, "not JSON", origin, 1, 100, 1_768_900_000_000, None, BROKEN),
        DeadLetter(Reason.LATE_EVENT, "too [late]", origin, 3, 200, 1_768_900_001_000, b"k", b'{"a": "\xc3\xa9"}', 2),
        DeadLetter(Reason.LATE_EVENT, "later", origin, 3, 201, 1_768_900_002_000, b"k", b"[]"),
    ]
    async with AIOKafkaProducer(bootstrap_servers=applied_settings.brokers) as producer:
        name = DEAD_LETTERS.full_name(applied_settings.topic_prefix)
        for letter in filed:
            await producer.send_and_wait(name, letter.value, letter.key, partition=2, headers=letter.headers())
        await producer.send_and_wait(name, b"stray", b"k", partition=2)
    return filed


async def listed(settings: Settings, *arguments: str) -> list[dict[str, Any]]:
    done = await turnmill(settings, "dlq", "list", "--json", *arguments)
    assert done.returncode == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


async def test_nothing_there(applied_settings: Settings) -> None:
    assert (await turnmill(applied_settings, "dlq", "list")).stdout == "no dead letters\n"
    assert (await turnmill(applied_settings, "dlq", "redrive", "--reason", "too_large")).stdout.startswith("0 ")


async def test_list(applied_settings: Settings, letters: list[DeadLetter]) -> None:
    rows = await listed(applied_settings)
    assert [row["place"] for row in rows] == ["2:0", "2:1", "2:2", "2:3"]
    assert [row["reason"] for row in rows] == ["undecodable", "late_event", "late_event", "not ours"]
    assert rows[1] == {
        "place": "2:1",
        "reason": "late_event",
        "detail": "too [late]",
        "topic": letters[1].topic,
        "partition": 3,
        "offset": 200,
        "time": "2026-01-20 09:06:41",
        "redriven": 2,
        "key": "k",
        "bytes": 11,
    }
    assert [row["place"] for row in await listed(applied_settings, "--reason", "late_event")] == ["2:1", "2:2"]
    text = (await turnmill(applied_settings, "dlq", "list", "--limit", "2")).stdout
    assert "4 dead letters: late_event 2, undecodable 1, not ours 1" in text
    assert "2:2" in text
    assert "too [late]" in text
    assert "2:0" not in text  # the newest two only


async def test_show(applied_settings: Settings, letters: list[DeadLetter]) -> None:
    text = (await turnmill(applied_settings, "dlq", "show", "2:1")).stdout
    assert f"{letters[1].topic}" in text
    assert '"a": "é"' in text
    assert "\ufffd" in (await turnmill(applied_settings, "dlq", "show", "2:0")).stdout
    shown = json.loads((await turnmill(applied_settings, "dlq", "show", "2:1", "--json")).stdout)
    assert shown["value"] == '{"a": "é"}'


async def test_redrive_sends_the_same_bytes_where_they_came_from(
    applied_settings: Settings, letters: list[DeadLetter]
) -> None:
    dry = await turnmill(applied_settings, "dlq", "redrive", "--reason", "late_event", "--dry-run")
    assert dry.stdout == f"2 would be published again to {letters[0].topic} (2)\n"
    assert await read_all(applied_settings, EVENTS) == []

    done = await turnmill(applied_settings, "dlq", "redrive", "2:0", "2:1")
    assert done.stdout == f"2 published again to {letters[0].topic} (2)\n"
    records = sorted(await read_all(applied_settings, EVENTS), key=lambda record: record.value)  # type: ignore[attr-defined]
    late, broken = records
    assert (late.key, late.value) == (b"k", letters[1].value)  # type: ignore[attr-defined]
    assert late.headers == (("turnmill.redriven", b"3"),)  # type: ignore[attr-defined]
    assert (broken.key, broken.value, broken.partition) == (None, BROKEN, 1)  # type: ignore[attr-defined]
    assert broken.headers == (("turnmill.redriven", b"1"),)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("redrive",), "say which"),
        (("redrive", "2:0", "--reason", "late_event"), "say which"),
        (("redrive", "2:0", "2:99", "3:0"), "no dead letter at 2:99, 3:0"),
        (("show", "4-0"), "PARTITION:OFFSET is expected"),
        (("show", "2:3"), "no dead letter of Turnmill"),
        (("list", "--reason", "sadness"), "sadness"),
    ],
)
async def test_what_the_call_gets_wrong(
    applied_settings: Settings, letters: list[DeadLetter], arguments: tuple[str, ...], words: str
) -> None:
    done = await turnmill(applied_settings, "dlq", *arguments)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert await read_all(applied_settings, EVENTS) == []


async def test_missing_topic_and_broker(settings: Settings) -> None:
    done = await turnmill(settings, "dlq", "list")
    assert (done.returncode, "`turnmill topics apply`" in done.stderr) == (3, True)
    done = await turnmill(settings, "dlq", "list", TURNMILL_BROKERS="127.0.0.1:1")
    assert (done.returncode, "127.0.0.1:1" in done.stderr) == (3, True)


async def test_what_a_worker_refuses_comes_back_and_is_refused_again(applied_settings: Settings) -> None:
    good = {"v": 1, "thread_id": THREAD, "run_id": "good", "agent_id": "a", "seq": 0, "ts": 1, "dialect": "vercel-ai"}
    text = [{"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": "x"}]
    finish = [{"type": "text-end", "id": "t"}, {"type": "finish"}]
    unknown = encode(good | {"run_id": "strange", "dialect": "smoke-signals", "events": [{"puff": 1}]})
    records = [unknown, encode(good | {"events": [*text, *finish], "end": "complete"})]
    worker = WorkerProcess(applied_settings).start()
    try:
        await publish(applied_settings, EVENTS, [(THREAD.encode(), value) for value in records])
        await wait_until_stored(applied_settings, 1, [worker])
        (row,) = await listed(applied_settings)
        assert (row["reason"], row["key"], row["redriven"]) == ("unknown_dialect", THREAD, 0)
        assert (await turnmill(applied_settings, "dlq", "redrive", row["place"])).returncode == 0
        again = {**good, "run_id": "after", "events": [*text, *finish], "end": "complete"}
        await publish(applied_settings, EVENTS, [(THREAD.encode(), encode(again))])  # on the same partition, behind it
        await wait_until_stored(applied_settings, 2, [worker])
    finally:
        worker.end()
    first, second = await listed(applied_settings)
    assert [first["redriven"], second["redriven"]] == [0, 1]
    values = [record.value for record in await read_all(applied_settings, DEAD_LETTERS)]  # type: ignore[attr-defined]
    assert values == [unknown, unknown]


async def test_what_is_of_an_erased_thread_is_left_out(applied_settings: Settings) -> None:
    """Sent again it would be on the topics for another retention, and only dropped behind them."""
    origin = EVENTS.full_name(applied_settings.topic_prefix)
    async with await ThreadStore.open(applied_settings.store_url, migrate=True) as store:
        await mark_erased(store, ThreadKey(THREAD, "acme"))
        await mark_erased(store, ThreadKey(THREAD))
    values = [json.dumps({"thread_id": THREAD, "tenant": tenant}).encode() for tenant in ("acme", "globex")]
    builder = DefaultRecordBatchBuilder(2, 1, 0, -1, -1, -1, 1000)
    builder.append(0, 1, None, b"{}", [])
    batch = bytes(builder.build())  # too large, it is kept as it came
    async with AIOKafkaProducer(bootstrap_servers=applied_settings.brokers) as producer:
        name = DEAD_LETTERS.full_name(applied_settings.topic_prefix)
        for value in (*values, b"\xff", b"", batch):
            letter = DeadLetter(Reason.TOO_LARGE, "why", origin, 0, 1, 5, THREAD.encode(), value)
            await producer.send_and_wait(name, letter.value, letter.key, partition=2, headers=letter.headers())
    for option, done in (["--dry-run"], "would be published again"), ([], "published again"):
        said = (await turnmill(applied_settings, "dlq", "redrive", "--reason", "too_large", *option)).stdout
        assert said == f"2 {done} to {origin} (2); 1 without a record left out; 2 of erased threads left out\n"
    assert [record.value for record in await read_all(applied_settings, EVENTS)] == [*values[1:], b"{}"]

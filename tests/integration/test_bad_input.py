"""Records that no assembler can use, between good runs, through the broker: a dead letter or kept, never a stop."""

import json
import time
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaProducer

from pipeline.kafka.offsets import group_lag
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import read_thread
from tests.support.fleet import START, expected, fleet, interleaved
from tests.support.topic_records import read_all
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics import dead_letter
from topics.catalog import DEAD_LETTERS, EVENTS
from topics.dead_letter import DeadLetter
from topics.thread_key import ThreadKey

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"


def envelope(seq: int, *events: Any, **more: Any) -> dict[str, Any]:
    fixed = {"v": 1, "thread_id": THREAD, "run_id": "odd", "agent_id": "a", "seq": seq, "ts": START + seq}
    return {**fixed, "dialect": "vercel-ai", "events": list(events), **more}


def text(words: str) -> list[dict[str, Any]]:
    return [
        {"type": "text-start", "id": words},
        {"type": "text-delta", "id": words, "delta": words},
        {"type": "text-end", "id": words},
    ]


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in envelope(0).items() if key != name}


@dataclass(frozen=True, slots=True)
class Bad:
    """A record, and the reason for which it comes back; None: it is kept, or does no harm."""

    value: bytes | None
    reason: str | None
    key: bytes | None = b"some-key"


def record(value: Any, reason: str | None, **more: Any) -> Bad:
    return Bad(json.dumps(value).encode(), reason, **more)


BROKEN = [
    Bad(b"\xff\xfe\x00", "undecodable"),
    Bad(b"", "undecodable"),
    Bad(b'{"v": 1', "undecodable"),
    Bad(b"[" * 100_000, "undecodable"),
    Bad(None, "not_an_envelope"),
    Bad(None, "not_an_envelope", key=None),
    Bad(b"[]", "not_an_envelope", key=None),
    record({"hello": "world"}, "not_an_envelope"),
    record(envelope(0, v=2), "unsupported_version"),
    record(envelope(0, dialect="esperanto"), "unknown_dialect"),
    record(without("seq"), "not_an_envelope"),
    record(envelope(-1), "not_an_envelope"),
    record(envelope(2**63), "not_an_envelope"),
    record(envelope(0, thread_id="chat-1"), "not_an_envelope"),
    record(envelope(0, run_id=""), "not_an_envelope"),
    record(envelope(0, end="over"), "not_an_envelope"),
    record(envelope(0, {"type": "text-delta", "id": "x" * 2_000_000, "delta": "y"}), "too_large"),
]
# One run, in order: what is wrong with an event leaves the others as they are.
ODD = [
    record(envelope(0, {"type": "start"}, {"type": "start-step"}, *text("one")), None),
    record(envelope(5, "no object", 7, None), "invalid_event"),
    record(envelope(8, {"no": "type"}), "invalid_event"),
    record(envelope(9, {"type": "text-delta", "id": "never-opened", "delta": "lost"}), "invalid_event"),
    record(envelope(10, {"type": "text-delta", "id": "never-opened"}), "invalid_event"),
    record(envelope(11, {"type": "tool-output-available", "toolCallId": "no-call", "output": 1}), None),
    record(envelope(12, {"type": "brand-new-event", "x": {"y": "\ud800"}}), None),
    record(envelope(13, {"type": "data-app-note", "data": {"deep": json.loads("[" * 400 + "]" * 400)}}), None),
    record(
        envelope(14, {"type": "data-sys-usage", "data": {"input_tokens": 2**70, "note": "\udfff", "total_tokens": 5}}),
        None,
    ),
    record(envelope(15, *text("two"), dialect="pydantic-ai"), "protocol_violation"),
    record(envelope(15, *text("two"), run={"agent_name": 5, "model_name": "m"}), "invalid_event"),
    record(envelope(18, {"type": "finish-step"}, {"type": "finish"}, end="complete"), None),
    record(envelope(20, *text("three")), "late_event"),
]


async def publish(
    settings: Settings, records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
) -> None:
    """All to one partition, so that what is bad is between what is good."""
    producer = AIOKafkaProducer(bootstrap_servers=settings.broker_list, acks="all", max_request_size=5_000_000)
    await producer.start()
    try:
        topic = EVENTS.full_name(settings.topic_prefix)
        # The client refuses a record without key and value; the protocol does not.
        for key, value, headers in records:
            if key is None and value is None:
                batch = producer.create_batch()
                batch.append(key=None, value=None, timestamp=None)
                batch.close()
                await producer.send_batch(batch, topic, partition=3)
            else:
                await producer.send(topic, value, key=key, partition=3, headers=headers)
    finally:
        await producer.stop()


async def letters(settings: Settings, count: int, worker: WorkerProcess) -> list[DeadLetter]:
    async def all_of_them() -> list[object]:
        found = await read_all(settings, DEAD_LETTERS)
        return found if len(found) >= count else []

    found = await until(all_of_them, lambda: f"fewer than {count} dead letters\n{worker.text()[-5000:]}")
    return [dead_letter.from_record(r.key, r.value, r.headers) for r in found]  # type: ignore[attr-defined]


async def test_bad_input_in_the_middle_of_good_runs(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"checkpoint_interval": 0.3, "spill_after": 1.0})
    runs = fleet(5, 20)
    good = list(interleaved(runs, 5))
    bad = [*BROKEN, *ODD]
    stream: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = []
    for number, (key, value) in enumerate(good):
        stream.append((key, value, []))
        if number < len(bad):
            odd_headers: list[tuple[str, bytes | None]] = [("turnmill.redriven", None), ("x", b"\xff")]
            stream.append((bad[number].key, bad[number].value, odd_headers if bad[number].key else []))
    assert len(good) > len(bad)
    worker = WorkerProcess(settings).start()
    try:
        await publish(settings, stream)
        found = await wait_until_stored(settings, len(runs) + 1, [worker])
        refused = [each for each in bad if each.reason is not None]
        dead = await letters(settings, len(refused), worker)

        async def no_lag() -> bool:
            return not any(row.lag for row in await group_lag(settings, f"{settings.topic_prefix}-assemble", [EVENTS]))

        assert await until(no_lag), "every offset is committed"
        assert worker.stop() == 0
    finally:
        worker.end()

    right = expected(runs)
    assert {turn: found.get(turn) for turn in right} == right
    events = await read_all(settings, EVENTS)
    by_offset = {(row.partition, row.offset): row for row in events}  # type: ignore[attr-defined]
    assert sorted((letter.reason.value, letter.value or b"") for letter in dead) == sorted(
        (each.reason or "", each.value or b"") for each in refused
    )
    for letter in dead:
        source = by_offset[letter.partition, letter.offset]
        assert (letter.topic, letter.partition) == (EVENTS.full_name(settings.topic_prefix), 3)
        assert letter.key == source.key  # type: ignore[attr-defined]
        assert letter.value == (source.value if source.key or source.value else b"")  # type: ignore[attr-defined]
        assert letter.detail
        assert letter.redriven == 0
        assert abs(letter.time - time.time() * 1000) < 600_000
    async with await ThreadStore.open(settings.store_url) as store:
        document = await read_thread(store, ThreadKey(THREAD))
    assert document is not None
    (turn,) = document["turns"]
    assert turn["completion_status"] == "complete"
    parts = [
        part["content"]
        for message in turn["messages"]
        for part in message.get("parts", ())
        if part["part_kind"] == "text"
    ]
    assert parts == ["one", "two"]
    beside = json.dumps(turn)
    assert "brand-new-event" in beside
    assert "no-call" in beside
    assert "[" * 400 in json.dumps(next(m for m in turn["messages"] if m.get("event_type") == "data-app-note"))

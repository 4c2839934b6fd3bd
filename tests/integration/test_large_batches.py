"""Batches that are too large to be unpacked as a whole: all of their runs are stored, what is set aside comes back."""

import uuid
from collections.abc import Iterator

import cramjam
from aiokafka import codec

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import all_documents
from tests.support.commands import turnmill
from tests.support.fleet import START
from tests.support.made_batches import Record, made, put
from tests.support.topic_records import read_all
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics import dead_letter
from topics.catalog import DEAD_LETTERS
from turnmill.errors import Reason
from turnmill.kafka.pieces import HEADER
from turnmill.wire.envelope import encode


def spoken(runs: range, words: int, text: str = "") -> Iterator[Record]:
    """The records of runs that take turns, an event each; run N says N and `text` in each word."""
    last = words + 3
    for seq in range(last + 1):
        for run in runs:
            thread = str(uuid.UUID(int=run, version=4))
            event = {0: {"type": "start"}, 1: {"type": "text-start", "id": "t"}, last: {"type": "finish"}}.get(
                seq, {"type": "text-delta", "id": "t", "delta": f"{run} {text}"}
            )
            if seq == last - 1:
                event = {"type": "text-end", "id": "t"}
            value = {"v": 1, "thread_id": thread, "run_id": "r", "agent_id": "a", "seq": seq, "ts": START + seq}
            value |= {"dialect": "vercel-ai", "events": [event], **({"end": "complete"} if seq == last else {})}
            yield thread.encode(), encode(value)


async def texts(settings: Settings) -> dict[int, str]:
    found = {}
    async with await ThreadStore.open(settings.store_url) as store:
        async for _, document in all_documents(store):
            (turn,) = document["turns"]
            ((part,),) = [message["parts"] for message in turn["messages"]]
            found[uuid.UUID(document["thread_id"]).int & 0xFFFF] = part["content"]
    return found


async def test_every_run_of_a_large_batch_is_stored(applied_settings: Settings) -> None:
    """One `send` of kafkajs is a batch of any number of records; Java closes a batch by its packed size."""
    many = made(list(spoken(range(1, 2001), 24)), 1, codec.gzip_encode)
    wide = made(list(spoken(range(3001, 3201), 20, "word " * 1_000)), 4, codec.zstd_encode)
    behind = made(list(spoken(range(5001, 5004), 3)), 0, bytes)
    await put(applied_settings, 0, many, wide, behind)
    await put(applied_settings, 1, made(list(spoken(range(6001, 6201), 20, "word " * 1_000)), 3, codec.lz4_encode))
    worker = WorkerProcess(applied_settings).start()
    try:
        await wait_until_stored(applied_settings, 2_403, [worker])
    finally:
        worker.end()
    assert await read_all(applied_settings, DEAD_LETTERS) == []
    found = await texts(applied_settings)
    assert found[7] == "7 " * 24
    assert found[3007] == f"3007 {'word ' * 1_000}" * 20
    assert len(found) == 2_403


async def test_what_is_set_aside_comes_back_record_by_record(applied_settings: Settings) -> None:
    """Snappy in one block can't be unpacked piece by piece."""
    batch = made(
        list(spoken(range(1, 201), 20, "word " * 1_000)), 2, lambda data: bytes(cramjam.snappy.compress_raw(data))
    )
    await put(applied_settings, 0, batch)
    worker = WorkerProcess(applied_settings).start()
    try:
        (letter,) = await until(lambda: read_all(applied_settings, DEAD_LETTERS), worker.text)
        said = dead_letter.from_record(letter.key, letter.value, letter.headers)  # type: ignore[attr-defined]
        assert said.reason is Reason.TOO_LARGE
        assert (said.value or b"")[HEADER.size :] == batch[HEADER.size :]  # before it is what the broker writes
        done = await turnmill(applied_settings, "dlq", "redrive", "--reason", "too_large")
        assert done.stdout.startswith("4,800 published again to"), done
        await wait_until_stored(applied_settings, 200, [worker])
    finally:
        worker.end()
    assert (await texts(applied_settings))[7] == f"7 {'word ' * 1_000}" * 20

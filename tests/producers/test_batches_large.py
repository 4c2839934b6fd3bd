"""Batches as tuned producers in Java and kafkajs write them: every run is stored, in the memory of ordinary batches."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pipeline.kafka.admin import apply_topics
from pipeline.kafka.reading import records_of
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from tests.integration.test_large_batches import spoken
from tests.producers import clients
from tests.support.made_batches import Record
from tests.support.topic_records import read_all
from tests.support.waiting import until
from tests.support.workers import WorkerProcess
from topics.catalog import DEAD_LETTERS, EVENTS
from turnmill.kafka.pieces import Reading

# Long enough for a slow machine: a batch is closed by its size, not by its time.
TUNED = ("batch.size=1048576", "linger.ms=5000", "compression.type=zstd", "buffer.memory=268435456")
USUAL = ("linger.ms=5", "compression.type=zstd")
RUNS, WORDS, TEXT = 9_000, 70, "what a model says again and again " * 33
WITHIN = 540.0  # seconds


def written(settings: Settings, records: Iterable[Record], folder: Path, *options: str) -> None:
    file = folder / "records"
    with file.open("wb") as out:
        out.writelines((key or b"") + b"\t" + value + b"\n" for key, value in records)
    clients.run(clients.java("Produce"), settings.brokers, EVENTS.full_name(settings.topic_prefix), str(file), *options)
    file.unlink()


def fleet() -> Iterable[Record]:
    """Runs, of which 300 are open at a time."""
    for first in range(1, RUNS + 1, 300):
        yield from spoken(range(first, min(first + 300, RUNS + 1)), WORDS, TEXT)


async def peak(settings: Settings, turns: int) -> int:
    """Have a worker read the backlog, and return the most memory that it had, in bytes."""
    worker = WorkerProcess(settings, roles="assemble,store").start()
    try:
        async with await ThreadStore.open(settings.store_url, migrate=True) as store:

            async def all_of_them() -> bool:
                return (await count_rows(store)).turns == turns

            await until(all_of_them, worker.text, WITHIN)
        assert worker.process is not None
        status = Path(f"/proc/{worker.process.pid}/status").read_text()
        (line,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(line) * 1024
    finally:
        worker.end()


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the pieces in which this process reads batches."""
    read, piece = list[object](), Reading.piece

    def noted(*given: Any) -> object:
        read.append(piece(*given))
        return read[-1]

    monkeypatch.setattr(Reading, "piece", noted)
    return read


@pytest.mark.timeout(1800)
async def test_a_tuned_producer_in_java(applied_settings: Settings, tmp_path: Path, pieces: list[object]) -> None:
    others = {"topic_prefix": f"{applied_settings.topic_prefix}-usual", "home": tmp_path / "usual"}
    usually = applied_settings.model_copy(update=others)
    usually.home.mkdir()
    await apply_topics(usually)
    written(usually, fleet(), tmp_path, *USUAL)
    usual = await peak(usually, RUNS)
    written(applied_settings, fleet(), tmp_path, *TUNED)
    tuned = await peak(applied_settings, RUNS)
    assert await read_all(applied_settings, DEAD_LETTERS) == []
    assert tuned <= 1.2 * usual, f"{tuned >> 20} MiB, and {usual >> 20} MiB for ordinary batches"
    read = sum([1 async for _ in records_of(applied_settings, EVENTS)])
    assert read == RUNS * (WORDS + 4)
    assert len(pieces) > 10, "no batch was too large to be unpacked as a whole"


async def test_many_records_in_a_send_of_kafkajs(
    applied_settings: Settings, tmp_path: Path, pieces: list[object]
) -> None:
    single = {"topic_prefix": f"{applied_settings.topic_prefix}-single", "partitions": 1}
    settings = applied_settings.model_copy(update=single)
    await apply_topics(settings)
    records = list(spoken(range(1, 2501), 20))
    assert len(records) == 60_000
    decoded = [((key or b"").decode(), value.decode()) for key, value in records]
    clients.write("kafkajs-gzip", settings, EVENTS, decoded, tmp_path)
    await peak(settings, 2_500)
    assert await read_all(settings, DEAD_LETTERS) == []
    assert sum([1 async for _ in records_of(settings, EVENTS)]) == 60_000
    assert len(pieces) > 1, "the batch was not too large to be unpacked as a whole"

"""The most memory that assembling takes, by what is sent: `python -m tests.chaos.large_runs` measures all of it.

Each load is assembled in a process of its own, with the worker's own work and a content folder, and a producer that
takes everything at once. No broker is needed, and what a broker's client takes is not in the figures.
"""

import asyncio
import resource
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from os import SEEK_END
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from pipeline.assembly.records import StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.dialects import DIALECTS
from pipeline.kafka.outbox import Outgoing
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.content.offload import Offload
from pipeline.stores.content.store import ContentStore
from pipeline.worker.assemble import checkpoint as checkpoint_module
from pipeline.worker.assemble import state_reads as state_reads_module
from pipeline.worker.assemble.checkpoint import AssembleWork
from pipeline.worker.assemble.limits import assemble_settings
from pipeline.worker.assemble.metrics import AssemblyMetrics
from topics.catalog import STATE
from turnmill.wire.envelope import encode

THREAD: Final = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"
START: Final = 1_768_928_342_002
MB: Final = 1_000_000
PIECE: Final = 850_000
AT_ONCE: Final = 2  # records of a fetch: Kafka's clients ask for one megabyte of a partition
Events = list[dict[str, Any]]
T = TypeVar("T")


def results(megabytes: int) -> Iterator[Events]:
    """Tool results, one a record."""
    for number in range(megabytes * MB // PIECE):
        call = {"toolCallId": f"c{number}", "toolName": "dump"}
        yield [
            {"type": "tool-input-available", **call, "input": {}},
            {"type": "tool-output-available", "toolCallId": f"c{number}", "output": f"{number:07}" * (PIECE // 7)},
        ]


def arguments(megabytes: int) -> Iterator[Events]:
    """Tool arguments, one a record."""
    for number in range(megabytes * MB // PIECE):
        call = {"toolCallId": f"c{number}", "toolName": "write"}
        yield [
            {"type": "tool-input-available", **call, "input": {"text": f"{number:07}" * (PIECE // 7)}},
            {"type": "tool-output-available", "toolCallId": f"c{number}", "output": "done"},
        ]


def texts(megabytes: int) -> Iterator[Events]:
    """Texts of eight megabytes in deltas."""
    for number in range(megabytes // 8):
        yield [{"type": "text-start", "id": f"t{number}"}]
        for _ in range(8 * MB // PIECE):
            yield [{"type": "text-delta", "id": f"t{number}", "delta": "word " * (PIECE // 5)}]
        yield [{"type": "text-end", "id": f"t{number}"}]


def small_values(megabytes: int) -> Iterator[Events]:
    """Results of many small values: a hundred bytes of memory for each three of JSON."""
    for number in range(megabytes * MB // PIECE):
        call = {"toolCallId": f"c{number}", "toolName": "dump"}
        yield [
            {"type": "tool-input-available", **call, "input": {}},
            {"type": "tool-output-available", "toolCallId": f"c{number}", "output": [{}] * (PIECE // 3)},
        ]


def nested_values(megabytes: int) -> Iterator[Events]:
    """The same of values that hold each other: as much memory for each two bytes."""
    value = "[" * 1000 + "]" * 1000
    for number in range(megabytes * MB // PIECE):
        call = {"toolCallId": f"c{number}", "toolName": "dump"}
        output = [orjson.Fragment(value)] * (PIECE // 2001)
        yield [
            {"type": "tool-input-available", **call, "input": {}},
            {"type": "tool-output-available", "toolCallId": f"c{number}", "output": output},
        ]


def small_parts(megabytes: int) -> Iterator[Events]:
    """Texts without a letter: some hundred bytes of memory for each sixty of JSON."""
    part = [{"type": "text-start", "id": "t"}, {"type": "text-end", "id": "t"}]
    for _ in range(megabytes * MB // PIECE):
        yield part * (PIECE // 60)


def records(run: str, parts: Iterator[Events], *, first: int = 0, ends: bool = True) -> Iterator[bytes]:
    """Values of a run's records, from the event `first` on."""
    seq = first
    head = {"v": 1, "thread_id": THREAD, "run_id": run, "agent_id": "a", "ts": START, "dialect": "vercel-ai"}
    begin, end = [{"type": "start"}, {"type": "start-step"}], [{"type": "finish-step"}, {"type": "finish"}]
    for events in ([begin], parts, [end]):
        for some in events:
            yield encode({**head, "seq": seq, "events": some} | ({"end": "complete"} if some is end and ends else {}))
            seq += len(some)


def in_turn(*runs: Iterator[T]) -> Iterator[T]:
    """A record of each run, then the next of each."""
    left = list(runs)
    while left:
        for run in list(left):
            value = next(run, None)
            if value is None:
                left.remove(run)
            else:
                yield value


LOADS: Final[dict[str, Callable[[], Iterator[bytes]]]] = {
    "nothing": lambda: iter(()),
    "a turn of 500 MB in results": lambda: records("r", results(500)),
    "a turn of 500 MB in arguments": lambda: records("r", arguments(500)),
    "a turn of 500 MB in texts": lambda: records("r", texts(500)),
    "a run of 600 MB, which is cut off": lambda: records("r", results(600)),
    "results of 100 MB in small values": lambda: records("r", small_values(100)),
    "the same in arrays of arrays": lambda: records("r", nested_values(100)),
    "empty texts of 100 MB": lambda: records("r", small_parts(100)),
    "100 MB that wait for their beginning": lambda: records("r", results(100), first=5),
    "eight runs of 128 MB at once": lambda: in_turn(*(records(str(n), results(128)) for n in range(8))),
}


class Producer:
    """Takes everything, and keeps what goes to the state topic, in a file."""

    def __init__(self, folder: Path) -> None:
        self.file = (folder / "state").open("w+b")
        self.places: dict[bytes, tuple[int, int]] = {}

    async def send_batch(self, topic: str, _partition: int, some: Sequence[Outgoing]) -> tuple[int, Awaitable[object]]:
        for record in some if topic.endswith(STATE.name) else ():
            if record.value is None:
                self.places.pop(record.key or b"", None)
            else:
                self.places[record.key or b""] = self.file.seek(0, SEEK_END), len(record.value)
                self.file.write(record.value)
        delivered = asyncio.get_running_loop().create_future()
        delivered.set_result(None)
        return len(some), delivered

    async def entries(
        self, _settings: Settings, _partition: int, wanted: Collection[bytes]
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """In place of reading the topic."""
        for name in wanted:
            place, size = self.places[name]
            self.file.seek(place)
            yield name, self.file.read(size)


async def assemble(load: Iterator[bytes], folder: Path) -> None:
    """Assemble one load."""
    settings, metrics = Settings(home=folder, content=(folder / "content").as_uri()), Metrics(10)

    async def nothing(_settings: Settings, partitions: Any, _dialects: Any) -> dict[int, RestoredState]:
        return {number: RestoredState() for number in partitions}

    producer = Producer(folder)
    checkpoint_module.read_state = nothing  # type: ignore[assignment]
    state_reads_module.read_entries = producer.entries
    offload = Offload(ContentStore.of(settings), settings.content_threshold, metrics)
    work = AssembleWork(
        assemble_settings(settings), DIALECTS, producer, AssemblyMetrics(metrics, "events"), offload=offload
    )
    await work.assign({0: 0})
    batch = []
    for offset, value in enumerate(load):
        batch.append(StoredRecord(value, offset, START, THREAD.encode()))
        if len(batch) == AT_ONCE:
            await work.handle(0, batch)  # type: ignore[arg-type]
            batch = []
        if offset % 100 == 0:  # a second, at a hundred megabytes
            await work.tick(0, 0)
            await work.flush()
    await work.handle(0, batch)  # type: ignore[arg-type]
    while work.reading is not None or work.held[0].due:  # parked runs that are over
        await work.tick(0, 0)
        await asyncio.sleep(0)
    await work.flush()


def peak(name: str) -> int:
    """The most resident memory in bytes that a process has while it assembles the load of this name."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.chaos.large_runs", name], check=True, capture_output=True, text=True
    )
    return int(found.stdout)


def main() -> None:
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(assemble(LOADS[sys.argv[1]](), Path(folder)))
        sys.stdout.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
        return
    for name in LOADS:
        sys.stdout.write(f"{name}: {peak(name) / MB:,.0f} MB\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Figures of one revision, measured in process: `python -P probes.py NAME [SIZE …]` prints them as a JSON object.

The revision is the one in PYTHONPATH, which may be older than this file: nothing else of the tests is imported, and
what older stores had as methods (`4a8794bf`) is called so.
"""

import asyncio
import ctypes
import gc
import hashlib
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import orjson

from pipeline.assembly import parked_runs
from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.results import Out
from pipeline.dialects import DIALECTS
from pipeline.turns.times import iso
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid, turn_id

Figures = dict[str, float]

BATCH: Final = 200  # turns of one transaction, in as many threads
TURNS: Final = 5  # of a thread
PAGE: Final = 50
LATE: Final = 5  # late turns, of which one takes a store of 4a8794bf a fifth of a second
AGAIN: Final = 20  # times that a short piece of work is repeated: the fastest counts
BEGIN: Final = 1_767_225_600_000
EVERY: Final = 864  # ms between two turns
SIZE: Final = (
    "SELECT sum(pageno) * (SELECT page_size FROM pragma_page_size) FROM dbstat "
    "WHERE aggregate = 1 AND name NOT LIKE 'turn_words_index%'"
)


class Store:
    """A store of the measured revision in a folder of its own."""

    def __init__(self, opened: Any, file: str) -> None:
        self.opened, self.file = opened, file

    @classmethod
    async def of(cls, folder: str, *, search: bool) -> "Store":
        """Make one; `search`: with the index of words, and sums."""
        try:
            from pipeline.stores.database.store import ThreadStore
        except ImportError:
            from pipeline.stores.sql import ThreadStore  # type: ignore[import-not-found, no-redef]  # an older revision
        file, kept = f"{folder}/store.db", "on" if search else "off"
        store = cls(await ThreadStore.open(f"sqlite:///{file}", migrate=True, search=kept), file)
        await store.call("pipeline.stores.usage.summing", "keep_sums", wanted=search)
        return store

    async def call(self, module: str, name: str, *args: Any, method: str | None = None, **options: Any) -> Any:
        """Call a function of a module, or the store's method of that name."""
        if hasattr(self.opened, method or name):
            return await getattr(self.opened, method or name)(*args, **options)
        __import__(module)
        return await getattr(sys.modules[module], name)(self.opened, *args, **options)

    async def write(self, values: list[bytes]) -> None:
        """Decode and store records, as the store role does."""
        records = [orjson.loads(value) for value in values]
        await self.call("pipeline.stores.turns", "write_turns", records, values=values, method="write")

    async def thread(self, key: ThreadKey) -> Any:
        """Read a whole document."""
        return await self.call("pipeline.stores.threads.reading", "read_thread", key, method="thread")

    def size(self) -> int:
        """The bytes of the database, without the index of words."""
        with closing(sqlite3.connect(self.file)) as connection:
            return int(connection.execute(SIZE).fetchone()[0])


def record(thread: str, number: int, words: Random) -> bytes:
    """Return a turn of 45 words as JSON."""
    thread_id, external_id = thread_uuid(thread)
    at, run = iso(BEGIN + number * EVERY), f"run-{number}"
    name = turn_id(thread_id, run, "")
    said = " ".join(f"{words.choice('abcdefghijklmnopqrst')}{words.getrandbits(22):x}" for _ in range(45))
    usage = {"input_tokens": 1000 + number % 1000, "output_tokens": 60}
    message = {
        "message_type": "response",
        "timestamp": at,
        "agent_id": "agent",
        "model_name": f"model-{number % 8}",
        "parts": [{"part_kind": "text", "content": said}],
        "usage": usage,
    }
    turn = {"turn_type": "agent", "agent_id": "agent", "started_at": at, "completed_at": at, "meta:turn_id": name}
    return orjson.dumps(
        {
            "v": 1,
            "thread_id": thread_id,
            "run_id": run,
            "turn_id": name,
            "agent_id": "agent",
            "dialect": "vercel-ai",
            "revision": 0,
            "status": "complete",
            "hash": hashlib.sha256(run.encode()).hexdigest(),
            "events": 3,
            "ranges": [[0, 2]],
            "turn": {**turn, "completion_status": "complete", "messages": [message], "total_usage": usage},
            "agents": [],
            "thread": {"external_id": external_id},
        }
    )


def chat(number: int) -> str:
    """The thread of a turn: another one of it is in each of TURNS batches."""
    return f"chat-{number // (BATCH * TURNS) * BATCH + number % BATCH}"


async def spent(work: Callable[[], Awaitable[Any]]) -> float:
    """CPU seconds of this process."""
    began = time.process_time()
    await work()
    return time.process_time() - began


async def stored(folder: str, turns: int, *, search: bool) -> Figures:
    """Bytes and CPU µs of a stored turn; without `search`, also CPU µs of reading a turn back."""
    store, words, cost = await Store.of(folder, search=search), Random(1), 0.0
    empty = store.size()

    async def follow() -> None:
        while search and await store.call("pipeline.stores.search.write", "index_some"):
            pass
        await store.call("pipeline.stores.usage.summing", "sum_up")

    for first in range(0, turns, BATCH):
        values = [record(chat(n), n, words) for n in range(first, min(first + BATCH, turns))]
        cost += await spent(partial(store.write, values))
        if search:
            cost += await spent(follow)
    kind = "indexed" if search else "bare"
    figures = {f"cpu-{kind}": cost / turns * 1e6, f"bytes-{kind}": (store.size() - empty) / turns}
    if not search:
        keys = [ThreadKey(thread_uuid(name)[0]) for name in dict.fromkeys(map(chat, range(turns)))]

        async def read() -> None:
            for key in keys:
                await store.thread(key)

        figures["read-back"] = await spent(read) / turns * 1e6
    return figures


async def long(folder: str, turns: int) -> Figures:
    """CPU ms in a long thread: a late turn, the newest PAGE turns as JSON, an append; and an append to a short one."""
    store, words = await Store.of(folder, search=False), Random(2)
    end = LATE + turns
    for first in range(LATE, end, BATCH):
        await store.write([record("long", n, words) for n in range(first, min(first + BATCH, end))])
    await store.write([record("short", 0, words)])
    key, added, early = ThreadKey(thread_uuid("long")[0]), iter(range(end, end + 4 * AGAIN)), iter(range(LATE))

    async def newest() -> None:
        try:
            from pipeline.stores.threads.pages import PageWanted, read_page
        except ImportError:
            document = await store.thread(key)
            assert len(orjson.dumps(document["turns"][-PAGE:])) > PAGE
            return
        page = await read_page(store.opened, key, PageWanted(PAGE))
        assert page is not None
        assert len(orjson.dumps(page.document["turns"])) > PAGE

    async def fastest(work: Callable[[], Awaitable[Any]], times: int = AGAIN) -> float:
        return min([await spent(work) for _ in range(times)]) * 1e3

    async def append(thread: str) -> float:
        return await fastest(lambda: store.write([record(thread, next(added), words)]))

    long_, short = await append("long"), await append("short")
    late = await fastest(lambda: store.write([record("long", next(early), words)]), LATE)
    return {"append": long_, "append-short": short, "late": late, "newest": await fastest(newest, 5)}


def unfinished(runs: int, size: int, most: int | None = None, **limits: Any) -> Partition:
    """A partition with open runs that have `size` bytes of text each; `most`: bytes of memory that they may take.

    With `most` it spills and parks them as a worker does, but a batch at a time.
    """
    partition, letters = Partition(DIALECTS, Limits(**limits), 0), Random(3)
    for first in range(0, runs, BATCH):
        records = []
        for n in range(first, min(first + BATCH, runs)):
            thread_id = thread_uuid(f"open-{n}")[0]
            said = f"{letters.getrandbits(size * 4):0{size}x}"
            events = [
                {"type": "start", "messageId": f"m-{n}"},
                {"type": "text-start", "id": "t"},
                {"type": "text-delta", "id": "t", "delta": said},
            ]
            envelope = {"v": 1, "thread_id": thread_id, "run_id": f"r-{n}", "agent_id": "a", "seq": 0, "ts": BEGIN}
            value = orjson.dumps({**envelope, "dialect": "vercel-ai", "events": events, "run": {}})
            kept = b"".join((value, b""))  # without memory that is not used
            records.append(StoredRecord(kept, n, BEGIN + n // 5, thread_id.encode()))
        partition.feed(records)
        if most is not None:
            partition.spill()
            if hasattr(parked_runs, "weigh") and parked_runs.weight(partition) > most // 4:
                parked_runs.weigh(partition)
            if parked_runs.weight(partition) > most * 15 // 16:
                parked_runs.park(partition, most * 15 // 16 * 9 // 10)
            partition.ends.out = Out()  # it is sent
    return partition


async def tick(_: str, runs: int) -> Figures:
    """CPU ms of a tick with spilled runs, of which none is due."""
    partition = unfinished(runs, 200, open_bytes=0)
    partition.spill()
    assert len(partition.runs.spilled) == runs, len(partition.runs.spilled)

    async def once() -> None:
        partition.tick(BEGIN + 1_000)

    return {"tick": min([await spent(once) for _ in range(AGAIN)]) * 1e3}


async def open_runs(_: str, runs: int, most: int = 134_217_728) -> Figures:
    """Bytes of memory of an open run with 200 bytes of text; `most`: that all may take together."""
    unfinished(BATCH, 200, 0)  # what the first runs alone take
    gc.collect()
    gc.set_threshold(50_000, 20, 20)  # as a worker does
    before = _resident()
    partition = unfinished(runs, 200, most)
    each = (_resident() - before) / runs
    assert partition.open_runs() == runs
    return {"open-run": each}


def _resident() -> int:
    """The bytes of this process, after what is free was returned to the system, as a worker does."""
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("the system does not tell the memory of a process")


# Name -> the measurement, called with an empty folder and a size, and its usual size.
PROBES: Final[dict[str, tuple[Callable[..., Coroutine[Any, Any, Figures]], int]]] = {
    "bare": (partial(stored, search=False), 10_000),
    "indexed": (partial(stored, search=True), 10_000),
    "long": (long, 10_000),
    "tick": (tick, 20_000),
    "open": (open_runs, 200_000),
}


def main(name: str, size: int | None = None, *more: int) -> Figures:
    """Return the figures of a measurement; `more`: its further arguments."""
    measure, usual = PROBES[name]
    with tempfile.TemporaryDirectory(prefix="turnmill-probe-") as folder:
        return asyncio.run(measure(folder, size or usual, *more))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], *map(int, sys.argv[2:]))))  # noqa: T201  # what the caller reads

"""What storing a turn costs as a store grows: CPU of the writer and of the database's server, and bytes."""

import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import asyncpg
import orjson
from sqlalchemy import text

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.write import index_some
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.summing import keep_sums, sum_up
from pipeline.stores.usage.tallies import DAY
from pipeline.turns.times import iso
from tests.bench import postgres
from tests.bench.history import remove
from tests.bench.searched_store import Speech
from topics.turn_record import TurnRecord
from turnmill.identity import thread_uuid, turn_id

SMALL: Final = 20_000  # turns, to compare with
LARGE: Final = 2_000_000
MEASURED: Final = 10_000  # turns
BATCH: Final = 200  # turns of one transaction, in as many threads
SUMMED: Final = 2_000  # turns behind which sums are brought up to date: as every 5 s at 400 turns a second
TURNS: Final = 5  # of a thread
WORDS: Final = 45
BEGIN: Final = 1_767_225_600_000  # 2026-01-01
EVERY: Final = DAY // 100_000  # ms between two turns
BARE, INDEXED = "bare", "search and sums"
SIZE: Final = {  # without the index of words
    "postgresql": "SELECT pg_database_size(current_database()) - pg_relation_size('turn_words_words')",
    # By pages: dbstat counts the bytes of a tree in 32 bits.
    "sqlite": (
        "SELECT sum(pageno) * (SELECT page_size FROM pragma_page_size) FROM dbstat "
        "WHERE aggregate = 1 AND name NOT LIKE 'turn_words_index%'"
    ),
}
TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Growth:
    """CPU µs a turn of MEASURED turns, written where the store held `turns`.

    `server`: 0 for SQLite, which has none; None where it isn't on this machine. `size`: bytes of the database by turn,
    without the index of words; `json`: those of the record as it came; `count`: seconds that it takes to count all
    turns, as a gateway does for its status.
    """

    store: str
    indexes: str
    turns: int
    client: float
    server: float | None
    size: float
    json: int
    count: float


async def both(folder: Path, server: str | None, turns: int, progress: Callable[[str], None]) -> list[Growth]:
    """Measure with SQLite, and with Postgres where there is a server, up to `turns` turns."""
    found: list[Growth] = []
    for indexes in (BARE, INDEXED):
        file = folder / f"growth-{len(found)}.db"
        found += await measure(f"sqlite:///{file}", indexes, turns, progress)
        remove(file)
        if server is not None:
            async with postgres.database(server) as url:
                found += await measure(url, indexes, turns, progress)
    return found


async def measure(url: str, indexes: str, turns: int, progress: Callable[[str], None]) -> list[Growth]:
    """Fill an empty store by writing, and measure on the way at SMALL turns and at `turns`."""
    speech, found = Speech(), list[Growth]()
    async with AsyncExitStack() as stack:
        search = "on" if indexes == INDEXED else "off"
        store = await stack.enter_async_context(await ThreadStore.open(url, migrate=True, search=search))
        await keep_sums(store, wanted=indexes == INDEXED)
        name, empty = await _state(store)
        postmaster = await _postmaster(url) if name != "sqlite" else None
        for begin, end in pairwise((0, min(SMALL, turns), turns)):
            for first in range(begin, end, MEASURED):
                progress(f"{name}, {indexes}: {first:,} turns")
                client, server = time.process_time(), _cpu(postmaster)
                made = await _write(store, speech, first, indexes)
                client, server = time.process_time() - client - made, _cpu(postmaster) - server
            held = max(begin, end - MEASURED)
            counted = time.monotonic()
            await count_rows(store)
            counted = time.monotonic() - counted
            _, size = await _state(store)
            spent = None if name != "sqlite" and postmaster is None else server / MEASURED * 1e6
            sizes = (size - empty) / (held + MEASURED), len(orjson.dumps(_record(held, speech)))
            found.append(Growth(name, indexes, held, client / MEASURED * 1e6, spent, *sizes, counted))
    return found


async def _write(store: ThreadStore, speech: Speech, first: int, indexes: str) -> float:
    """Write MEASURED turns, and return the CPU seconds that it took to make their records."""
    made = 0.0
    for start in range(first, first + MEASURED, BATCH):
        began = time.process_time()
        values = [orjson.dumps(_record(start + n, speech)) for n in range(BATCH)]
        records = [cast("TurnRecord", orjson.loads(value)) for value in values]
        made += time.process_time() - began
        await write_turns(store, records, values=values)
        if indexes == INDEXED:
            while await index_some(store):
                pass
            if (start + BATCH) % SUMMED == 0:
                await sum_up(store)
    return made


def _record(number: int, speech: Speech) -> dict[str, Any]:
    """Return a turn of a thread that has another one in each of TURNS batches."""
    thread = number // (BATCH * TURNS) * BATCH + number % BATCH
    thread_id, external_id = thread_uuid(f"chat-{thread}")
    at, run = iso(BEGIN + number * EVERY), f"run-{number}"
    usage = {"input_tokens": 1000 + number % 1000, "output_tokens": 60}
    message = {
        "message_type": "response",
        "timestamp": at,
        "agent_id": "agent",
        "model_name": f"model-{number % 8}",
        "parts": [{"part_kind": "text", "content": " ".join(speech.words(WORDS))}],
        "usage": usage,
    }
    turn = {"turn_type": "agent", "agent_id": "agent", "started_at": at, "completed_at": at}
    outcome = {"dialect": "vercel-ai", "revision": 0, "status": "complete", "hash": f"{number:064x}", "events": 3}
    return {
        "v": 1,
        "thread_id": thread_id,
        "tenant": f"tenant-{thread % 50}",
        "run_id": run,
        "turn_id": turn_id(thread_id, run, ""),
        "agent_id": "agent",
        **outcome,
        "ranges": [[0, 2]],
        "turn": {**turn, "completion_status": "complete", "messages": [message], "total_usage": usage},
        "agents": [],
        "thread": {"external_id": external_id},
    }


async def _state(store: ThreadStore) -> tuple[str, int]:
    """Return the database's name, and its size in bytes."""
    async with store.reading() as connection:  # a benchmark's way to the database itself
        name = connection.dialect.name
        return name, int((await connection.execute(text(SIZE[name]))).scalar_one())


async def _postmaster(url: str) -> int | None:
    """Return the process id of a Postgres server on this machine, None for one elsewhere."""
    connection = await asyncpg.connect(url)
    try:
        return _parent_of(await connection.fetchval("SELECT pg_backend_pid()"))
    finally:
        await connection.close()


def _parent_of(backend: int) -> int | None:
    stat = Path(f"/proc/{backend}/stat")
    return int(_fields(stat)[1]) if stat.exists() and "postgres" in stat.read_text() else None


def _cpu(postmaster: int | None) -> float:
    """Return CPU seconds of a server's processes so far, with those that have ended."""
    if postmaster is None:
        return 0.0
    ticks = sum(map(int, _fields(Path(f"/proc/{postmaster}/stat"))[11:15]))
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = _fields(stat)
        except OSError:  # it has ended
            continue
        if int(fields[1]) == postmaster:
            ticks += sum(map(int, fields[11:13]))
    return ticks / TICKS


def _fields(stat: Path) -> list[str]:
    """Return the fields of a process behind its name: its state, its parent, and what proc(5) has next."""
    return stat.read_text().rpartition(")")[2].split()

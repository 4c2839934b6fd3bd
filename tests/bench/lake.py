"""An archive of tables that holds a month of turns: what writing to it, compacting it and erasing from it costs,
beside an archive of Parquet objects.
"""

import random
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.settings import LAKE, load
from pipeline.stores.archive import lake_rows
from pipeline.stores.archive.lake import Lake
from pipeline.stores.archive.lake_read import offsets_of
from pipeline.stores.archive.lake_table import Change
from pipeline.stores.archive.parquet import Archive
from pipeline.stores.archive.turn_archive import Entry, lake_of
from topics import turn_record
from topics.thread_key import ThreadKey

TOPIC: Final = "turnmill.turns"
DAYS: Final = 31
TODAY: Final = datetime(2026, 1, 31, tzinfo=UTC)
SEGMENT: Final = 10_000  # turns of a commit
SEGMENTS: Final = 3
OLD: Final = 100  # turns of the whole month that come once more, in one segment
ERASED: Final = 2_000  # threads of one step of a tenant's erasure
TENANTS: Final = 10
THREAD: Final = 5  # turns
TEXT: Final = 120  # words of a turn
WORDS: Final = tuple(f"{'aeiou'[n % 5]}{n:x}{'lmnrst'[n % 6]}" for n in range(4000))
LATER: Final = {"revision": 1, "events": 4, "ranges": [[0, 3]]}  # of a record that takes another one's place


@dataclass(frozen=True, slots=True)
class Step:
    """`turns`: that were written, or looked through; CPU and time in seconds; `memory`: bytes that it took at most, 0
    where the system does not tell it.
    """

    what: str
    turns: int
    cpu: float
    seconds: float
    memory: int

    @property
    def cost(self) -> float:
        """CPU µs a turn."""
        return 1e6 * self.cpu / max(self.turns, 1)


async def measure(folder: Path, turns: int, progress: Callable[[str], None]) -> list[Step]:
    """Write to an empty archive of each kind; then to tables of so many turns, compact them and erase from them."""
    found: list[Step] = []

    async def step(what: str, count: int, *work: Awaitable[Any]) -> None:
        progress(f"tables of {turns:,} turns: {what}")
        _forget_highest()
        before = _memory("RSS")
        cpu, began = time.process_time(), time.perf_counter()
        for one in work:
            await one
        took = time.process_time() - cpu, time.perf_counter() - began
        found.append(Step(what, count, *took, max(_memory("HWM") - before, 0)))

    rng = random.Random(18)  # loads are the same in each run
    count = SEGMENT * SEGMENTS
    records = [_record(rng, TODAY) for _ in range(count)]
    segments = _segments(records)
    newer = _segments([one | LATER for one in records])
    del records
    plain = Archive((folder / "plain").as_uri(), _nobody)
    await step("Parquet objects", count, *_written(plain, segments, 0))
    await step("tables, empty", count, *_written(_lake(folder / "empty"), segments, 0))
    lake = _lake(folder / "full")
    old = await _fill(lake, turns, rng, progress)
    full = f"tables of {turns:,}"
    await step(f"{full}: new turns", count, *_written(lake, segments, 0))
    await step(f"{full}: their next revision", count, *_written(lake, newer, count))
    await step(f"{full}: {OLD} turns of the month once more", OLD, *_written(lake, _segments(old[:OLD]), 2 * count))
    key = ThreadKey(old[-1]["thread_id"], old[-1]["tenant"])
    await step(f"{full}: erasing a thread", turns, lake.delete_threads([key]))
    threads = list({ThreadKey(one["thread_id"], one["tenant"]) for one in old if one["tenant"] == "t1"})
    await step(f"{full}: erasing {len(threads):,} threads", turns, lake.delete_threads(threads))
    await step(f"{full}: compacting", turns, lake.compact())
    return found


def _segments(records: Sequence[Any]) -> list[list[Entry]]:
    entries = [Entry(n, n, turn_record.encode(one)) for n, one in enumerate(records)]
    return [entries[first : first + SEGMENT] for first in range(0, len(entries), SEGMENT)]


async def _nobody(threads: Sequence[ThreadKey]) -> set[ThreadKey]:
    return set()


def _lake(place: Path) -> Lake:
    return lake_of(load({}, home=place, archive=f"{LAKE}{place.as_uri()}"), _nobody)


def _written(archive: Archive | Lake, segments: Sequence[Sequence[Entry]], begin: int) -> Iterator[Awaitable[Any]]:
    for entries in segments:
        moved = [Entry(begin + entry.offset, begin + entry.at, entry.value) for entry in entries]
        yield archive.write(TOPIC, 0, moved[0].offset, moved[-1].offset + 1, moved)


async def _fill(lake: Lake, turns: int, rng: random.Random, progress: Callable[[str], None]) -> list[Any]:
    """Commit the turns of a month, day by day, as compacted files. -> some of them, of all days."""
    day, made = -(-turns // DAYS), 0
    some: list[Any] = []
    for number in range(DAYS):
        at = TODAY - timedelta(DAYS - number)
        records = [_record(rng, at) for _ in range(min(SEGMENT, day))]
        entries = [Entry(n, n, turn_record.encode(one)) for n, one in enumerate(records)]
        batch = lake_rows.batch(1, entries)
        some += records[: -(-ERASED * TENANTS // DAYS)]
        copies = -(-min(day, turns - made) // len(records))
        progress(f"tables of {turns:,} turns: {made:,} made")
        for name, rows in (("turns", batch.turns), ("usage", batch.usage)):
            table = lake._table(name)  # a benchmark's way to a month of turns
            for first in range(0, copies, 10):
                parts = [rows if n == 0 else _others(rows) for n in range(first, min(first + 10, copies))]
                table.commit(partial(_added, pa.concat_tables(parts)))
        made += copies * len(records)
    rng.shuffle(some)
    return [one | LATER for one in some]


def _added(rows: pa.Table, table: Any) -> Change:
    return Change(offsets_of(table), add=rows)


def _others(rows: pa.Table) -> pa.Table:
    """The same rows as of other threads and turns."""
    for name in ("thread_id", "turn_id", "run_id"):
        other = pc.binary_join_element_wise(rows[name], uuid.uuid4().hex, "-")
        rows = rows.set_column(rows.column_names.index(name), name, other)
    return rows


def _record(rng: random.Random, day: datetime) -> Any:
    """A turn of an agent: a text of TEXT words, and usage."""
    at = (day + timedelta(milliseconds=rng.randrange(86_400_000))).isoformat(timespec="milliseconds")
    thread = rng.getrandbits(40) * THREAD
    ids = {name: str(uuid.UUID(int=rng.getrandbits(128))) for name in ("run_id", "turn_id")}
    message = {
        "message_type": "response",
        "timestamp": at,
        "agent_id": "agent",
        "model_name": f"model-{rng.randrange(8)}",
        "provider_name": "provider",
        "parts": [{"part_kind": "text", "content": " ".join(rng.choices(WORDS, k=TEXT))}],
        "usage": {"input_tokens": rng.randrange(5000), "output_tokens": TEXT, "cost": 0.001},
    }
    turn = {"turn_type": "agent", "agent_id": "agent", "started_at": at, "completed_at": at, "messages": [message]}
    return {
        "v": 1,
        **ids,
        "thread_id": str(uuid.UUID(int=thread)),
        "agent_id": "agent",
        "tenant": f"t{rng.randrange(TENANTS)}",
        "dialect": "vercel-ai",
        "revision": 0,
        "status": "complete",
        "hash": "0" * 64,
        "events": 3,
        "ranges": [[0, 2]],
        "turn": turn | {"completion_status": "complete"},
        "agents": [],
        "thread": {},
    }


def _forget_highest() -> None:
    file = Path("/proc/self/clear_refs")
    if file.exists():
        file.write_text("5")


def _memory(which: str) -> int:
    """Of this process, in bytes: RSS now, or HWM, its highest since `_forget_highest`."""
    file = Path("/proc/self/status")
    found = re.search(rf"Vm{which}:\s+(\d+) kB", file.read_text()) if file.exists() else None
    return int(found[1]) * 1024 if found else 0

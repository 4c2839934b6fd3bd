"""How long writers wait while nothing expires, and while a large backlog does."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings, load
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.turns import write_turns
from pipeline.turns.times import iso
from pipeline.worker.sinks.role import expiring_of
from tests.bench import postgres
from tests.bench.history import fill
from topics.turn_record import TurnRecord
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid, turn_id

BATCH: Final = 20  # turns of one transaction, in as many threads
PAUSE: Final = 0.02  # seconds between two transactions
TICK: Final = 0.1  # seconds between two looks whether a step of the expiry is due
SECONDS: Final = 20.0  # of each part
FOREVER, DAYS_30, DAYS_4000 = "forever", "30d", "4000d"
PARTS: Final = (("no retention", FOREVER), ("nothing to expire", DAYS_4000), ("a backlog expires", DAYS_30))


@dataclass(frozen=True, slots=True)
class Waited:
    """`ms`: how long transactions of BATCH turns took, ascending; `expired`: turns that went meanwhile, of `turns`."""

    what: str
    store: str
    turns: int
    ms: list[float]
    expired: int

    @property
    def rate(self) -> float:
        """Turns that expired in a second."""
        return self.expired / SECONDS


async def both(folder: Path, server: str | None, turns: int, progress: Callable[[str], None]) -> list[Waited]:
    """Measure with SQLite, and with Postgres where there is a server."""
    found = await _measure(f"sqlite:///{folder / 'expiring.db'}", folder, turns, progress)
    if server is not None:
        async with postgres.database(server) as url:
            found += await _measure(url, folder, turns, progress)
    return found


async def _measure(url: str, home: Path, turns: int, progress: Callable[[str], None]) -> list[Waited]:
    found = list[Waited]()
    async with await ThreadStore.open(url, migrate=True) as store:
        name = await fill(store, turns, progress)
        for number, (what, retention) in enumerate(PARTS):
            progress(f"transactions of {BATCH} turns, {name}: {what}")
            settings = load({}, home=home, store=url, content="inline", store_retention=retention)
            before = await count_rows(store)
            taken = await _written(store, settings, number)
            expired = before.turns + len(taken) * BATCH - (await count_rows(store)).turns
            found.append(Waited(what, name, turns, taken, expired))
    return found


async def _written(store: ThreadStore, settings: Settings, part: int) -> list[float]:
    """Write for SECONDS beside the expiry -> ms of each transaction, ascending."""
    expiring = expiring_of(settings, _opened(store), Metrics(), _clock)
    expiring._holder = "the benchmark"  # each part is the same process to the others
    until, taken, ticked = time.monotonic() + SECONDS, list[float](), 0.0
    while (now := time.monotonic()) < until:
        if now - ticked >= TICK:
            expiring.step()
            ticked = now
        records = [_record(f"{part}-{len(taken)}-{n}") for n in range(BATCH)]
        began = time.perf_counter()
        await write_turns(store, records, settings.kept_for, now_ms())
        taken.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(PAUSE)
    if expiring.under_way is not None:
        await expiring.under_way
    return sorted(taken)


async def _clock() -> int:
    return now_ms()


def _opened(store: ThreadStore) -> Callable[[], Awaitable[ThreadStore]]:
    async def opened() -> ThreadStore:
        return store

    return opened


def _record(name: str) -> TurnRecord:
    """A turn that is over now."""
    thread_id, external_id = thread_uuid(name)
    at = iso(now_ms())
    turn = {
        "turn_type": "agent",
        "agent_id": "a",
        "started_at": at,
        "completed_at": at,
        "completion_status": "complete",
        "messages": [
            {
                "message_type": "response",
                "timestamp": at,
                "agent_id": "a",
                "model_name": "m",
                "parts": [{"part_kind": "text", "content": "said " * 100}],
                "usage": {"input_tokens": 1000, "output_tokens": 100},
            }
        ],
    }
    identity = {"v": 1, "thread_id": thread_id, "run_id": "r", "turn_id": turn_id(thread_id, "r", ""), "agent_id": "a"}
    outcome = {"dialect": "vercel-ai", "revision": 0, "status": "complete", "hash": "0" * 64, "events": 3}
    record: Any = {
        **identity,
        **outcome,
        "ranges": [[0, 2]],
        "turn": turn,
        "agents": [],
        "thread": {"external_id": external_id},
    }
    return cast("TurnRecord", record)

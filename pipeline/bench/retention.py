"""python -m pipeline.bench.retention: how long writers wait while nothing expires, and while a large backlog does.

python -m pipeline.bench.retention                                  SQLite, 500,000 turns that have expired
python -m pipeline.bench.retention --store postgresql://localhost/empty --turns 1000000
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, cast

import click

from pipeline.bench.history import fill
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings, load
from pipeline.stores.sql import ThreadStore
from pipeline.turns.times import iso
from pipeline.worker.expiring import Expiring
from threadmill.identity import thread_uuid, turn_id
from topics.turn_record import TurnRecord

BATCH: Final = 20  # turns of one transaction, in as many threads
PAUSE: Final = 0.02  # seconds between two transactions
TICK: Final = 0.1  # seconds between two looks whether a step of the expiry is due
FOREVER, DAYS_30, DAYS_4000 = "forever", "30d", "4000d"
PARTS: Final = (("without a retention", FOREVER), ("nothing to expire", DAYS_4000), ("a backlog expires", DAYS_30))


@click.command(help=__doc__)
@click.option("--turns", default=500_000, show_default=True, help="That have expired, five in a thread.")
@click.option("--seconds", default=20.0, show_default=True, help="Of each part.")
@click.option("--store", help="The address of an empty store; by default SQLite in a folder that goes again.")
def main(turns: int, seconds: float, store: str | None) -> None:
    """Measure, and print a line of each part."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        asyncio.run(_measure(store or f"sqlite:///{home / 'threads.db'}", home, turns, seconds))


async def _measure(url: str, home: Path, turns: int, seconds: float) -> None:
    async with await ThreadStore.open(url, migrate=True) as store:
        await fill(store, turns, lambda _: None)
        for number, (name, retention) in enumerate(PARTS):
            settings = load({}, home=home, store=url, content="inline", store_retention=retention)
            before = await store.counts()
            taken = await _written(store, settings, number, seconds)
            gone = before.turns + len(taken) * BATCH - (await store.counts()).turns
            p50, p99, most = taken[len(taken) // 2], taken[len(taken) * 99 // 100], taken[-1]
            click.echo(
                f"{name:<22} {len(taken):,} transactions of {BATCH} turns: p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
                f"at most {most:.1f} ms; {gone:,} turns expired"
            )


async def _written(store: ThreadStore, settings: Settings, part: int, seconds: float) -> list[float]:
    """Write for so long beside the expiry -> ms of each transaction, ascending."""
    expiring = Expiring(settings, _opened(store), Metrics())
    expiring._holder = "the benchmark"  # noqa: SLF001  # each part is the same process to the others
    until, taken, ticked = time.monotonic() + seconds, list[float](), 0.0
    while (now := time.monotonic()) < until:
        if now - ticked >= TICK:
            expiring.step()
            ticked = now
        records = [_record(f"{part}-{len(taken)}-{n}") for n in range(BATCH)]
        began = time.perf_counter()
        await store.write(records, settings.kept_for, time.time_ns() // 1_000_000)
        taken.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(PAUSE)
    if expiring.steps.under_way is not None:
        await expiring.steps.under_way
    return sorted(taken)


def _opened(store: ThreadStore) -> Callable[[], Awaitable[ThreadStore]]:
    async def opened() -> ThreadStore:
        return store

    return opened


def _record(name: str) -> TurnRecord:
    """A turn that is over now."""
    thread_id, external_id = thread_uuid(name)
    at = iso(time.time_ns() // 1_000_000)
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
    record: Any = {**identity, **outcome, "turn": turn, "agents": [], "thread": {"external_id": external_id}}
    return cast("TurnRecord", record)


if __name__ == "__main__":
    main()

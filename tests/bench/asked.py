"""What it costs to store turns that say what their model was asked: CPU of turn records into SQLite."""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from pipeline.turns.requests import digest
from tests.bench.searched_store import BEGIN, Speech, record
from topics import turn_record

SIZES: Final = (0, 0, 2_000, 30_000)  # bytes of a request; 0: turns without one
AIM: Final = 2_000  # the size that has a target
TURNS: Final = 500  # that one transaction takes
BATCHES: Final = 30
FIRST: Final = 2  # batches of each that are not counted
TOOL_BYTES: Final = 200


@dataclass(frozen=True, slots=True)
class Asked:
    """CPU µs a turn with a request of so many bytes that the store has already; `more`: than without, as a share."""

    size: int
    cost: float
    more: float


def body(size: int) -> dict[str, Any]:
    """A request of about so many bytes: definitions of tools."""
    tools = [{"name": f"tool_{n}", "description": "d" * (TOOL_BYTES - 36)} for n in range(size // TOOL_BYTES)]
    return {"model": "model-1", "temperature": 0.5, "tools": tools}


async def measure(folder: Path, progress: Callable[[str], None], batches: int = BATCHES) -> list[Asked]:
    """Fill a store of SQLite for each size.

    Each batch begins with another store, as the first pays for caches that all share; and garbage is collected before
    the clock starts, as a collection comes to whom it happens to. The second store without requests is the control: by
    as much as it differs from the first, the figures are uncertain.
    """
    speech, stores = Speech(), list[ThreadStore]()
    costs: list[list[float]] = [[] for _ in SIZES]
    try:
        for place in range(len(SIZES)):
            stores.append(await ThreadStore.open(f"sqlite:///{folder / f'asked-{place}.db'}", migrate=True))
        for batch in range(batches + FIRST):
            progress(f"turns that say what was asked: {batch * TURNS:,}")
            records = [
                record(2 * n + 1, BEGIN + n, speech) for n in range(batch * TURNS, (batch + 1) * TURNS)
            ]  # agents
            for turn in range(len(SIZES)):
                place = (batch + turn) % len(SIZES)
                values = [turn_record.encode(asking(one, SIZES[place])) for one in records]
                gc.collect()
                began = time.process_time()
                await write_turns(stores[place], [turn_record.decode(value) for value in values], values=values)
                costs[place].append((time.process_time() - began) / TURNS * 1_000_000)
    finally:
        for store in stores:
            await store.close()
    found = [some[FIRST:] for some in costs]
    return [
        Asked(size, statistics.median(some), _more(some, found[0])) for size, some in zip(SIZES, found, strict=True)
    ]


def asking(made: Any, size: int) -> Any:
    """The record of an agent's turn with a request of this size behind its responses; 0: with none."""
    if not size:
        return made
    turn, request = made["turn"], body(size)
    name = digest(request)
    messages = [{**message, "meta:request": {"sha256": name}} for message in turn["messages"]]
    return {**made, "turn": {**turn, "messages": messages}, "requests": {name: request}}


def _more(some: list[float], without: list[float]) -> float:
    """The median of the ratios of batches with the same turns."""
    return statistics.median(one / by for one, by in zip(some, without, strict=True)) - 1

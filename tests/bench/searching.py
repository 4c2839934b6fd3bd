"""What searches cost: the store role that writes with them and without, the disk, and whoever waits for an answer."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import text

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.hits import SearchQuery, find_turns
from pipeline.stores.turns import write_turns
from tests.bench import postgres
from tests.bench.searched_store import BEGIN, RARE, Speech, fill, order, rare, record
from turnmill.errors import CallerError

RARE_WORD: Final = "a word in one turn of 100,000"
COMMON_WORD: Final = "a word in all turns"
WRITTEN: Final = 20  # transactions of a round
AT_ONCE: Final = 500  # turns of a transaction, as the store role has
ROUNDS: Final = 3  # with words and without, in turn
ASKED: Final = 100  # times, each
SIZE: Final = {
    "postgresql": "SELECT pg_database_size(current_database())",
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
}
SERVING: Final = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
)

Question = Callable[[random.Random], SearchQuery]


@dataclass(slots=True)
class Searches:
    """`cost`: "off", "on" -> CPU µs of a turn that is written, a figure a round; of the server, too, if it is on this
    machine. `room`: likewise -> bytes of a turn. `queries`: what was asked -> how long answers took, in ms, ascending.
    """

    store: str
    turns: int
    cost: dict[str, list[float]] = field(default_factory=dict)
    room: dict[str, float] = field(default_factory=dict)
    queries: dict[str, list[float]] = field(default_factory=dict)

    def more(self, figures: Mapping[str, Any]) -> float:
        """How much more it is with words than without, by the least of each: 0.2 is a fifth."""
        on, off = (min(found) if isinstance(found := figures[name], list) else found for name in ("on", "off"))
        return float(on / off) - 1


async def both(folder: Path, server: str | None, turns: int, progress: Callable[[str], None]) -> list[Searches]:
    """Measure with SQLite, and with Postgres where there is a server."""
    found = [Searches("sqlite", turns)]
    for number in range(2 * ROUNDS):
        await _write(found[0], f"sqlite:///{folder / f'written-{number}.db'}", ("off", "on")[number % 2], progress)
    await _ask(found[0], f"sqlite:///{folder / 'searched.db'}", progress)
    if server is not None:
        found.append(Searches("postgresql", turns))
        for number in range(2 * ROUNDS):
            async with postgres.database(server) as url:
                await _write(found[1], url, ("off", "on")[number % 2], progress)
        async with postgres.database(server) as url:
            await _ask(found[1], url, progress)
    return found


async def _write(into: Searches, url: str, choice: str, progress: Callable[[str], None]) -> None:
    """A round: a new store, with the sums and all else that a store role keeps."""
    progress(f"writing turns, {into.store}, TURNMILL_SEARCH={choice}")
    speech = Speech()
    batches = [
        [record(n, BEGIN + n * 1000, speech) for n in range(first, first + AT_ONCE)] for first in _firsts(WRITTEN + 1)
    ]
    async with await ThreadStore.open(url, migrate=True, search=choice) as store:
        await write_turns(store, batches[0])  # statements are compiled with the first one
        size = await _one(store, SIZE)
        began = time.process_time() + await _of_the_server(store)
        for batch in batches[1:]:
            await write_turns(store, batch)
        used = time.process_time() + await _of_the_server(store) - began
        written = WRITTEN * AT_ONCE
        into.cost.setdefault(choice, []).append(used / written * 1e6)
        into.room[choice] = (await _one(store, SIZE) - size) / written


def _firsts(batches: int) -> range:
    return range(0, batches * AT_ONCE, AT_ONCE)


async def _one(store: ThreadStore, statements: Mapping[str, str]) -> int:
    async with store.reading() as connection:  # a benchmark's look into it
        return int((await connection.scalar(text(statements[connection.dialect.name]))) or 0)


async def _of_the_server(store: ThreadStore) -> float:
    """CPU seconds of the processes of Postgres that serve this store, as far as this machine has them."""
    async with store.reading() as connection:  # as above
        if connection.dialect.name != "postgresql":
            return 0.0
        pids = await connection.scalars(text(SERVING))
    return await asyncio.to_thread(lambda: sum(map(_cpu, pids)))


def _cpu(pid: int) -> float:
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return 0.0
    times = rest.split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK") if "postgres" in name else 0.0


async def _ask(into: Searches, url: str, progress: Callable[[str], None]) -> None:
    async with await ThreadStore.open(url, migrate=True) as store:
        await fill(store, into.turns, progress)
        progress(f"searches among {into.turns:,} turns, {into.store}")
        into.queries = await answers(store, into.turns)


async def answers(store: ThreadStore, turns: int) -> dict[str, list[float]]:
    """-> what was asked -> how long answers took, in ms, ascending; also of those that were stopped."""
    chosen, found = random.Random(1), dict[str, list[float]]()  # which of the words
    for what, question in _questions(turns):
        for number in range(ASKED + 1):
            query, began = question(chosen), time.perf_counter()
            with suppress(CallerError):
                await find_turns(store, query)
            if number:  # the first one compiles the statement
                found.setdefault(what, []).append((time.perf_counter() - began) * 1000)
        found[what].sort()
    return found


def _questions(turns: int) -> Iterator[tuple[str, Question]]:
    places = range(RARE // 2, turns, RARE) or range(1)
    yield RARE_WORD, lambda by: SearchQuery(rare(by.choice(places)))
    yield "a word in one turn of all", lambda by: SearchQuery(order(by.randrange(0, turns, 5)))
    yield "a word in one turn of 1000", lambda _: SearchQuery("thousandth")
    yield "a word in one turn of 100", lambda _: SearchQuery("hundredth")
    yield "a word in one turn of 10", lambda _: SearchQuery("tenth")
    yield COMMON_WORD, lambda _: SearchQuery("always")
    yield f"{COMMON_WORD}, of one of 50 tenants", lambda by: SearchQuery("always", tenant=f"t{by.randrange(50)}")
    yield f"{COMMON_WORD}, but not with another such", lambda _: SearchQuery("tenth -always")
    yield '"ka lo": two common words in a row', lambda _: SearchQuery('"ka lo"')
    yield "order12*", lambda _: SearchQuery("order12*")
    yield "order1*", lambda _: SearchQuery("order1*")

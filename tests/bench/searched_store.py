"""Stores to search in: turns with words of a known number of turns, as many as one likes."""

import itertools
import random
import re
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.engine import create_engine
from pipeline.stores.database.ids import new_ids
from pipeline.stores.database.sending import of_rows, send
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.write import word_calls
from pipeline.stores.threads.rows import RecordRows, record_rows
from pipeline.stores.threads.statements import put_turns
from pipeline.stores.threads.table_that_follows import PlacedTurn
from pipeline.stores.threads.write import lock
from pipeline.stores.usage.tallies import DAY
from pipeline.turns.times import iso
from topics.turn_record import TurnRecord
from turnmill.identity import thread_uuid, turn_id

END: Final = 1_767_225_600_000  # 2026-01-01
DAYS: Final = 365
BEGIN: Final = END - DAYS * DAY
TENANTS: Final = 50
AT_ONCE: Final = 5_000  # turns
LENGTHS: Final = (15, 75)  # words of a user, of an agent
VOCABULARY: Final = 20_000  # words, the first ones said most often
SYLLABLES: Final = re.findall("..", "kalomitosobeinalreundepocosafelymetiabor")
RARE: Final = 100_000  # turns, of which one has a rare word
EVERY: Final = {"always": 1, "tenth": 10, "hundredth": 100, "thousandth": 1000}  # a word -> one turn of so many has it
ORDERS: Final = 5  # one turn of so many has a number of its own


class Speech:
    """Texts; the same ones for the same seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)  # texts for a benchmark
        found: dict[str, None] = {}
        while len(found) < VOCABULARY:
            found["".join(self._random.choices(SYLLABLES, k=self._random.choice((1, 2, 2, 3, 3, 4))))] = None
        self._words = list(found)
        self._often = list(itertools.accumulate(1 / (place + 10) for place in range(VOCABULARY)))

    def words(self, count: int) -> list[str]:
        """Words, common ones more often."""
        return self._random.choices(self._words, cum_weights=self._often, k=count)

    def turn(self, number: int) -> str:
        """What is said in the turn of this number."""
        said = self.words(LENGTHS[number % 2])
        said += [word for word, every in EVERY.items() if number % every == 0]
        if number % ORDERS == 0:
            said.append(order(number))
        if number % RARE == RARE // 2:
            said.append(rare(number))
        return " ".join(said)


def order(number: int) -> str:
    """The word that only this turn has."""
    return f"order{number}"


def rare(number: int) -> str:
    """The rare word of this turn."""
    return f"needle{number // RARE}x"


async def fill(store: ThreadStore, turns: int, progress: Callable[[str], None]) -> None:
    """Write so many turns to an empty store, without usage. On Postgres the index of words is built at the end."""
    speech = Speech()
    await _run(store, "postgresql", "DROP INDEX turn_words_words")
    for first in range(0, turns, AT_ONCE):
        if first % 100_000 == 0:
            progress(f"a store to search in: {first:,} of {turns:,} turns")
        some = range(first, min(first + AT_ONCE, turns))
        records = [record(number, BEGIN + number * DAYS * DAY // turns, speech) for number in some]
        async with store.writing() as connection:  # a benchmark's way to a year of turns
            await _add(connection, list(map(record_rows, records)))
    progress("a store to search in: the index of words")
    await _run(
        store,
        "postgresql",
        "SET LOCAL maintenance_work_mem = '1GB'",
        "CREATE INDEX turn_words_words ON turn_words USING gin (words)",
    )
    await _run(store, "postgresql", "ANALYZE")
    await _run(store, "sqlite", "ANALYZE")


async def _run(store: ThreadStore, dialect: str, *statements: str) -> None:
    """Run these where the store is of this kind, without a time limit: an index of many turns takes minutes."""
    unlimited = create_engine(store.url, command_seconds=None)  # a benchmark's way to a year of turns
    try:
        if unlimited.dialect.name == dialect:
            async with unlimited.begin() as connection:
                for statement in statements:
                    await connection.execute(text(statement))
    finally:
        await unlimited.dispose()


def record(number: int, ms: int, speech: Speech) -> TurnRecord:
    """Return the record of a turn of a user or of an agent, with one response, that began then (epoch ms)."""
    tenant = f"t{number // 10 % TENANTS}"
    thread_id, run = thread_uuid(f"chat-{number // 10}", tenant)[0], f"run-{number // 2}"
    at, said = iso(ms), speech.turn(number)
    turn: dict[str, Any] = {"turn_type": "user", "submitted_at": at}
    turn["parts"] = [{"part_kind": "user-prompt", "content": said}]
    if number % 2:
        response = {"message_type": "response", "timestamp": iso(ms + 250), "agent_id": "a", "model_name": "gpt-5-mini"}
        response |= {"provider_name": "openai", "parts": [{"part_kind": "text", "content": said}]}  # type: ignore[dict-item]  # a part is a dictionary
        usage = {"input_tokens": 1000 + number % 1000, "output_tokens": number % 500}
        turn = {"turn_type": "agent", "agent_id": "a", "started_at": at, "completed_at": iso(ms + 500)}
        turn |= {"completion_status": "complete", "messages": [response | {"usage": usage}]}
    return {
        "v": 1,
        "thread_id": thread_id,
        "run_id": run,
        "turn_id": turn_id(thread_id, run, "" if number % 2 else "user"),
        "agent_id": "a",
        "tenant": tenant,
        "dialect": "vercel-ai",
        "revision": 0,
        "status": "complete",
        "hash": "0" * 64,
        "events": 3,
        "ranges": [[0, 2]],
        "turn": turn,
        "agents": [{"agent_id": "a", "agent_name": "A", "created_at": at}],
    }


async def _add(connection: AsyncConnection, added: list[RecordRows]) -> None:
    """Write these turns with their words, and nothing else that follows from them."""
    dialect = connection.dialect.name
    threads = await lock(connection, {rows.thread for rows in added})
    ids = await new_ids(connection, [rows.turn["started_at"] for rows in added])
    placed = [PlacedTurn(id_, threads[rows.thread].id, rows) for id_, rows in zip(ids, added, strict=True)]
    turns = [{"id": id_, "thread": thread, "searched": True, **rows.turn} for id_, thread, rows in placed]
    words = await word_calls(connection, placed)
    await send(connection, [of_rows(dialect, put_turns(dialect), turns), *words])

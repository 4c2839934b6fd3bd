"""Stores to search in: turns with words of a known number of turns, as many as one likes."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.engine import create_engine
from pipeline.stores.search_write import add, prepared
from pipeline.stores.sql import ThreadStore
from pipeline.stores.usage_tallies import DAY
from topics import json_text

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
ROW: Final = (
    "INSERT INTO turns (turn_id, thread_id, run_id, ordinal, role, agent_id, tenant, dialect, status, revision, "
    "digest, events, started_at, ended_at, facts, document, searched, said) "
)
COLUMNS: Final = ("turn_id", "thread_key", "run_id", "role", "agent_id", "tenant", "digest", "started_at")
KINDS: Final = ("text", "text", "text", "int", "text", "text", "text", "bigint", "text", "text", "bigint")
ADD: Final = {
    "postgresql": ROW  # noqa: S608  # of this module's own texts
    + "SELECT a, b, c, 0, d, e, f, 'vercel-ai', 'complete', 0, g, 3, h, h, '{}', i::json, j, k FROM unnest("
    + ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(KINDS, 1))
    + ") AS s (a, b, c, d, e, f, g, h, i, j, k)",
    "sqlite": ROW + "VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, 'vercel-ai', 'complete', 0, ?7, 3, ?8, ?8, '{}', ?9, ?10, ?11)",
}


class Speech:
    """Texts; the same ones for the same seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)  # noqa: S311  # texts for a benchmark
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
    await _run(store, "postgresql", "DROP INDEX said_words")
    for first in range(0, turns, AT_ONCE):
        if first % 100_000 == 0:
            progress(f"a store to search in: {first:,} of {turns:,} turns")
        rows = [_row(number, turns, speech) for number in range(first, min(first + AT_ONCE, turns))]
        async with store._writing() as connection:  # noqa: SLF001  # a benchmark's way to a year of turns
            await _add(connection, rows)
    progress("a store to search in: the index of words")
    await _run(
        store,
        "postgresql",
        "SET LOCAL maintenance_work_mem = '1GB'",
        "CREATE INDEX said_words ON said USING gin (words)",
    )
    await _run(store, "postgresql", "ANALYZE")
    await _run(store, "sqlite", "ANALYZE")


async def _run(store: ThreadStore, dialect: str, *statements: str) -> None:
    """Run these where the store is of this kind, without a time limit: an index of many turns takes minutes."""
    unlimited = create_engine(store._url, command_seconds=None)  # noqa: SLF001  # a benchmark's way to a year of turns
    try:
        if unlimited.dialect.name == dialect:
            async with unlimited.begin() as connection:
                for statement in statements:
                    await connection.execute(text(statement))
    finally:
        await unlimited.dispose()


def _row(number: int, turns: int, speech: Speech) -> dict[str, Any]:
    said = speech.turn(number)
    part = {"part_kind": "user-prompt" if number % 2 == 0 else "text", "content": said}
    agent = {"turn_type": "agent", "messages": [{"message_type": "response", "parts": [part]}]}
    return {
        "turn_id": f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}-turn",  # as those of real turns: in no order
        "thread_key": f"{number // 10 * 0xC2B2AE3D27D4EB4F % 2**64:016x}-thread/t{number // 10 % TENANTS}",
        "run_id": f"run-{number // 2}",
        "role": number % 2,
        "agent_id": f"agent-{number // 10 % 7}",
        "tenant": f"t{number // 10 % TENANTS}",
        "digest": f"{number:064x}",
        "started_at": BEGIN + number * DAYS * DAY // turns,
        "document": agent if number % 2 else {"turn_type": "user", "parts": [part]},
    }


async def _add(connection: AsyncConnection, rows: list[dict[str, Any]]) -> None:
    dialect = connection.dialect.name
    threads = [
        {"of": key, "tenant": tenant} for key, tenant in {row["thread_key"]: row["tenant"] for row in rows}.items()
    ]
    await connection.execute(text("INSERT INTO threads (thread_id, tenant) VALUES (:of, :tenant)"), threads)
    marked, words = await prepared(connection, rows, ("said",))
    columns: Iterator[list[Any]] = ([row[name] for row in marked] for name in COLUMNS)
    documents = [json_text.dumps(row["document"]) for row in marked]
    values = [*columns, documents, [row["searched"] for row in marked], [row["said"] for row in marked]]
    given: Any = tuple(values) if dialect == "postgresql" else list(zip(*values, strict=True))
    await connection.exec_driver_sql(ADD[dialect], given)
    await add(connection, words)

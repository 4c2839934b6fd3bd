"""A store with a month of turns: how long it takes to sum them up, and how long reports of their usage take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import and_, bindparam, select, text, update

from pipeline.bench import postgres
from pipeline.stores.histogram import added, text_of
from pipeline.stores.schema import SUMMED, usage_names, usage_state, usage_sums
from pipeline.stores.sql import ThreadStore
from pipeline.stores.time_buckets import HOUR, MINUTE, zone
from pipeline.stores.usage_report import UsageQuery
from pipeline.stores.usage_tallies import DAY, QUARTER, SPANS, TIMES

TURNS: Final = 5_000_000
SMALLER: Final = 10  # times as few, to compare with
DAYS: Final = 31
AT_ONCE: Final = 100_000  # turns that are made in one transaction
ASKED: Final = 200  # times, each
SLOWLY: Final = 3  # times, of what is read from rows
END: Final = 1_767_226_020_000  # 2026-01-01T00:07Z: within a quarter of an hour, as any moment
BEGIN: Final = END - DAYS * DAY
MONTH: Final = END - 30 * DAY
BY_MODEL: Final = "30 days by model"
BY_DAY: Final = "30 days by model, a point a day of UTC"
GROWN: Final = 10  # times as many turns, in sums
AS_GROWN: Final = (BY_MODEL, BY_DAY)

# What numbers are made into: 100 combinations of 10 tenants with 10 agents, with a model and a provider of each.
NUMBERS: Final = {
    "postgresql": "SELECT generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS n",
    "sqlite": "WITH RECURSIVE s(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM s WHERE n < :last) SELECT n FROM s",
}
TURN: Final = {
    "postgresql": "'turn-' || lpad(n::text, 12, '0')",
    "sqlite": "printf('turn-%012d', n)",
}
THREAD: Final = {
    "postgresql": "'thread-' || lpad((n / 5)::text, 12, '0') || '/t' || n / 5 % 10",
    "sqlite": "printf('thread-%012d/t%d', n / 5, n / 5 % 10)",
}
MADE: Final = (
    """INSERT INTO threads (thread_id, tenant, status, turns, total_tokens, created_at, updated_at)
    SELECT {thread}, 't' || (n / 5 % 10), 'complete', 5, 7500, {at}, {at} FROM ({numbers}) s WHERE n % 5 = 0""",
    """INSERT INTO turns (turn_id, thread_id, run_id, ordinal, role, agent_id, tenant, dialect, status, revision,
        digest, events, started_at, ended_at, facts, document)
    SELECT {turn}, {thread}, 'run-' || n, 0, 1, 'agent-' || (n / 50 % 10), 't' || (n / 5 % 10), 'vercel-ai', 'complete',
        0, '', 3, {at}, {at}, '{{}}', '{{}}' FROM ({numbers}) s""",
    """INSERT INTO usage (turn_id, thread_id, position, at, agent_id, tenant, model, provider, finish_reason, requests,
        turns, interrupted, errors, input_tokens, output_tokens, total_tokens, cost_nano_usd, ttft_ms, duration_ms)
    SELECT {turn}, {thread}, 0, {at}, 'agent-' || (n / 50 % 10), 't' || (n / 5 % 10), 'model-' || (n / 50 % 10 % 8),
        'provider-' || (n / 50 % 10 % 3), 'stop', 1, 1, 0, 0, 1000 + n % 1000, n % 500, 1000 + n % 1000 + n % 500,
        1000000 + n % 1000, 100 + n * 7919 % 1000 * (n * 104729 % 9 + 1) / 2, 1000 + n * 7907 % 9000 * (n % 7 + 1)
    FROM ({numbers}) s""",
)


COPIED: Final = """INSERT INTO usage (turn_id, thread_id, position, at, agent_id, tenant, model, provider,
        finish_reason, requests, turns, interrupted, errors, input_tokens, output_tokens, total_tokens, cost_nano_usd,
        ttft_ms, duration_ms)
    SELECT turn_id, thread_id, :copy, at, agent_id, tenant, model, provider, finish_reason, requests, turns,
        interrupted, errors, input_tokens, output_tokens, total_tokens, cost_nano_usd, ttft_ms, duration_ms
    FROM usage WHERE at >= :first AND at < :last AND position = 0"""


@dataclass(frozen=True, slots=True)
class History:
    """`queries`: what was asked -> how long each answer took, in ms, ascending. `summed`: seconds for all sums."""

    store: str
    turns: int
    summed: float
    queries: Mapping[str, list[float]]


async def both(folder: Path, server: str | None, turns: int, progress: Callable[[str], None]) -> list[History]:
    """Measure with SQLite, and with Postgres where there is a server: a tenth of the turns, and all of them."""
    found = []
    for number in (max(turns // SMALLER, 1), turns):
        file = folder / f"history-{number}.db"
        found.append(await measure(f"sqlite:///{file}", number, progress, rows=number < turns))
        _remove(file)
        if server is not None:
            async with postgres.database(server) as url:
                found.append(await measure(url, number, progress, rows=number < turns))
    return sorted(found, key=lambda one: one.store, reverse=True)


def _remove(file: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{file}{end}").unlink(missing_ok=True)


async def measure(url: str, turns: int, progress: Callable[[str], None], *, rows: bool) -> History:
    """Fill an empty store, sum it up and ask. `rows`: also for the same without sums, which takes long."""
    async with await ThreadStore.open(url, migrate=True) as store:
        await store.keep_sums(wanted=False)
        name = await fill(store, turns, progress)
        progress(f"{turns:,} turns on {name}: sums")
        await store.keep_sums(wanted=True)
        began = time.perf_counter()
        while await store.sum_up():
            pass
        summed = time.perf_counter() - began
        await _analyze(store)
        progress(f"{turns:,} turns on {name}: questions")
        queries = {what: await _asked(store, query, ASKED) for what, query in _questions()}
        if rows:
            await store.keep_sums(wanted=False)
            queries[f"{BY_MODEL}, from rows"] = await _asked(store, dict(_questions())[BY_MODEL], SLOWLY)
        else:
            progress(f"{turns:,} turns on {name}: the sums of {GROWN} times as many")
            await _grow(store)
            for what, query in _questions():
                if what in AS_GROWN:
                    queries[f"{what}, {GROWN} × the turns"] = await _asked(store, query, ASKED)
        return History(name, turns, summed, queries)


def _questions() -> Iterator[tuple[str, UsageQuery]]:
    yield BY_MODEL, UsageQuery(("model",), start=MONTH)
    yield "30 days by tenant and agent", UsageQuery(("tenant", "agent"), start=MONTH)
    yield BY_DAY, UsageQuery(("model",), "day", start=MONTH)
    berlin = zone("Europe/Berlin")
    yield "30 days by model, a point a day of Berlin", UsageQuery(("model",), "day", berlin, start=MONTH)
    yield (
        "24 hours by model of a tenant, a point an hour",
        UsageQuery(("model",), "hour", start=END - 24 * HOUR, where={"tenant": ("t7",)}),
    )
    yield "5 minutes by model, from rows", UsageQuery(("model",), start=END - 9 * MINUTE, end=END - 4 * MINUTE)


async def _asked(store: ThreadStore, query: UsageQuery, times: int) -> list[float]:
    found = []
    await store.usage(query)
    for _ in range(times):
        began = time.perf_counter()
        await store.usage(query)
        found.append((time.perf_counter() - began) * 1000)
    return sorted(found)


async def fill(store: ThreadStore, turns: int, progress: Callable[[str], None]) -> str:
    """Add turns that are over since END at the latest -> the database's name."""
    for first in range(0, turns, AT_ONCE):
        async with store._writing() as connection:  # noqa: SLF001  # a benchmark's way to a month of turns
            name = connection.dialect.name
            progress(f"{turns:,} turns on {name}: {first:,} made")
            parts = {"numbers": NUMBERS[name], "turn": TURN[name], "thread": THREAD[name]}
            at = f"({BEGIN} + n * {DAYS * DAY} / {turns})"
            for statement in MADE:
                made = text(statement.format(**parts, at=at))
                await connection.execute(made, {"first": first, "last": min(first + AT_ONCE, turns) - 1})
    return name


async def _grow(store: ThreadStore) -> None:
    """Make the sums those of GROWN times as many turns: as many sums, each of so many more. Of rows there are more
    where reports read them: in the quarter of an hour in which 30 days begin.
    """
    columns = usage_sums.c
    times = {name: getattr(columns, name) for name in TIMES}
    its_own = and_(*(column == bindparam(f"its_{column.name}") for column in usage_sums.primary_key))
    larger = {name: columns[name] * GROWN for name in SUMMED} | {name: bindparam(f"new_{name}") for name in TIMES}
    async with store._writing() as connection:  # noqa: SLF001  # as above
        await connection.execute(update(usage_state).values(kept=False))  # nothing is noted
        for copy in range(1, GROWN):
            await connection.execute(text(COPIED), {"copy": copy, "first": MONTH, "last": MONTH + QUARTER})
        for span in SPANS:
            for (names,) in (await connection.execute(select(usage_names.c.id))).all():
                found = select(*usage_sums.primary_key, *times.values())
                rows = await connection.execute(found.where(columns.span == span, columns.names == names))
                values = [
                    {f"its_{column.name}": row[column.name] for column in usage_sums.primary_key}
                    | {f"new_{name}": text_of(added([row[name]]) * GROWN) for name in TIMES}
                    for row in rows.mappings()
                ]
                if values:
                    await connection.execute(update(usage_sums).where(its_own).values(larger), values)
        await connection.execute(update(usage_state).values(kept=True))


async def _analyze(store: ThreadStore) -> None:
    """As the database does by itself after a while."""
    async with store._writing() as connection:  # noqa: SLF001  # as above
        await connection.execute(text("ANALYZE"))

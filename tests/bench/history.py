"""A store with a month of turns: how long it takes to sum them up, and how long reports of their usage and lists of
their threads take.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import and_, bindparam, select, text, update

from pipeline.stores.database.ids import NUMBER_BITS, ids_of
from pipeline.stores.database.ids import NUMBERS as NUMBERS_OF_TURNS
from pipeline.stores.database.keys import Label, UsageNames
from pipeline.stores.database.schema import SUMMED, usage, usage_names, usage_state, usage_sums
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads.labels import label_ids
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.usage.histogram import added, text_of
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.summing import keep_sums, sum_up
from pipeline.stores.usage.tallies import DAY, QUARTER, SPANS, TIMES
from pipeline.stores.usage.time_buckets import HOUR, MINUTE, zone
from tests.bench import postgres

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

# What numbers are made into: 100 combinations of 10 tenants with 10 agents, with model, provider and labels of each.
NAMES: Final = [
    UsageNames(
        f"t{tenant}",
        f"model-{agent % 8}",
        f"provider-{agent % 3}",
        f"agent-{agent}",
        user=f"user-{agent // 2}",
        environment="production",
        project=f"project-{agent}",
        branch="main",
    )
    for tenant in range(10)
    for agent in range(10)
]
KINDS: Final = ("user", "project")  # the labels that threads have
NUMBERS: Final = {
    "postgresql": "SELECT generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS n",
    "sqlite": "WITH RECURSIVE s(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM s WHERE n < :last) SELECT n FROM s",
}
BYTES: Final = {"postgresql": "decode(lpad(to_hex(n), 32, '0'), 'hex')", "sqlite": "from_hex(printf('%032x', n))"}
EMPTY: Final = {"postgresql": "'{}'::bytea", "sqlite": "CAST('{}' AS BLOB)"}
THREAD: Final = f"({1 << 40} + n / 5)"  # ids that the database itself does not come to
TURN: Final = f"({{at}} << {NUMBER_BITS} | n % {NUMBERS_OF_TURNS})"
MADE: Final = (
    """INSERT INTO threads (id, thread_id, tenant, status, turns, total_tokens, created_at, updated_at, newest)
    SELECT {thread}, 'thread-' || (n / 5), 't' || (n / 5 % 10), 2, 5, 7500, {at}, {at}, {at} << 2 | 1
    FROM ({numbers}) s WHERE n % 5 = 0""",
    """INSERT INTO turns (id, thread, turn_id, run_id, ordinal, role, status, revision, events, digest, started_at,
        ended_at, searched, record)
    SELECT {turn}, {thread}, {bytes}, 'run-' || n, 0, 1, 2, 0, 3, {bytes}, {at}, {at}, true, {empty}
    FROM ({numbers}) s""",
    """INSERT INTO usage (turn, position, thread, at, names, finish_reason, requests, turns, interrupted, errors,
        input_tokens, output_tokens, total_tokens, cost_nano_usd, ttft_ms, duration_ms)
    SELECT {turn}, 0, {thread}, {at}, u.id, 'stop', 1, 1, 0, 0, 1000 + n % 1000, n % 500, 1000 + n % 1000 + n % 500,
        1000000 + n % 1000, 100 + n * 7919 % 1000 * (n * 104729 % 9 + 1) / 2, 1000 + n * 7907 % 9000 * (n % 7 + 1)
    FROM ({numbers}) s JOIN usage_names u ON u.tenant = 't' || (n / 5 % 10) AND u.agent_id = 'agent-' || (n / 50 % 10)
    """,
    """INSERT INTO thread_labels (label, thread, turns) SELECT l.id, {thread}, 5 FROM ({numbers}) s JOIN labels l
    ON l.tenant = 't' || (n / 5 % 10) AND l.label IN ('user-' || (n / 100 % 5), 'project-' || (n / 50 % 10))
    WHERE n % 5 = 0""",
)
VALUES: Final = ", ".join(column.name for column in usage.c if column.name not in ("turn", "position"))
COPIED: Final = f"""INSERT INTO usage (turn, position, {VALUES}) SELECT turn, :copy, {VALUES} FROM usage
    WHERE at >= :first AND at < :last AND position = 0"""  # our own names
LISTED: Final = 50  # threads of a page
LISTS: Final = {
    "the newest threads": ListQuery(),
    "the newest threads of a tenant": ListQuery(tenant="t7"),
    "the newest threads of a user": ListQuery(tenant="t7", user="user-3"),
    "the newest threads of a project of a user": ListQuery(tenant="t7", user="user-3", project="project-6"),
}


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
        remove(file)
        if server is not None:
            async with postgres.database(server) as url:
                found.append(await measure(url, number, progress, rows=number < turns))
    return sorted(found, key=lambda one: one.store, reverse=True)


def remove(file: Path) -> None:
    """Remove a database of SQLite's."""
    for end in ("", "-wal", "-shm"):
        Path(f"{file}{end}").unlink(missing_ok=True)


async def measure(url: str, turns: int, progress: Callable[[str], None], *, rows: bool) -> History:
    """Fill an empty store, sum it up and ask. `rows`: also for the same without sums, which takes long."""
    async with await ThreadStore.open(url, migrate=True) as store:
        await keep_sums(store, wanted=False)
        name = await fill(store, turns, progress)
        progress(f"{turns:,} turns on {name}: sums")
        await keep_sums(store, wanted=True)
        began = time.perf_counter()
        while await sum_up(store):
            pass
        summed = time.perf_counter() - began
        await _analyze(store)
        progress(f"{turns:,} turns on {name}: questions")
        queries = {what: await _asked(partial(usage_report, store, query), ASKED) for what, query in _questions()}
        for what, wanted in LISTS.items():
            queries[what] = await _asked(partial(list_threads, store, LISTED, None, wanted), ASKED)
        if rows:
            await keep_sums(store, wanted=False)
            queries[f"{BY_MODEL}, from rows"] = await _asked(
                partial(usage_report, store, dict(_questions())[BY_MODEL]), SLOWLY
            )
        else:
            progress(f"{turns:,} turns on {name}: the sums of {GROWN} times as many")
            await _grow(store)
            for what, query in _questions():
                if what in AS_GROWN:
                    queries[f"{what}, {GROWN} × the turns"] = await _asked(partial(usage_report, store, query), ASKED)
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
    yield "30 days by user", UsageQuery(("user",), start=MONTH)
    yield "30 days by project of a user", UsageQuery(("project",), start=MONTH, where={"user": ("user-3",)})
    yield "5 minutes by model, from rows", UsageQuery(("model",), start=END - 9 * MINUTE, end=END - 4 * MINUTE)


async def _asked(ask: Callable[[], Awaitable[Any]], times: int) -> list[float]:
    found = []
    await ask()
    for _ in range(times):
        began = time.perf_counter()
        await ask()
        found.append((time.perf_counter() - began) * 1000)
    return sorted(found)


async def fill(store: ThreadStore, turns: int, progress: Callable[[str], None]) -> str:
    """Add turns that are over since END at the latest -> the database's name."""
    for first in range(0, turns, AT_ONCE):
        async with store.writing() as connection:  # a benchmark's way to a month of turns
            name = connection.dialect.name
            progress(f"{turns:,} turns on {name}: {first:,} made")
            await ids_of(connection, UsageNames, NAMES)
            await label_ids(
                connection, {Label(str(names.tenant), kind, getattr(names, kind)) for names in NAMES for kind in KINDS}
            )
            at = f"({BEGIN} + n * {DAYS * DAY} / {turns})"
            parts = {"numbers": NUMBERS[name], "bytes": BYTES[name], "thread": THREAD, "at": at, "empty": EMPTY[name]}
            for statement in MADE:
                made = text(statement.format(**parts, turn=TURN.format(at=at)))
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
    async with store.writing() as connection:  # as above
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
    async with store.writing() as connection:  # as above
        await connection.execute(text("ANALYZE"))

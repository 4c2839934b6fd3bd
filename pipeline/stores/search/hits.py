"""Search in the text of turns: the newest turns that match, ranked.

No search reads all hits of a common word. It takes the newest CANDIDATES of them, and ranks these; pages go through
them, and then through the next ones. FTS5 returns hits in the order of ids, which is that of time, and stops when it
has enough, but first it gathers all hits of words that are given by a prefix. Postgres's GIN has no order. So the
newest turns are scanned first, and these indexes are used only if few of them match.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Result, Row, Select, func, select, true
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.database.held_and_erased import erased_of
from pipeline.stores.database.ids import LATEST, first_id
from pipeline.stores.database.keys import decode_cursor, encode_cursor, thread_of, turn_text
from pipeline.stores.database.packing import size_of
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.query import (
    Terms,
    called,
    facet,
    fitting,
    fts5,
    hits_of,
    matching,
    newest,
    parsed,
    postgres_callers,
    postgres_candidates,
    sqlite_callers,
    sqlite_candidates,
    tsquery,
    wanted_only,
)
from pipeline.stores.search.snippets import score_of, snippet_of
from pipeline.stores.search.write import facets
from pipeline.stores.threads.rows import record_of
from pipeline.turns.column_text import column_text
from pipeline.turns.searched_text import KINDS, Kind
from pipeline.turns.thread_document import agent_configs
from turnmill.errors import CallerError

CANDIDATES: Final = 200  # the newest hits, which are ranked among each other
MAX_HITS: Final = 100  # hits on a page
PAGE_BYTES: Final = 8_000_000  # of turns that snippets are taken from: a page of large turns is shorter
ROLES: Final[dict[str, int]] = {"user": 0, "agent": 1}
PROBES: Final = (2_000, 30_000)  # newest turns that Postgres scans before its index, the second if the first has some
PREFIX_SCAN: Final = 5_000  # newest turns that are scanned before FTS5 gathers all hits of a prefix
MISTAKEN: Final = -1.0  # the score of a row that does not match after all
FULL_PROBE: Final = 14  # hits in the first probe, below which the second isn't worth it
STATEMENT_TIMEOUT: Final = 5.0  # the time limit of a statement
WINDOWS: Final = 3  # of CANDIDATES, searched for a page if none of them may be shown
READ_BATCH: Final = 10  # turns
# Settings of Postgres for a search. It overestimates the hits of rare words, and would rather scan all rows; even more
# with a generic plan, to which it switches after five queries. With too little memory its bitmaps become lossy, so that
# it checks all rows of each page.
INDEXED: Final = {"enable_seqscan": "off", "jit": "off", "plan_cache_mode": "force_custom_plan", "work_mem": "32MB"}
BY_WORDS: Final = {"enable_indexscan": "off"}  # a bitmap scan, which GIN needs
TIMEOUT: Final = "57014"  # Postgres' SQLSTATE
INTERRUPTED: Final = "interrupted"  # SQLite's message
END: Final = first_id(LATEST + 1)
CALLERS: Final = 10_000  # the newest turns that call a tool, by which the threads are found


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search. `tenant`: None for all, "" for none; times in epoch ms, `until` exclusive."""

    q: str
    kinds: tuple[Kind, ...] = KINDS[:1]
    tenant: str | None = None
    agent_id: str | None = None
    role: str | None = None
    since: int | None = None
    until: int | None = None
    limit: int = 20
    cursor: str | None = None
    labels: tuple[tuple[str, str], ...] = ()  # as (kind, label)
    terms: Terms = field(init=False)

    def __post_init__(self) -> None:
        """Parse the query. Raises CallerError if `q` can't be parsed."""
        object.__setattr__(self, "terms", parsed(self.q))

    @property
    def named_tenant(self) -> str | None:
        """The tenant as in columns."""
        return column_text(self.tenant)


@dataclass(frozen=True, slots=True)
class Hit:
    """A turn that matches; `at`: epoch ms; `agent`: a name; `snippet`: escaped HTML with hits in `<mark>`."""

    thread_id: str
    turn_id: str
    role: str
    at: int
    snippet: str
    score: float
    agent: str
    title: str | None  # of the thread; else the beginning of its first prompt
    tenant: str | None


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Some hits; `next`: the cursor of the next page, None on the last page."""

    results: tuple[Hit, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class PageStart:
    """The beginning of a page: after `skip` of the candidates with ids below `before`."""

    before: int = END
    skip: int = 0


async def find_turns(store: ThreadStore, query: SearchQuery) -> SearchPage:
    """Return a page of turns that match. Raises CallerError for a bad cursor, and if the search takes too long."""
    start: PageStart | None = PageStart()
    if query.cursor is not None:
        start = PageStart(*decode_cursor(query.cursor, "search", (END, CANDIDATES)))
    results: list[Hit] = []
    async with store.reading() as connection:
        for _ in range(WINDOWS):
            if start is None or results:
                break
            results, start = await _window(connection, query, start)
    return SearchPage(tuple(results), None if start is None else encode_cursor(start.before, start.skip))


async def callers(connection: AsyncConnection, tool: str, tenant: str | None) -> list[int]:
    """Return the newest turns, at most CALLERS, that call a tool, by their integers."""
    named = column_text(tenant)
    if connection.dialect.name == "sqlite":
        return list(await connection.scalars(sqlite_callers(called(tool), CALLERS)))
    await _set(connection, INDEXED | BY_WORDS)
    turns = list(await connection.scalars(postgres_callers(f"'{called(tool)}'", named, CALLERS)))
    await _set(connection, dict.fromkeys(BY_WORDS, "on"))
    return turns


async def _window(
    connection: AsyncConnection, query: SearchQuery, start: PageStart
) -> tuple[list[Hit], PageStart | None]:
    """Return the next hits among the candidates at this position, and the next position."""
    candidates = await _candidates(connection, query, start.before)
    if not candidates:
        return [], None
    best = sorted(
        (candidate for candidate in candidates if candidate[1] >= 0),
        key=lambda candidate: (-candidate[1], -candidate[0]),
    )
    hits, used = await _read(connection, query, best[start.skip :])
    skipped = start.skip + used
    if skipped < len(best):
        return hits, PageStart(max(candidates)[0] + 1, skipped)
    return hits, PageStart(min(candidates)[0]) if len(candidates) == CANDIDATES else None


async def _read(
    connection: AsyncConnection, query: SearchQuery, best: Sequence[tuple[int, float]]
) -> tuple[list[Hit], int]:
    """Return the hits of a page, and how many candidates were read for them."""
    hits: list[Hit] = []
    used, size = 0, 0
    while used < len(best) and len(hits) < query.limit and size < PAGE_BYTES:
        some = best[used : used + min(READ_BATCH, query.limit - len(hits))]
        rows = (await connection.execute(hits_of([id_ for id_, _ in some], query.named_tenant))).all()
        erased = await erased_of(connection, map(thread_of, rows))
        by_id = {row.id: row for row in rows if thread_of(row) not in erased}
        shown = [(by_id[id_], score) for id_, score in some if id_ in by_id]
        hits += await asyncio.to_thread(lambda rows: [_hit(*row, query) for row in rows], shown)
        used, size = used + len(some), size + sum(size_of(row.record) for row in by_id.values())
    return hits, used


def _hit(row: Row[Any], score: float, query: SearchQuery) -> Hit:
    record, thread = record_of(row.record), thread_of(row)
    snippet = snippet_of(record["turn"], query.terms, query.kinds)
    role = next(name for name, number in ROLES.items() if number == row.role)
    agent = next(
        (agent_config for agent_config in agent_configs(record) if agent_config["agent_id"] == record["agent_id"]), {}
    )
    return Hit(
        thread_id=thread.thread_id,
        turn_id=turn_text(row.turn_id),
        role=role,
        at=row.started_at,
        snippet=snippet,
        score=round(score, 4),
        agent=agent.get("agent_name") or record["agent_id"],
        title=row.title,
        tenant=thread.tenant,
    )


async def _candidates(connection: AsyncConnection, query: SearchQuery, before: int) -> list[tuple[int, float]]:
    """Return id and score of the newest matches, at most CANDIDATES; a score below 0 marks a false match."""
    since = 0 if query.since is None else first_id(query.since)
    before = before if query.until is None else min(before, first_id(query.until))
    named = facets(query.named_tenant, column_text(query.agent_id), ROLES.get(query.role or ""))
    named += [facet(kind, column_text(label) or "") for kind, label in query.labels]
    if connection.dialect.name == "postgresql":
        wanted = tsquery(wanted_only(query.terms), query.kinds, ())
        return await _of_postgres(connection, tsquery(query.terms, query.kinds, named), wanted, query, since, before)
    fits = fitting(query.terms, query.kinds, named)
    if query.terms.any_prefix:
        rows = await _bounded(connection, newest(None, since, before, PREFIX_SCAN))
        some = await asyncio.to_thread(lambda: [row for row in rows if fits(row.words)][:CANDIDATES])
        if len(some) == CANDIDATES:
            return await asyncio.to_thread(_with_scores, some, query, fits)
    match = fts5(query.terms, query.kinds, named)
    rows = await _bounded(connection, sqlite_candidates(match, since, before, CANDIDATES))
    return await asyncio.to_thread(_with_scores, rows, query, fits)


def _with_scores(rows: Iterable[Row[Any]], query: SearchQuery, fits: Callable[[str], bool]) -> list[tuple[int, float]]:
    """Return ids, scores; FTS5 was seen (3.40, 4 million rows, newest first) to return rows with an unwanted word."""
    return [(row.id, score_of(row.words, query.terms, query.kinds) if fits(row.words) else MISTAKEN) for row in rows]


async def _of_postgres(
    connection: AsyncConnection, match: str, wanted: str, query: SearchQuery, since: int, before: int
) -> list[tuple[int, float]]:
    await _set(connection, INDEXED | {"statement_timeout": f"{STATEMENT_TIMEOUT:.0f}s"})
    within = query.named_tenant, since, before
    for most in PROBES:
        rows = newest(*within, most)
        some = await _scored(connection, postgres_candidates(rows, match, wanted, CANDIDATES))
        if len(some) == CANDIDATES:
            return some
        if len(some) < FULL_PROBE:
            break
    await _set(connection, BY_WORDS)
    rows = matching(match, *within)
    return await _scored(connection, postgres_candidates(rows, match, wanted, CANDIDATES))


async def _set(connection: AsyncConnection, settings: Mapping[str, str]) -> None:
    await connection.execute(select(*(func.set_config(name, value, true()) for name, value in settings.items())))


async def _scored(connection: AsyncConnection, query: Select[Any]) -> list[tuple[int, float]]:
    return [(row.id, float(row.score)) for row in await _bounded(connection, query)]


async def _bounded(connection: AsyncConnection, query: Select[Any]) -> Sequence[Row[Any]]:
    """Return the rows. Raises CallerError if that takes longer than STATEMENT_TIMEOUT."""
    execute = _interrupted if connection.dialect.name == "sqlite" else AsyncConnection.execute
    try:
        result: Result[Any] = await execute(connection, query)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == TIMEOUT or INTERRUPTED in str(error.orig):
            raise CallerError(
                f"the search took longer than {STATEMENT_TIMEOUT:.0f} s: "
                "ask for rarer words, or for some time (since, until)"
            ) from None
        raise
    return result.all()


async def _interrupted(connection: AsyncConnection, query: Select[Any]) -> Result[Any]:
    """Run the query with a time limit: SQLite has none, and its thread doesn't stop when the caller is cancelled."""
    driver: Any = (await connection.get_raw_connection()).driver_connection
    task = asyncio.create_task(connection.execute(query))
    try:
        if not (await asyncio.wait({task}, timeout=STATEMENT_TIMEOUT))[0]:
            await driver.interrupt()
        result: Result[Any] = await task
        return result
    except asyncio.CancelledError:
        await driver.interrupt()
        await asyncio.wait({task})
        raise

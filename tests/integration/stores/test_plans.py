"""Postgres answers what the gateway asks by the indexes that docs/stores.md names: plans over 30,000 turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Select
from sqlalchemy.dialects import postgresql

from pipeline.stores import (
    list_statements,
    older_statements,
    search,
    search_statements,
    search_write,
    statements,
    usage_query,
)
from pipeline.stores.expired_threads import Place, candidates
from pipeline.stores.keys import key_text
from pipeline.stores.leavings import due_ones
from pipeline.stores.sql import ThreadStore
from pipeline.stores.summaries import encode_cursor
from pipeline.stores.tenants import of_tenant
from pipeline.stores.usage_plan import joined, parts, plan
from pipeline.stores.usage_report import UsageQuery
from pipeline.stores.usage_sums_statements import Shape, filters_of, names_of, sums_figures, wanted_of
from pipeline.stores.waiting import WaitingWanted, waiting_threads
from tests.support.places import ROOT
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

PAGE = ROOT / "docs" / "stores.md"
START = 1_768_903_200_000
HOUR = 3_600_000
TURNS = 30_000  # of 6,000 of 30,000 threads, over 300 hours, of 50 tenants and 600 agents
FILL = (
    """INSERT INTO threads (thread_id, external_id, tenant, title, prompt, status, turns, total_tokens, created_at,
        updated_at)
    SELECT 'thread-' || n || '/t' || n % 50, 'chat-' || n, 't' || n % 50, 'About ' || n, repeat('What is it? ', 10),
        'complete', 5, 50, :start + n * 180000::bigint, :start + n * 180000::bigint
    FROM generate_series(0, 29999) n""",
    """INSERT INTO turns (turn_id, thread_id, run_id, ordinal, role, agent_id, tenant, dialect, status, revision,
        digest, events, started_at, ended_at, facts, document)
    SELECT 'turn-' || n, 'thread-' || n / 5 || '/t' || n / 5 % 50, 'run-' || n, 0, 1, 'a' || n % 600, 't' || n / 5 % 50,
        'vercel-ai', 'complete', 0, md5(n::text), 3, :start + n * 36000::bigint, :start + n * 36000::bigint, '{}', '{}'
    FROM generate_series(0, :turns - 1) n""",
    """UPDATE threads SET asked = '{}' WHERE ascii(md5(thread_id)) % 5 = 0""",
    "INSERT INTO agents SELECT turn_id, thread_id, agent_id, agent_id FROM turns",
    """INSERT INTO links
    SELECT turn_id, thread_id, 0, thread_id, 'thread-' || number / 7 || '/t' || number / 7 % 50, 'spawned_from'
    FROM (SELECT *, substr(turn_id, 6)::int AS number FROM turns) turns WHERE ascii(digest) % 5 = 0""",
    """INSERT INTO usage (turn_id, thread_id, position, at, agent_id, tenant, model, provider, finish_reason, requests,
        turns, interrupted, errors, input_tokens, output_tokens, total_tokens, cost_nano_usd, ttft_ms, duration_ms)
    SELECT turn_id, thread_id, 0, started_at, agent_id, tenant, 'm' || ascii(digest) % 7, 'p', 'stop', 1, 1, 0, 0, 10,
        5, 15, 1000, ascii(digest), ascii(digest) * 3
    FROM turns""",
    """INSERT INTO expired (thread_id, name, before, first, last, due)
    SELECT 'gone-' || n, '[]', 0, 0, 0, :start - 3000 + n FROM generate_series(1, :turns) n""",
    "UPDATE turns SET searched = substr(digest, 1, 16), said = started_at << 21",
    """INSERT INTO said
    SELECT said, tenant, to_tsvector('simple', 'hello rare' || substr(turn_id, 6)) ||
        array_to_tsvector(ARRAY['§' || tenant])
    FROM turns""",
    "ANALYZE",
)


@pytest.fixture
async def full(postgres_database: str) -> AsyncIterator[ThreadStore]:
    async with await ThreadStore.open(postgres_database, migrate=True) as store:
        async with store._writing() as connection:
            for statement in FILL:
                await connection.exec_driver_sql(statement.replace(":start", str(START)).replace(":turns", str(TURNS)))
        while await store.sum_up():
            pass
        async with store._writing() as connection:
            await connection.exec_driver_sql("ANALYZE")
        yield store


ID = thread_uuid("x")[0]
ONE = ThreadKey("thread-17", "t17")
SOME = [ONE, ThreadKey("thread-400", "t0")]
HOURLY = UsageQuery(start=START + 50 * HOUR, end=START + 51 * HOUR)
OF_ONE = UsageQuery(("model",), where={"tenant": ("t7",)}, start=HOURLY.start, end=START + 74 * HOUR)
BY_MODEL = UsageQuery(("model",), start=HOURLY.start + 1, end=START + 74 * HOUR)
OF_TENANT = replace(BY_MODEL, where={"tenant": ("t7",)})
OF_THREAD = UsageQuery(("agent",), where={"thread": ("thread-17",)})
ANY = (None, None, None, None)
EVER = (0, search.END)


def found(rows: Any, query: str) -> Any:
    return search_statements.postgres_candidates(rows, query, query, search.CANDIDATES)


def sums_of(query: UsageQuery) -> Select[Any]:
    times = parts(*plan(query, 0).live, ())
    wanted = [(span, *time) for span, some in times.items() for time in joined(some)]
    statement = sums_figures(Shape("postgresql", query.group_by, filters_of(query.where)))
    return statement.params(**wanted_of("postgresql", wanted), **names_of(query.where))


# What is asked, as the page calls it -> the query, and the indexes of which one answers it.
QUERIES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "threads, a page": (list_statements.thread_list(50, *ANY), ("threads_updated",)),
    "threads, the next page": (
        list_statements.thread_list(50, encode_cursor(START + HOUR, "thread-9/t9"), *ANY[1:]),
        ("threads_updated",),
    ),
    "threads of some days": (
        list_statements.thread_list(50, *ANY).where(
            *list_statements.narrowed(None, "complete", START, START + 24 * HOUR)
        ),
        ("threads_updated",),
    ),
    "threads of a tenant": (list_statements.thread_list(50, None, None, "t7", None), ("threads_tenant_updated",)),
    "threads of an agent": (list_statements.thread_list(50, None, "a7", None, None), ("agents_agent",)),
    "threads that wait for an answer": (waiting_threads(WaitingWanted(), 100), ("threads_waiting",)),
    "threads of a tenant that wait for an answer": (
        waiting_threads(WaitingWanted(tenant="t7"), 100),
        ("threads_tenant_waiting",),
    ),
    "a thread by its conversation id": (
        list_statements.thread_list(50, *ANY).where(*list_statements.narrowed("chat-7", None, None, None)),
        ("threads_external",),
    ),
    "a thread's line": (list_statements.line(ONE), ("threads_pkey",)),
    "the threads with an id": (list_statements.having_id("thread-17"), ("threads_pkey",)),
    "threads of an older version": (older_statements.key_behind(""), ("threads_older",)),
    "a thread's turns": (statements.records(SOME), ("turns_order",)),
    "links into a thread": (statements.records(SOME), ("links_source",)),
    "a thread's agents": (list_statements.agent_names([key_text(one) for one in SOME]), ("agents_thread",)),
    "a thread's sub-agents": (list_statements.spawned_from(ONE, 100), ("links_target",)),
    "usage of each turn of a thread": (statements.turn_usage(ONE), ("usage_thread",)),
    "usage of a thread": (usage_query.usage_figures(OF_THREAD, ()), ("usage_thread",)),
    "usage of some time": (usage_query.usage_figures(HOURLY, ()), ("usage_at",)),
    "usage of a tenant in some time": (usage_query.usage_figures(OF_ONE, ()), ("usage_tenant_at", "usage_at")),
    "usage of some time, from sums": (
        sums_of(BY_MODEL),
        ("usage_sums_pkey",),
    ),
    "usage of a tenant, from sums": (
        sums_of(OF_TENANT),
        ("usage_sums_pkey",),
    ),
    "threads that have expired": (candidates(None, START + HOUR, Place()), ("threads_updated",)),
    "a tenant's threads that have expired": (candidates("t7", START + HOUR, Place()), ("threads_tenant_updated",)),
    "all threads of a tenant": (of_tenant("t7", (-1, "")), ("threads_tenant_updated",)),
    "what expired threads have left": (due_ones(START, 1000), ("expired_due",)),
    "models without a price in some time": (usage_query.unpriced_models(HOURLY), ("usage_at",)),
    "a search, among the newest turns": (
        found(search_statements.newest(None, *EVER, 2000), "'hello'"),
        ("said_pkey",),
    ),
    "a search of a tenant, among the newest turns": (
        found(search_statements.newest("t7", *EVER, 2000), "'hello' & '§t7'"),
        ("said_tenant",),
    ),
    "a search for a rare word": (
        found(search_statements.fitting("'rare17'", None, *EVER), "'rare17'"),
        ("said_words",),
    ),
    "what a hit says": (search_statements.hits([START << 21, (START + 36_000) << 21], "t0"), ("turns_said",)),
    "turns that no search finds yet": (search_write.UNSEARCHED_TURNS.limit(100), ("turns_unsearched",)),
    "turns whose words are to go": (search_write.SEARCHED_TURNS.limit(100), ("turns_said",)),
    "which turns are there already (a write)": (
        statements.known_turns(["turn-1", "turn-20000"]),
        ("turns_pkey",),
    ),
}


async def test_each_question_is_answered_by_its_index_and_none_reads_a_whole_table(full: ThreadStore) -> None:
    for name, (query, indexes) in QUERIES.items():
        async with full._reading() as connection:
            by_words = search.BY_WORDS if "word" in name else {}
            for setting, value in (search.INDEXED | by_words).items() if "search" in name else ():
                await connection.exec_driver_sql(f"SET LOCAL {setting} = '{value}'")
            sql = query.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
            lines = await connection.exec_driver_sql(f"EXPLAIN (ANALYZE, TIMING OFF) {sql}".replace("%%", "%"))
            plan = "\n".join(lines.scalars())
            assert any(index in plan for index in indexes), f"{name}\n{plan}"
            for table in ("threads", "turns", "agents", "links", "usage", "usage_sums", "expired"):
                assert f"Seq Scan on {table} " not in plan, f"{name}\n{plan}"


def test_the_page_names_them() -> None:
    page = PAGE.read_text("utf-8")
    for name, (_, indexes) in QUERIES.items():
        assert f"| {name} | `{indexes[0]}`" in page, name

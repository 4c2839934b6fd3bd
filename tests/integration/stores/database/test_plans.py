"""Each question of the gateway, the command line and the store role is answered by the index that docs/stores.md names,
and none reads a table that grows: whatever the statistics of the database say.

The statements are those that the store sends when it is asked. Postgres plans each of them three times: with the plan
that a prepared statement keeps from the time when the tables were empty, without statistics of the tables that were
filled since, and with them.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest
import zstandard
from sqlalchemy import event

from pipeline.policies.budgets import parse as parse_budgets
from pipeline.policies.retention import DAY_MS, Retention
from pipeline.policies.webhooks import Event
from pipeline.stores.accounts.audit import AuditQuery, audit_between, audit_from, audit_page, expire_audit
from pipeline.stores.accounts.views import views_of
from pipeline.stores.database import schema
from pipeline.stores.database.held_and_erased import due_remnants, looked_at
from pipeline.stores.database.ids import forget_unused
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread, mark_erased, sub_agents
from pipeline.stores.keeping.expiry import RoundPosition, expire, next_ripe
from pipeline.stores.keeping.holding import held_threads, hold_thread, release_thread
from pipeline.stores.keeping.tenant_erasure import threads_of_tenant
from pipeline.stores.outbound.deliveries import claim_deliveries, enqueue, finish_delivery, retry_delivery, still_waits
from pipeline.stores.outbound.notices import add_notices, due_notices, notices_sent
from pipeline.stores.search import threads as stored_threads
from pipeline.stores.search.hits import SearchQuery, find_turns
from pipeline.stores.search.threads import list_threads
from pipeline.stores.search.write import index_some
from pipeline.stores.threads import agents_and_requests, pages
from pipeline.stores.threads.agents_and_requests import request_bodies
from pipeline.stores.threads.datasets import add_turns, chosen_in, datasets_of, leave_datasets, turns_of
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback, feedback_of, forget_feedback, names_of
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.pages import PageWanted, read_page
from pipeline.stores.threads.reading import (
    WaitingWanted,
    all_documents,
    answered_live,
    erased_among,
    find_threads,
    read_records,
    read_thread,
    run_events,
    spawned_threads,
    stored_runs,
    thread_summary,
    waiting_threads,
)
from pipeline.stores.threads.steps import tools_called
from pipeline.stores.turns import compare_turns, write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.rows import reprice, turn_usage
from pipeline.stores.usage.summing import compare_sums, forget_sums, keep_sums, sum_up
from pipeline.turns.judged import condition
from tests.integration.stores.conftest import database
from tests.support.places import ROOT
from tests.support.stored_threads import thread_keys
from tests.support.turn_records import Record
from tests.support.turn_records import make_record as record
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

PAGE: Final = ROOT / "docs" / "stores.md"
START: Final = 1_768_903_200_000  # 2026-01-20T10:00Z, as the records below
HOUR: Final = 3_600_000
TURNS: Final = 30_000  # of as many threads, over 300 hours, of 50 tenants and 600 agents
GROWING: Final = {
    *("threads", "turns", "thread_agents", "links", "usage", "usage_sums", "turn_words", "erased"),
    *("holds", "expired", "notices", "webhook_deliveries", "requests", "request_values", "request_members"),
    *("turn_requests", "feedback", "audit", "views", "dataset_turns"),
}
ASKED: Final = json.dumps(
    {**dict.fromkeys(("turn_id", "run_id", "agent_id", "agent_name", "dialect", "since")), "asked": []}
)
RECORD: Final = json.dumps({"agent_id": "a7", "turn": {"turn_type": "user", "parts": []}})
INDEXES: Final = {index.name for table in schema.metadata.tables.values() for index in table.indexes}
ALIASES: Final = {"t": "turns", "holders": "threads"}
ALIKE: Final = {"turns_named": ("turns_named", "turns_in_time")}  # both have all turns of a thread
OF_POSTGRES: Final = {"turn_words_tenant", "turn_words_words"}  # SQLite has FTS5 for these
AT: Final = f"({START} + n * 36000::bigint)"
FILL: Final = (
    f"""INSERT INTO threads (id, thread_id, external_id, tenant, title, prompt, status, turns, total_tokens, created_at,
        updated_at, newest, asked)
    SELECT 1000 + n, 'thread-' || n, 'chat-' || n, 't' || n % 50, 'About ' || n, repeat('What is it? ', 10), 2, 1, 50,
        {AT}, {AT}, {AT} << 2, CASE WHEN n % 5 = 0 THEN '{ASKED}'::json END FROM numbers n""",
    f"""INSERT INTO turns (id, thread, turn_id, run_id, ordinal, role, status, revision, events, digest, started_at,
        ended_at, searched, record)
    SELECT {AT} << 21 | n, 1000 + n / 5, decode(md5(n::text), 'hex'), 'run-' || n, 0, 1, 2, 0, 3, '', {AT}, {AT},
        true, convert_to('{RECORD}', 'UTF8') FROM numbers n""",
    "INSERT INTO agents SELECT 1000 + n, decode(md5(n::text), 'hex'), 'a' || n, 'A' FROM numbers n WHERE n < 600",
    "INSERT INTO thread_agents SELECT 1000 + n % 600, 1000 + n, 1 FROM numbers n",
    """INSERT INTO labels SELECT 1000 + n, decode(md5(n::text), 'hex'), 't' || n % 50, 'user', 'u' || n, true
    FROM numbers n""",
    "INSERT INTO thread_labels SELECT 1000 + n, 1000 + n, 1 FROM numbers n",
    f"""INSERT INTO links SELECT {AT} << 21 | n, 0, 'thread-' || n / 5, 'thread-' || n / 7, 'spawned_from'
    FROM numbers n WHERE n % 5 = 0""",
    """INSERT INTO usage_names SELECT 1000 + n, decode(md5(n::text), 'hex'), 't' || n % 50, 'm' || n % 7, 'p',
    'a', NULL, '', '', '' FROM numbers n WHERE n < 350""",
    f"""INSERT INTO usage (turn, position, thread, at, names, requests, turns, interrupted, errors, total_tokens)
    SELECT {AT} << 21 | n, 0, 1000 + n / 5, {AT}, 1000 + n % 350, 1, 1, 0, 0, 15 FROM numbers n""",
    "INSERT INTO usage_tags SELECT 1000 + n, 'tag' || n % 9 FROM numbers n WHERE n < 350",
    f"""INSERT INTO turn_words SELECT {AT} << 21 | n, 't' || n % 50,
        to_tsvector('simple', 'hello rare' || n) || array_to_tsvector(ARRAY['§t' || n % 50]) FROM numbers n""",
    """INSERT INTO erased SELECT 'gone-' || n, '["x", null]', 0 FROM numbers n""",
    """INSERT INTO holds SELECT 'held-' || n, '["x", null]', 0 FROM numbers n""",
    """INSERT INTO feedback SELECT 'thread-' || n, 't' || n % 50, 'a', CASE WHEN n % 100 = 0 THEN 'helpful' END,
        n % 2, json_build_object('v', 1, 'thread_id', 'thread-' || n, 'tenant', 't' || n % 50, 'value', n), n, n
    FROM numbers n""",
    f"""INSERT INTO audit (at, who, token, address, action, subject, tenant, outcome)
    SELECT {AT}, 'ann', '', '', 'thread.erase', 'thread-' || n, 't' || n % 50, 'done' FROM numbers n""",
    """INSERT INTO views SELECT 'v' || n, 'ann', 't' || n % 50, 'mine', '#/threads', false, n, 'ann' FROM numbers n""",
    """INSERT INTO dataset_turns SELECT 'd' || n, 't' || n % 50, 'set ' || n % 7, n, 'thread-' || n, 'turn', n
    FROM numbers n""",
    """INSERT INTO expired SELECT 'gone-' || n, '["x", null]', 0, 0, 0, n FROM numbers n""",
    """INSERT INTO requests
    SELECT 1000 + n, decode(md5(n::text), 'hex'), decode(md5(n::text), 'hex'), 't' || n % 50, '{}' FROM numbers n""",
    "INSERT INTO request_values SELECT 1000 + n, decode(md5(n::text), 'hex'), 't' || n % 50, '{}' FROM numbers n",
    "INSERT INTO request_members SELECT 1000 + n, 'tools', 1000 + n FROM numbers n",
    f"INSERT INTO turn_requests SELECT {AT} << 21 | n, 1000 + n FROM numbers n",
    """INSERT INTO notices SELECT 'n' || n, CASE WHEN n < 9 THEN n END, 9000000000000, '{"at": 1, "id": "x"}'
    FROM numbers n""",
    """INSERT INTO webhook_deliveries (webhook, id, lane, payload, place, at, due, attempts)
    SELECT 'w' || n % 9, 'd' || n, 'l' || n, '', '["t", 0, 0]', 0, CASE WHEN n < 9 THEN n END, 0 FROM numbers n""",
)


KEY: Final = ThreadKey.of(thread_uuid("chat")[0], None)
SUB: Final = ThreadKey.of(thread_uuid("sub")[0], None)
GONE: Final = ThreadKey.of(thread_uuid("gone")[0], None)
NOW: Final = START + 2 * DAY_MS
KEPT: Final = Retention(DAY_MS, {"t7": DAY_MS})
HOURLY: Final = UsageQuery(start=START + 50 * HOUR, end=START + 51 * HOUR)
BY_MODEL: Final = UsageQuery(("model",), start=START + 50 * HOUR + 1, end=START + 74 * HOUR)
BY_REASON: Final = replace(HOURLY, group_by=("finish_reason", "model"))
OF_TENANT: Final = {"tenant": ("t7",)}


async def forget(store: ThreadStore) -> None:
    async with store.writing() as connection:
        await agents_and_requests.forget_requests(connection, [1001, 1002])
        await forget_unused(connection, schema.request_values, [1001], (agents_and_requests.HAD,))


def sub_agent(run: str) -> Record:
    return record("sub", run, links=[{"relation": "spawned_from", "thread_id": KEY.thread_id}])


FIRST: Final[list[Any]] = [record("chat", "r1"), record("chat", "r2", seconds=5), sub_agent("s1"), record("gone", "g1")]
LATE: Final = (record("chat", f"very-late-{n}") for n in range(99))  # before the turns that are there
LATER: Final[list[Any]] = [record("chat", f"late-{n}", seconds=60 + n) for n in range(3)]
LABELLED: Final = (
    {**record("chat", f"labelled-{n}"), "thread": {"meta:labels": {"user": f"new-{n}"}}} for n in range(99)
)
BATCH: Final[list[Any]] = [
    *(record(f"chat-{n}", "r", agent_id=f"a{n}") for n in range(100)),
    record("chat", "r1", text="changed", events=5, agent_id="a2"),
    record("chat", "r0", seconds=1),
    sub_agent("s2"),
    record("gone", "g2"),
]
BUDGETS: Final = parse_budgets('[{"name": "all", "tokens": 1000, "per": "month"}]')
DELIVERY: Final = Event("e", "turn.completed", None, "l7", 0, b"{}", ("t", 0, 0))


async def read(found: AsyncIterator[Any], most: int = 60) -> None:
    number = 0
    async for _ in found:
        if (number := number + 1) == most:
            return


async def next_page(store: ThreadStore) -> None:
    await list_threads(store, 50, (await stored_threads.list_threads(store, 50)).cursor)


async def deliver(store: ThreadStore, now: int = NOW) -> None:
    await enqueue(store, [("w7", DELIVERY)], now)
    [one, *_] = await claim_deliveries(store, now, lambda due: [one.seq for one in due][:2])
    await still_waits(store, one)
    await retry_delivery(store, one, now)
    await finish_delivery(store, one, now)


async def notify(store: ThreadStore) -> None:
    await add_notices(store, [{"v": 1, "id": "new", "type": "x", "at": 0, "data": {}}], NOW)
    await notices_sent(store, [one["id"] for one in await due_notices(store, NOW)], NOW)


async def clean(store: ThreadStore) -> None:
    found = await due_remnants(store, NOW)
    await looked_at(store, found[:1], found[1:2])


async def hold(store: ThreadStore) -> None:
    await hold_thread(store, KEY)
    await held_threads(store, [KEY])
    await release_thread(store, KEY)


async def erase(store: ThreadStore) -> None:
    await mark_erased(store, KEY)
    await sub_agents(store, KEY)
    await erased_among(store, [KEY])
    await delete_thread(store, KEY, BUDGETS)


async def leave(store: ThreadStore) -> None:
    """Of a tenant that has data sets: where statistics know of none, its index is as cheap as the thread's."""
    async with store.writing() as connection:
        await leave_datasets(connection, [ThreadKey.of(thread_uuid("chat")[0], "t7")], "")


async def comment(store: ThreadStore) -> None:
    comments: list[Any] = [
        {"v": 1, "thread_id": key.thread_id, "id": "one", "name": "helpful", "value": 1, "at": NOW}
        for key in (KEY, SUB)
    ]
    await add_feedback(store, [ReceivedFeedback(one, NOW, 0) for one in comments])
    await feedback_of(store, [KEY, SUB])


# A question, as the page calls it -> how the store is asked, and the index that answers it.
QUESTIONS: Final[Mapping[str, tuple[Callable[[ThreadStore], Awaitable[Any]], str]]] = {
    "threads, a page": (lambda s: list_threads(s, 50), "threads_updated"),
    "threads, the next page": (next_page, "threads_updated"),
    "threads of some days": (
        lambda s: list_threads(s, 50, None, ListQuery(since=START, until=START + DAY_MS, status="complete")),
        "threads_updated",
    ),
    "threads of a tenant": (lambda s: list_threads(s, 50, None, ListQuery(tenant="t7")), "threads_tenant_updated"),
    "threads of an agent": (lambda s: list_threads(s, 50, None, ListQuery(agent="a7")), "agents_agent"),
    "threads by their cost, of the newest": (
        lambda s: list_threads(s, 50, None, ListQuery(sort="cost")),
        "threads_updated",
    ),
    "threads of a model": (lambda s: list_threads(s, 50, None, ListQuery(model="m")), "threads_updated"),
    "threads in which a tool was called": (
        lambda s: list_threads(s, 50, None, ListQuery(tool="t")),
        "turn_words_words",
    ),
    "threads that wait for an answer": (lambda s: waiting_threads(s, WaitingWanted()), "threads_waiting"),
    "threads of a tenant that wait for an answer": (
        lambda s: waiting_threads(s, WaitingWanted(tenant="t7")),
        "threads_tenant_waiting",
    ),
    "a thread by its conversation id": (lambda s: find_threads(s, "chat"), "threads_external"),
    "a thread's line": (lambda s: thread_summary(s, KEY), "threads_named"),
    "the threads with an id": (lambda s: find_threads(s, "chat"), "threads_named"),
    "all threads": (lambda s: read(thread_keys(s)), "threads_named"),
    "all runs": (lambda s: read(stored_runs(s)), "turns_named"),
    "a thread's turns": (lambda s: read_thread(s, KEY), "turns_named"),
    "a page of a thread": (lambda s: read_page(s, KEY, PageWanted()), "turns_in_time"),
    "a thread, piece by piece": (lambda s: pages.read_whole(s, KEY), "turns_in_time"),
    "a thread's records": (lambda s: read_records(s, KEY), "turns_named"),
    "a run's events": (lambda s: run_events(s, KEY), "turns_named"),
    "when a thread's responses came": (lambda s: answered_live(s, KEY), "turns_named"),
    "all threads with their turns": (lambda s: read(all_documents(s, ListQuery(tenant=""))), "threads_named"),
    "usage to be priced again": (lambda s: read(reprice(s, START, START + HOUR, dry_run=False)), "usage_at"),
    "links into a thread": (lambda s: read_thread(s, KEY), "links_source"),
    "a thread's agents": (lambda s: thread_summary(s, KEY), "thread_agents_thread"),
    "a thread's sub-agents": (lambda s: spawned_threads(s, KEY), "links_target"),
    "usage of each turn of a thread": (lambda s: turn_usage(s, KEY), "turns_named"),
    "usage of a thread": (
        lambda s: usage_report(s, UsageQuery(("agent",), where={"thread": (KEY.thread_id,)})),
        "turns_named",
    ),
    "usage of some time": (lambda s: usage_report(s, BY_REASON), "usage_at"),
    "usage of a tenant in some time": (
        lambda s: usage_report(s, replace(BY_REASON, end=START + 74 * HOUR, where=OF_TENANT)),
        "usage_names_at",
    ),
    "usage of some time, from sums": (lambda s: usage_report(s, BY_MODEL), "usage_sums_pkey"),
    "usage of a tenant, from sums": (lambda s: usage_report(s, replace(BY_MODEL, where=OF_TENANT)), "usage_sums_pkey"),
    "taking changes up into sums": (sum_up, "usage_changes_pkey"),
    "forgetting the sums of a tenant": (lambda s: forget_sums(s, "t7"), "usage_sums_pkey"),
    "comparing sums": (compare_sums, "usage_sums_pkey"),
    "what a model was asked": (lambda s: request_bodies(s, ["0" * 64]), "requests_sha256"),
    "whether a turn names a request": (forget, "turn_requests_request"),
    "whether a request has a value": (forget, "request_members_value"),
    "threads that have expired": (lambda s: next_ripe(s, KEPT, NOW, RoundPosition(1)), "threads_updated"),
    "a tenant's threads that have expired": (
        lambda s: next_ripe(s, KEPT, NOW, RoundPosition()),
        "threads_tenant_updated",
    ),
    "all threads of a tenant": (lambda s: read(threads_of_tenant(s, "t7")), "threads_tenant_updated"),
    "what expired threads have left": (clean, "expired_due"),
    "a search, among the newest turns": (lambda s: find_turns(s, SearchQuery("rare*")), "turn_words_pkey"),
    "a search of a tenant, among the newest turns": (
        lambda s: find_turns(s, SearchQuery("hello", tenant="t7")),
        "turn_words_tenant",
    ),
    "a search for a rare word": (lambda s: find_turns(s, SearchQuery("rare17")), "turn_words_words"),
    "what a hit says": (lambda s: find_turns(s, SearchQuery("hello")), "turns_pkey"),
    "turns that no search finds yet": (index_some, "turns_unsearched"),
    "which threads and turns are there already (a write)": (lambda s: write_turns(s, BATCH), "turns_named"),
    "whether a tenant's new label is counted": (lambda s: write_turns(s, [next(LABELLED)]), "labels_tenant"),
    "threads of a user, of any tenant": (lambda s: list_threads(s, 50, None, ListQuery(user="u7")), "labels_label"),
    "a thread's labels": (lambda s: thread_summary(s, KEY), "thread_labels_thread"),
    "usage by tag": (lambda s: usage_report(s, replace(BY_REASON, group_by=("tag",))), "usage_tags_names"),
    "a turn that comes late": (lambda s: write_turns(s, [next(LATE)]), "turns_in_time"),
    "which turns are there already (a comparison)": (lambda s: compare_turns(s, BATCH), "turns_named"),
    "notices that are due": (notify, "notices_due"),
    "deliveries that are due": (deliver, "webhook_deliveries_due"),
    "what waits in a lane": (lambda s: deliver(s, NOW + DAY_MS), "webhook_deliveries_lane"),
    "whether a thread is held": (hold, "holds_pkey"),
    "what was said of a thread": (comment, "feedback_pkey"),
    "what was said of a tenant's threads": (lambda s: forget_feedback(s, "t7"), "feedback_tenant"),
    "threads that were judged so": (
        lambda s: list_threads(s, 50, None, ListQuery(feedback=condition("helpful<0.5"))),
        "feedback_name",
    ),
    "the names of feedback": (lambda s: names_of(s, None), "feedback_name"),
    "the names of feedback of a tenant": (lambda s: names_of(s, "t7"), "feedback_tenant"),
    "what was said under a name, for a report of usage": (
        lambda s: usage_report(s, replace(BY_MODEL, feedback=("helpful",))),
        "feedback_name",
    ),
    "who did what": (lambda s: audit_page(s, AuditQuery(), 100, None), "audit_at"),
    "who did what to a tenant's": (lambda s: audit_page(s, AuditQuery("t7"), 100, None), "audit_tenant_at"),
    "the first entry of then or later": (lambda s: audit_from(s, NOW - 1000), "audit_at"),
    "the entries of an hour": (lambda s: audit_between(s, NOW - 1000, NOW), "audit_at"),
    "entries that are too old": (lambda s: expire_audit(s, NOW), "audit_at"),
    "the saved views of a tenant": (lambda s: views_of(s, "ann", "t7"), "views_tenant"),
    "the data sets of a tenant": (lambda s: datasets_of(s, "t7"), "dataset_turns_number"),
    "a page of a data set": (lambda s: turns_of(s, "t7", "set 3", 0, 50), "dataset_turns_number"),
    "which turns of a thread are in a data set": (
        lambda s: chosen_in(s, KEY, "set 3", {"turns": [{"meta:turn_id": "turn"}]}),
        "dataset_turns_pkey",
    ),
    "the data sets that a deleted thread leaves": (leave, "dataset_turns_thread"),
    "a turn that is added to a data set": (lambda s: add_turns(s, KEY, "set 3", None, NOW), "dataset_turns_pkey"),
    "threads of a data set of a tenant": (
        lambda s: list_threads(s, 50, None, ListQuery(tenant="t7", dataset="set 3")),
        "dataset_turns_number",
    ),
    "which tools the newest turns call": (lambda s: tools_called(s, ListQuery()), "turns_pkey"),
    "which tools a tenant's newest turns call": (lambda s: tools_called(s, ListQuery(tenant="t7")), "turns_pkey"),
    "a thread that is deleted": (erase, "turns_named"),
    "a thread that expires": (lambda s: expire(s, [GONE], KEPT, NOW), "turns_named"),
}

Transactions = list[list[tuple[str, Sequence[Any]]]]  # of each its statements, with parameters
Asked = dict[str, Transactions]


async def ask(store: ThreadStore, watch: Callable[[Transactions], None]) -> Asked:
    """Ask each question -> what the store has sent; `watch` adds to a list."""
    asked: Asked = {}
    for name, (question, _) in QUESTIONS.items():
        watch(asked.setdefault(name, [[]]))
        await question(store)
    return asked


def planned(sql: str) -> bool:
    return sql.split(None, 1)[0] in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH") and "advisory" not in sql


# ---- Postgres


@pytest.fixture
async def filled(postgres_url: str, empty_store: str) -> AsyncIterator[ThreadStore]:
    """A store whose tables were filled and never analyzed."""
    async with database(postgres_url, empty_store) as url, ThreadStore(url) as store:
        async with store.writing() as connection:
            for table in schema.metadata.tables:
                await connection.exec_driver_sql(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
            await connection.exec_driver_sql(f"CREATE TEMP VIEW numbers AS SELECT generate_series(0, {TURNS - 1}) AS n")
            for statement in FILL:
                await connection.exec_driver_sql(statement.replace("numbers n", "(SELECT n FROM numbers) s"))
        await write_turns(store, FIRST)
        await keep_sums(store, wanted=True)
        while await sum_up(store):
            pass
        await write_turns(store, LATER)
        async with store.writing() as connection:
            await connection.exec_driver_sql("UPDATE turns SET searched = false WHERE run_id = 'late-2'")
            await connection.exec_driver_sql(
                "DELETE FROM turn_words WHERE id IN (SELECT id FROM turns WHERE NOT searched)"
            )
        yield store


def nodes(plan: dict[str, Any], *, limited: bool = False) -> Iterator[tuple[dict[str, Any], bool]]:
    """Each node of a plan, and whether something above it ends after some rows."""
    yield plan, limited
    for part in plan.get("Plans", ()):
        yield from nodes(part, limited=limited or plan["Node Type"] == "Limit")


def read_whole(plan: dict[str, Any]) -> set[str]:
    """The tables of which this plan reads all rows."""
    found = set()
    for node, limited in nodes(plan):
        kind = node["Node Type"]
        by_index = kind in ("Index Scan", "Index Only Scan") and ("Index Cond" in node or limited)
        if "Relation Name" in node and not by_index and kind not in ("ModifyTable", "Bitmap Heap Scan"):
            found.add(node["Relation Name"])
    return found & GROWING


async def explained(
    store: ThreadStore, transactions: Transactions, *, kept: bool = False
) -> list[tuple[str, dict[str, Any]]]:
    """Each statement and its plan, under the settings of its transaction; `kept`: the plan that a prepared statement
    keeps, for any parameters.
    """
    found = list[tuple[str, dict[str, Any]]]()
    for statements in transactions:
        async with store.reading() as connection:
            execute = connection.exec_driver_sql
            if kept:
                await execute("SET LOCAL plan_cache_mode = force_generic_plan")
            for sql, parameters in statements:
                if "set_config" in sql:
                    await execute(sql, tuple(parameters))
                    continue
                if kept:
                    count = max(map(int, re.findall(r"\$(\d+)", sql)), default=0)
                    await execute(f"PREPARE one AS {sql}")
                    nulls = f"({', '.join(['NULL'] * count)})" if count else ""
                    rows = await execute(f"EXPLAIN (FORMAT JSON) EXECUTE one{nulls}")
                    await execute("DEALLOCATE one")
                else:
                    rows = await execute(f"EXPLAIN (FORMAT JSON) {sql}", tuple(parameters))
                found.append((sql, rows.scalar_one()[0]["Plan"]))
    return found


async def wrong_plans(store: ThreadStore, asked: Asked, *, kept: bool = False) -> dict[str, list[str]]:
    """Question -> its statements that read a whole table, and which."""
    wrong: dict[str, list[str]] = {}
    for name, transactions in asked.items():
        for sql, plan in await explained(store, transactions, kept=kept):
            if whole := read_whole(plan):
                wrong.setdefault(name, []).append(f"{sorted(whole)}: {sql}")
    return wrong


async def test_postgres_reads_no_table_whole_whatever_it_knows_of_it(
    filled: ThreadStore, postgres_url: str, empty_store: str
) -> None:
    seen: Transactions = []

    def note(_connection: Any, _cursor: Any, sql: str, parameters: Any, _context: Any, many: Any) -> None:
        if planned(sql):
            seen[-1].append((sql, parameters[0] if many else parameters))

    def watch(found: Transactions) -> None:
        nonlocal seen
        seen = found

    event.listen(filled._engine.sync_engine, "before_cursor_execute", note)
    event.listen(filled._engine.sync_engine, "begin", lambda _: seen.append([]))
    asked = await ask(filled, watch)
    event.remove(filled._engine.sync_engine, "before_cursor_execute", note)
    wrong = {"without statistics": await wrong_plans(filled, asked)}
    async with database(postgres_url, empty_store) as url, ThreadStore(url) as empty:
        wrong["from when the tables were empty"] = await wrong_plans(empty, asked, kept=True)
    async with filled.writing() as connection:
        await connection.exec_driver_sql("ANALYZE")
    wrong["with statistics"] = await wrong_plans(filled, asked)
    assert not any(wrong.values()), json.dumps(wrong, indent=1)
    missed = dict[str, list[str]]()
    for name, (_, index) in QUESTIONS.items():
        plans = [json.dumps(plan) for _, plan in await explained(filled, asked[name])]
        if not any(f'"{each}"' in plan for plan in plans for each in ALIKE.get(index, (index,))):
            missed[name] = plans
    assert missed == {}


# ---- SQLite


async def test_sqlite_reads_no_table_whole(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'threads.db'}"
    async with await ThreadStore.open(url) as store:
        await write_turns(store, FIRST)
        await enqueue(store, [("w7", replace(DELIVERY, id="f"))], NOW)
    seen: Transactions = []

    def note(sql: str) -> None:
        if not sql.startswith("--") and planned(sql):
            seen[-1].append((sql, ()))

    def watch(found: Transactions) -> None:
        nonlocal seen
        seen = found

    async with ThreadStore(url) as store:
        assert store._direct is not None

        def traced(connection: Any, _record: object) -> None:
            if hasattr(connection, "run_async"):
                connection.run_async(lambda one: one.set_trace_callback(note))
            else:
                connection.set_trace_callback(note)

        for engine in (store._engine.sync_engine, store._direct):
            event.listen(engine, "connect", traced)
        asked = await ask(store, watch)
        missed = dict[str, list[str]]()
        async with store.reading() as connection:
            for name, (_, index) in QUESTIONS.items():
                plans = list[str]()
                for sql in {sql: None for statements in asked[name] for sql, _ in statements}:
                    rows = (await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}")).all()
                    assert not {scanned(row, limited="LIMIT" in sql) for row in rows} & GROWING, (name, sql, rows)
                    plans += [f"{row.detail} " for row in rows]
                if index in INDEXES - OF_POSTGRES and not any(
                    f" INDEX {each} " in plan for plan in plans for each in ALIKE.get(index, (index,))
                ):
                    missed[name] = plans
    assert missed == {}


def scanned(row: Any, *, limited: bool) -> str | None:
    """The table of which this step of a plan reads all rows: without an index, or a whole index that nothing limits."""
    found = re.match(r"SCAN (\w+)(?! VIRTUAL)( USING)?", row.detail)
    return None if found is None or (found[2] and limited) else ALIASES.get(found[1], found[1])


# ---- the page


def test_the_page_names_each_question_with_its_index() -> None:
    page = PAGE.read_text("utf-8")
    for name, (_, index) in QUESTIONS.items():
        assert f"| {name} | `{index}`" in page, name


def test_each_index_answers_a_question() -> None:
    assert INDEXES - {index for _, index in QUESTIONS.values()} == set()


async def test_what_the_page_says_of_records_unpacks_them(filled: ThreadStore) -> None:
    [(code, _)] = re.findall(r"```python\n(rows = .*?)(\n```)", PAGE.read_text("utf-8"), re.DOTALL)
    async with filled.reading() as connection:
        content = (await connection.exec_driver_sql("SELECT id, content FROM dictionaries")).all()
        where = "SELECT n.record FROM turns n JOIN threads t ON t.id = n.thread WHERE t.thread_id = '{}'"
        packed = (await connection.exec_driver_sql(where.format(KEY.thread_id))).scalars().first()
    given = {"connection": Mock(execute=lambda _: content), "record": bytes(packed or b""), "zstandard": zstandard}
    steps, last = code.rsplit("\n", 1)
    exec(steps, given)  # what the page says
    assert json.loads(eval(last, given))["turn"]["messages"][0]["model_name"] == "model-1"  # likewise

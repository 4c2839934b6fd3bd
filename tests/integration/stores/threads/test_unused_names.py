"""Names of agents, models, providers and tenants go with the last row that has them, and never before."""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.policies.retention import DAY_MS, Retention
from pipeline.stores.database.schema import agents, usage_names
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread, mark_erased
from pipeline.stores.keeping.expiry import expire
from pipeline.stores.tables_that_follow import BOOKS
from pipeline.stores.threads.reading import thread_summary
from pipeline.stores.threads.rows import record_rows
from pipeline.stores.threads.write import DELETED, delete_turns, lock, write
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.summing import forget_sums, keep_sums, sum_up
from tests.integration.stores.conftest import blocked
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

LATER = 2_000_000_000_000


def key(chat: str) -> ThreadKey:
    return ThreadKey.of(thread_uuid(chat)[0], None)


async def names(store: ThreadStore) -> tuple[set[str], set[tuple[str, str]]]:
    """The agents that the store knows, and the models with their agents."""
    async with store.reading() as connection:
        known = set(await connection.scalars(select(agents.c.agent_id)))
        used = await connection.execute(select(usage_names.c.model, usage_names.c.agent_id))
        return known, {(row.model, row.agent_id) for row in used}


async def sum_all_up(store: ThreadStore) -> None:
    while await sum_up(store):
        pass


@pytest.mark.parametrize("sums", [True, False])
async def test_names_go_with_the_last_thread_that_has_them(store: ThreadStore, record: Any, *, sums: bool) -> None:
    spawned = [{"relation": "spawned_from", "thread_id": key("gone").thread_id}]
    await keep_sums(store, wanted=sums)
    await write_turns(
        store,
        [
            record("gone", agent_id="secret-agent", model="secret-model"),
            record("gone", "r2", agent_id="a2", seconds=2),
            record("kept", agent_id="a2"),
            record("child", agent_id="of-child", links=spawned),
        ],
    )
    await sum_all_up(store)
    await delete_thread(store, key("gone"))
    await sum_all_up(store)
    assert await names(store) == ({"a2", "of-child"}, {("model-1", "a2"), ("model-1", "of-child")})
    await mark_erased(store, key("gone"))
    # A run of the erased thread was still under way: the writer itself deletes what its sub-agent has said.
    await write_turns(store, [record("child", "late", links=spawned)])
    await sum_all_up(store)
    assert await names(store) == ({"a2"}, {("model-1", "a2")})
    await delete_thread(store, key("kept"))
    await sum_all_up(store)
    assert await names(store) == (set(), set())


@pytest.mark.parametrize("sums", [True, False])
async def test_names_of_a_replaced_turn_go(store: ThreadStore, record: Any, *, sums: bool) -> None:
    await keep_sums(store, wanted=sums)
    await write_turns(store, [record(agent_id="old", model="old-model", status="interrupted")])
    await sum_all_up(store)
    await write_turns(store, [record(agent_id="new", model="new-model", revision=1)])
    await sum_all_up(store)
    assert await names(store) == ({"new"}, {("new-model", "new")})


async def test_sums_of_expired_threads_keep_whose_they_are(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record("old", agent_id="a7")])
    await expire(store, [key("old")], Retention(DAY_MS), LATER)
    await sum_all_up(store)
    assert await names(store) == (set(), {("model-1", "a7")})
    await forget_sums(store, "")
    assert await names(store) == (set(), set())


async def test_names_go_also_where_no_sum_held_their_usage_yet(store: ThreadStore, record: Any) -> None:
    await keep_sums(store, wanted=False)
    await write_turns(store, [record("gone", agent_id="gone"), record("kept")])
    await keep_sums(store, wanted=True)
    await delete_thread(store, key("gone"))
    await sum_all_up(store)
    assert await names(store) == ({"a1"}, {("model-1", "a1")})


# ---- races, of which SQLite has none: it has one writer


async def beside(store: ThreadStore, first: Any, second: Awaitable[Any]) -> Any:
    """Commit `first` only when `second` waits for it -> the result of `second`."""
    async with store.writing() as connection:
        await first(connection)
        task = asyncio.ensure_future(second)
        await blocked(store, task)  # type: ignore[arg-type]
    async with asyncio.timeout(30):
        return await task


async def deleted(connection: AsyncConnection) -> None:
    await lock(connection, [key("gone")])
    await delete_turns(connection, [key("gone")], DELETED, BOOKS)


on_postgres = pytest.mark.parametrize("store_url", ["postgres"], indirect=True)


@on_postgres
@pytest.mark.parametrize("sums", [True, False])
async def test_a_writer_waits_for_a_deletion_and_adds_the_names_again(
    store: ThreadStore, record: Any, *, sums: bool
) -> None:
    await keep_sums(store, wanted=sums)
    await write_turns(store, [record("gone", agent_id="both")])
    await beside(store, deleted, write_turns(store, [record("new", agent_id="both")]))
    await sum_all_up(store)
    assert await names(store) == ({"both"}, {("model-1", "both")})
    new = await thread_summary(store, key("new"))
    assert new is not None
    assert new.agents == ("Both",)


@on_postgres
@pytest.mark.parametrize("sums", [True, False])
async def test_a_deletion_waits_for_a_writer_and_leaves_the_names(
    store: ThreadStore, record: Any, *, sums: bool
) -> None:
    await keep_sums(store, wanted=sums)
    await write_turns(store, [record("gone", agent_id="both")])
    batch = {0: record_rows(record("new", agent_id="both"))}
    await beside(store, partial(write, batch=batch, books=BOOKS), delete_thread(store, key("gone")))
    await sum_all_up(store)
    assert await names(store) == ({"both"}, {("model-1", "both")})


@on_postgres
async def test_two_deletions_leave_no_name(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record("gone", agent_id="both"), record("too", agent_id="both")])
    await beside(store, deleted, delete_thread(store, key("too")))
    await sum_all_up(store)
    assert await names(store) == (set(), set())

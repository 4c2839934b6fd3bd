"""What models were asked is stored once, and goes with the last turn that names it."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select

from pipeline.policies.retention import DAY_MS, Retention
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.schema import request_members, request_values, requests, turn_requests, turns
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.keeping.expiry import expire
from pipeline.stores.tables_that_follow import BOOKS
from pipeline.stores.threads.agents_and_requests import request_bodies
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.threads.rows import record_rows
from pipeline.stores.threads.write import write
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.summing import keep_sums, sum_up
from pipeline.turns.requests import digest, prompt_of
from tests.integration.stores.conftest import blocked
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

TABLES = (requests, request_values, request_members, turn_requests)
PROMPT = "You are the support agent of a shop. " * 60
TOOLS = [{"type": "function", "function": {"name": f"tool_{n}", "description": "does much " * 20}} for n in range(20)]
LATER = 2_000_000_000_000


def key(chat: str, tenant: str | None = None) -> ThreadKey:
    return ThreadKey.of(thread_uuid(chat)[0], tenant)


def asking(record: Any, *bodies: dict[str, Any], chat: str = "chat", run: str = "r", **fields: Any) -> Any:
    """A turn with a response to each of these requests."""
    made = record(chat, run, **fields)
    [response] = made["turn"]["messages"]
    made["turn"]["messages"] = [{**response, "meta:request": {"sha256": digest(body)}} for body in bodies]
    made["requests"] = {digest(body): body for body in bodies}
    return made


def body(**more: Any) -> dict[str, Any]:
    return {"model": "m", "system": PROMPT, "tools": TOOLS, "temperature": 0.5, **more}


async def counted(store: ThreadStore) -> tuple[int, ...]:
    """The rows of requests, their large members, what joins these, and of turns that name requests."""
    async with store.reading() as connection:
        return tuple([await connection.scalar(select(func.count()).select_from(table)) or 0 for table in TABLES])


async def test_a_prompt_is_stored_once_however_often_it_is_sent(store: ThreadStore, record: Any) -> None:
    for first in range(0, 10_000, 500):
        some = range(first, first + 500)
        await write_turns(store, [asking(record, body(), chat=f"chat {n % 7}", run=f"r{n}") for n in some])
    assert await counted(store) == (1, 2, 2, 10_000)
    async with store.reading() as connection:
        longest = await connection.scalar(select(func.max(func.length(turns.c.record))))
    assert longest is not None
    assert longest < len(PROMPT)


async def test_large_members_are_kept_once_where_small_ones_differ(store: ThreadStore, record: Any) -> None:
    bodies = [body(metadata={"request": n}, previous_response_id=f"resp_{n}") for n in range(50)]
    await write_turns(store, [asking(record, one, run=f"r{n}") for n, one in enumerate(bodies)])
    assert await counted(store) == (50, 2, 100, 50)
    names = [digest(one) for one in bodies]
    read = await request_bodies(store, names)
    assert read == {digest(one): one for one in bodies}
    assert len({id(one["tools"]) for one in read.values()}) == 1, "it is read once"
    with pytest.raises(StoreError, match="more than 100,000 bytes"):
        await request_bodies(store, names, most=100_000)


async def test_it_comes_back_as_equal_json(store: ThreadStore, record: Any) -> None:
    odd = {"a b": "x" * 1000, "": 0.0, "n": [1e22, -0.5, None, True, "é\x00"], "\x00": 1, "big": {"deep": ["y" * 999]}}
    await write_turns(store, [asking(record, odd, body(stream=True))])
    assert await request_bodies(store, [digest(odd)]) == {digest(odd): odd}
    assert await request_bodies(store, ["0" * 64, "no hash"]) == {}


async def test_each_tenant_has_its_own(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [asking(record, body(), chat=one or "", tenant=one) for one in ("t1", "t2")])
    assert (await counted(store))[:2] == (2, 4)
    name = digest(body())
    assert await request_bodies(store, [name], "t1") == {name: body()}
    assert await request_bodies(store, [name], "") == {}
    assert await request_bodies(store, [name], "other") == {}
    await delete_thread(store, key("t1", "t1"))
    assert await request_bodies(store, [name], "t1") == {}
    assert await request_bodies(store, [name], "t2") == {name: body()}


async def test_it_goes_with_the_last_turn_that_names_it(store: ThreadStore, record: Any) -> None:
    own = body(system="of one thread alone " * 50)
    await write_turns(store, [asking(record, body(), own, chat="one"), asking(record, body(), chat="two")])
    assert await counted(store) == (2, 3, 4, 3)
    await delete_thread(store, key("one"))
    assert await counted(store) == (1, 2, 2, 1)
    await expire(store, [key("two")], Retention(default=DAY_MS), LATER)
    assert await counted(store) == (0, 0, 0, 0)


async def test_a_turn_that_is_replaced_names_what_its_newest_record_names(store: ThreadStore, record: Any) -> None:
    before, after = body(system="before " * 100), body(system="after " * 100)
    await write_turns(store, [asking(record, before, status="interrupted")])
    await write_turns(store, [asking(record, after, revision=1)])
    assert await request_bodies(store, [digest(before), digest(after)]) == {digest(after): after}
    assert await counted(store) == (1, 2, 2, 1)
    await write_turns(store, [asking(record, after, revision=1)])
    assert await counted(store) == (1, 2, 2, 1)


async def test_foreign_records_may_hold_anything(store: ThreadStore, record: Any) -> None:
    broken = [{"no hash": {}}, {"0" * 64: "no object"}, [1], "text", {}]
    await write_turns(store, [record(run=f"r{n}", requests=one) for n, one in enumerate(broken)])
    assert await counted(store) == (0, 0, 0, 0)
    assert (await count_rows(store)).turns == len(broken)


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
async def test_a_deletion_waits_for_a_writer_that_uses_the_same(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [asking(record, body(), chat="gone")])
    async with store.writing() as connection:
        rows = record_rows(asking(record, body(), chat="kept"))
        await write(connection, {0: rows}, BOOKS)
        deletion = asyncio.create_task(delete_thread(store, key("gone")))
        await blocked(store, deletion)
    await deletion
    assert await counted(store) == (1, 2, 2, 1)
    assert await request_bodies(store, [digest(body())]) == {digest(body()): body()}


async def test_usage_is_told_apart_by_prompt(store: ThreadStore, record: Any) -> None:
    old, new = body(), body(system="be kind")
    await write_turns(store, [asking(record, old, run="r1"), asking(record, {**old, "temperature": 1}, run="r2")])
    await write_turns(store, [asking(record, new, run="r3"), record("chat", "r4")])
    wanted = {(prompt_of(old), 2), (prompt_of(new), 1), (None, 1)}
    for wanted_sums in (False, True):
        await keep_sums(store, wanted=wanted_sums)
        while wanted_sums and await sum_up(store):
            pass
        found = await usage_report(store, UsageQuery(group_by=("prompt",)))
        assert {(row.group["prompt"], row.figures.requests) for row in found.rows} == wanted
        only = await usage_report(store, UsageQuery(where={"prompt": (str(prompt_of(new)),)}))
        assert only.total.requests == 1

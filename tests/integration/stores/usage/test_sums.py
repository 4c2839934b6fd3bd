"""Sums of usage are what all rows add up to: whoever writes, however often, whatever is taken away."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select, text, update

from pipeline.policies.retention import Retention
from pipeline.stores.costs.rows import ESTIMATED, TOLD
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.expressions import MAX_INTEGER
from pipeline.stores.database.keys import UsageNames
from pipeline.stores.database.schema import COUNTED, SUMMED, usage, usage_changes, usage_names, usage_state
from pipeline.stores.database.schema import usage_sums as sums_table
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.keeping.expiry import expire
from pipeline.stores.threads.statements import number_of
from pipeline.stores.turns import write_turns
from pipeline.stores.usage import summing as stored_summing
from pipeline.stores.usage import sums as usage_sums
from pipeline.stores.usage.histogram import of_times
from pipeline.stores.usage.summing import compare_sums, keep_sums
from pipeline.stores.usage.tallies import SPANS, Tally
from tests.support.places import ROOT
from tests.support.stored_threads import thread_keys
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

Key = tuple[int, int, bool, UsageNames]  # span, start, expired, whose
Sums = dict[Key, dict[str, Any]]
CHATS: Final = ("chat", "other")


FAR: Final = 4_000_000_000_000  # epoch ms at which all has expired


def summed(rows: Iterable[Mapping[str, Any]], *, expired: bool = False) -> Sums:
    """What plain Python makes of rows of usage."""
    found: dict[Key, Tally] = {}
    for row in rows:
        cost, kind, differs = row["cost_nano_usd"], row["cost_kind"], row["computed_nano_usd"] is not None
        costs = [(cost or 0) * (kind == TOLD), (cost or 0) * (kind == ESTIMATED), int(differs), (cost or 0) * differs]
        unpriced = cost is None and (row["total_tokens"] or 0) > 0
        counts = [*(row[name] or 0 for name in COUNTED), *costs, int(unpriced)]
        times = [of_times(Counter([row[name]] if row[name] is not None else [])) for name in ("ttft_ms", "duration_ms")]
        names = UsageNames(*(row[name] for name in UsageNames._fields))
        for span in SPANS:
            key = span, row["at"] // span * span, expired, names
            found.setdefault(key, Tally()).add(Tally(counts, *times))
    return {key: tally.columns() for key, tally in found.items()}


async def usage_rows(store: ThreadStore, thread: ThreadKey | None = None) -> list[dict[str, Any]]:
    """The rows of usage of all threads, or of one."""
    columns = (usage_names.c[name] for name in UsageNames._fields)
    query = select(usage, *columns).join(usage_names, usage.c.names == usage_names.c.id)
    if thread is not None:
        query = query.where(usage.c.thread == number_of(thread))
    async with store.reading() as connection:
        return [dict(row) for row in (await connection.execute(query)).mappings()]


async def stored(store: ThreadStore) -> Sums:
    """The sums as they are in their table."""
    async with store.reading() as connection:
        rows = (
            (
                await connection.execute(
                    select(sums_table, usage_names).join(usage_names, sums_table.c.names == usage_names.c.id)
                )
            )
            .mappings()
            .all()
        )
    found: Sums = {}
    for row in rows:
        names = UsageNames(*(row[name] for name in UsageNames._fields))
        found[row["span"], row["start"], row["expired"], names] = {
            name: row[name] for name in (*SUMMED, "ttft", "duration")
        }
    return found


async def sum_all_up(store: ThreadStore) -> None:
    while await stored_summing.sum_up(store):
        pass


async def begun_anew(store: ThreadStore) -> None:
    for key in [key async for key in thread_keys(store)]:
        await delete_thread(store, key)
    async with store.writing() as connection:
        for table in (usage_changes, sums_table, usage_names):
            await connection.execute(delete(table))
        await connection.execute(update(usage_state).values(kept=True, since=None))


def made(record: Any, data: Any) -> Any:
    """A turn of one of two threads, with some responses; also another revision of one that there is."""
    draw = data.draw
    one = record(
        draw(st.sampled_from(CHATS)),
        f"r{draw(st.integers(0, 3))}",
        seconds=draw(st.integers(0, 9_000)),
        revision=draw(st.integers(0, 5)),
        timings=[{"ttft_ms": draw(st.none() | st.integers(0, 2_000)), "duration_ms": draw(st.integers(0, 10**6))}],
        status=draw(st.sampled_from(["complete", "interrupted"])),
    )
    labels = [{}, {"user": "u1", "tags": ["a"]}, {"user": "u2", "tags": ["a", "b"], "branch": "main"}]
    one["thread"] |= {"meta:labels": draw(st.sampled_from(labels))}
    response = one["turn"]["messages"][0]
    one["turn"]["messages"] = [
        response
        | {
            "model_name": model,
            "agent_id": agent,
            "usage": {"input_tokens": tokens} | ({} if cost is None else {"cost": cost}),
        }
        for model, agent, tokens, cost in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["m1", "m2", "", None]),
                    st.sampled_from(["a1", "a2"]),
                    st.integers(0, 2**40),
                    st.sampled_from([None, 0, 0.25]),
                ),
                max_size=3,
            )
        )
    ]
    return one


STEPS: Final = ("write", "write", "write", "again", "erase", "expire", "sum up", "keep", "build little")


async def test_any_sequence_of_steps_leaves_the_sums_of_all_rows(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(usage_sums, "ROWS_BATCH", 2)

    async def step(name: str, records: Sequence[Any], chat: str, expired: Counter[Any]) -> None:
        key = ThreadKey(thread_uuid(chat)[0])
        if name in ("write", "again"):
            await write_turns(store, records)
        elif name in ("erase", "expire"):
            if name == "expire":
                for row in await usage_rows(store, key):
                    expired[tuple(row.items())] += 1
                await expire(store, [key], Retention(default=1), FAR)
            else:
                await delete_thread(store, key)
        elif name == "keep":
            await keep_sums(store, wanted=False)
            await keep_sums(store, wanted=True)
        elif name == "build little":
            async with store.writing() as connection:
                await usage_sums.build(connection, 2)
        else:
            await stored_summing.sum_up(store)

    async def check_all(expired: Counter[Any]) -> None:
        await sum_all_up(store)
        right = summed(await usage_rows(store)) | summed(map(dict, expired.elements()), expired=True)
        assert await stored(store) == right
        compared = await compare_sums(store)
        assert (compared.wrong, compared.since) == ((), 0)
        assert compared.sums == sum(not expired for _, _, expired, _ in right)
        async with store.reading() as connection:
            assert (await connection.execute(select(usage_changes))).all() == []

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        def run(work: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(work, loop).result()

        run(begun_anew(store))
        expired: Counter[Any] = Counter()
        records: list[Any] = []
        for _ in range(data.draw(st.integers(1, 10))):
            name = data.draw(st.sampled_from(STEPS))
            if name != "again":
                records = [made(record, data) for _ in range(data.draw(st.integers(1, 3)))]
            run(step(name, records, data.draw(st.sampled_from(CHATS)), expired))
        run(check_all(expired))

    await asyncio.to_thread(check)


async def stored_all(store: ThreadStore, records: Sequence[Any]) -> bool:
    """Whether it worked: a thread may have been deleted meanwhile."""
    try:
        await write_turns(store, records)
    except StoreError as error:
        if not error.transient:
            raise
        return False
    return True


async def test_writers_and_those_who_sum_up_don_t_get_in_each_others_way(
    store: ThreadStore, store_url: str, record: Any
) -> None:
    """Four writers, of which two know nothing of sums, while two sum up and one erases."""
    writing = True

    async def write(number: int) -> None:
        async with await ThreadStore.open(store_url) as own:
            for n in range(12):
                some = [record(f"chat{m % 3}", f"r{number}-{n // 2}", seconds=m * 400, revision=n) for m in range(6)]
                while not await stored_all(own, some):
                    pass

    async def sum_up() -> None:
        async with await ThreadStore.open(store_url) as own:
            while writing:
                await stored_summing.sum_up(own)
                await asyncio.sleep(0)

    async def erase() -> None:
        for n in range(6):
            await asyncio.sleep(0.05)
            await delete_thread(store, ThreadKey(thread_uuid(f"chat{n % 2}")[0]))

    adders = [asyncio.create_task(sum_up()) for _ in range(2)]
    await asyncio.gather(*map(write, range(4)), erase())
    writing = False
    await asyncio.gather(*adders)
    await sum_all_up(store)
    assert await stored(store) == summed(await usage_rows(store)) != {}


async def test_wrong_sums_are_found_and_put_right(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record(run=f"r{n}", seconds=n * 1000) for n in range(9)])
    await sum_all_up(store)
    right = await stored(store)
    async with store.writing() as connection:
        await connection.execute(
            update(sums_table).values(input_tokens=7, ttft="3.4.0001").where(sums_table.c.span == SPANS[1])
        )
        await connection.execute(delete(sums_table).where(sums_table.c.span == SPANS[2]))
    assert len((await compare_sums(store)).wrong) == 3 + 1
    assert len((await compare_sums(store, repair=True)).wrong) == 4
    assert (await compare_sums(store)).wrong == ()
    assert await stored(store) == right


async def test_sums_from_which_something_is_taken_that_was_not_in_them_are_built_anew(
    store: ThreadStore, record: Any
) -> None:
    await write_turns(store, [record(run=f"r{n}", seconds=n * 1000) for n in range(9)])
    await sum_all_up(store)
    right = await stored(store)
    async with store.writing() as connection:
        await connection.execute(update(sums_table).values(output_tokens=0))
    key = ThreadKey(thread_uuid("chat")[0])
    await delete_thread(store, key)
    await write_turns(store, [record(run=f"r{n}", seconds=n * 1000) for n in range(9)])
    async with store.writing() as connection:
        await usage_sums.take_up(connection, 1)
    async with store.writing() as connection:
        await usage_sums.take_up(connection, 3)
    await sum_all_up(store)
    assert (await compare_sums(store)).wrong == ()
    assert await stored(store) == right


async def test_a_sum_that_is_too_large_says_the_most(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record(run=f"r{n}") for n in range(2)])
    async with store.writing() as connection:
        await connection.execute(update(usage).values(total_tokens=MAX_INTEGER))
    await sum_all_up(store)
    assert {row["total_tokens"] for row in (await stored(store)).values()} == {MAX_INTEGER}
    assert (await compare_sums(store)).wrong == ()


async def test_nothing_is_noted_where_no_sums_are_kept(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record()])
    await sum_all_up(store)
    await keep_sums(store, wanted=False)
    await write_turns(store, [record(run="r2")])
    async with store.reading() as connection:
        assert (await connection.execute(select(usage_changes))).all() == []
    assert await stored(store) == {}
    assert not await stored_summing.sum_up(store)
    assert (await compare_sums(store)).since is None


async def test_a_worker_with_few_rights_writes(postgres_database: str, record: Any) -> None:
    """It may read and write the tables, as docs/stores.md grants it, and owns none of them."""
    role = "worker_" + postgres_database.rpartition("/")[2].partition("?")[0][-12:]
    async with await ThreadStore.open(postgres_database, migrate=True) as store, store.writing() as connection:
        await connection.execute(text(f"CREATE ROLE {role} LOGIN PASSWORD 'worker'"))
        for grant in GRANTS:
            await connection.execute(text(grant.replace("turnmill_worker", role)))
    mine = re.sub(r"//[^/]*@", f"//{role}:worker@", postgres_database, count=1)
    async with await ThreadStore.open(mine) as store:
        await write_turns(store, [record(), record(run="r2")])
        await write_turns(store, [record(revision=1)])
        await sum_all_up(store)
        assert await delete_thread(store, ThreadKey(thread_uuid("chat")[0]))
        await sum_all_up(store)
        assert await stored(store) == {}


GRANTS: Final = re.findall(r"^GRANT .*;$", (ROOT / "docs" / "stores.md").read_text("utf-8"), re.MULTILINE)

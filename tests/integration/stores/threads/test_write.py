"""What `write_turns` leaves behind."""

import asyncio
import json
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads import reading as stored_reading
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.reading import all_documents, count_rows, find_threads, read_thread
from pipeline.stores.threads.rows import record_rows
from pipeline.stores.threads.summaries import Counts, StepUsage, WriteResult
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.rows import turn_usage
from pipeline.turns.times import LAST_MS
from tests.support.stored_threads import thread_keys
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

CHAT = thread_uuid("chat")[0]


async def test_the_same_again_changes_nothing(store: ThreadStore, record: Any, tables: Any) -> None:
    records = [record(run=f"r{n}", seconds=n) for n in range(5)]
    assert await write_turns(store, records) == WriteResult(inserted=5)
    before = await tables()
    assert await write_turns(store, records) == WriteResult(unchanged=5)
    assert await tables() == before
    assert await write_turns(store, []) == WriteResult()


async def test_a_newer_revision_replaces_turn_and_usage(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record(text="old", tokens=10)])
    assert await write_turns(store, [record(text="new", tokens=70, revision=1)]) == WriteResult(updated=1)
    assert await write_turns(store, [record(text="older", revision=0)]) == WriteResult(unchanged=1)
    (turn,) = (await read_thread(store, ThreadKey(CHAT)) or {})["turns"]
    assert turn["messages"][0]["parts"][0]["content"] == "new"
    total = (await usage_report(store, UsageQuery())).total
    assert (total.requests, total.turns, total.input_tokens, total.total_tokens) == (1, 1, 70, 71)
    assert total.cost_usd == 0.001


async def test_complete_beats_interrupted_whatever_the_revision(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record(status="interrupted", revision=3)])
    assert await count_rows(store) == Counts(threads=1, turns=1, runs=1, interrupted=1)
    assert await write_turns(store, [record(revision=1)]) == WriteResult(updated=1)
    assert await write_turns(store, [record(status="interrupted", revision=9)]) == WriteResult(unchanged=1)
    assert await count_rows(store) == Counts(threads=1, turns=1, runs=1, interrupted=0)


async def test_the_publishers_word_beats_a_worker_that_gave_up_on_the_same_events(
    store: ThreadStore, record: Any
) -> None:
    def cut(reason: str, **fields: Any) -> Any:
        made = record(status="interrupted", **fields)
        made["turn"]["interruption"] = {"reason": reason, "interrupted_at": "2026-01-20T10:00:02.000Z"}
        return made

    async def reason() -> Any:
        (turn,) = (await read_thread(store, ThreadKey(CHAT)) or {})["turns"]
        return turn["interruption"]["reason"]

    for given_up in ("timeout", "events_lost"):
        for said in ("user_cancelled", "network_failure", "error"):
            for batches in ([[given_up], [said]], [[said], [given_up]], [[said, given_up]]):
                await delete_thread(store, ThreadKey(CHAT))
                for batch in batches:
                    await write_turns(store, [cut(one) for one in batch])
                assert await reason() == said
    assert await write_turns(store, [cut("timeout", events=4)]) == WriteResult(updated=1)
    assert await write_turns(store, [cut("timeout", events=4, revision=1), cut("error", events=4)]) == WriteResult(
        updated=1, unchanged=1
    )
    assert await reason() == "timeout"


async def test_of_a_turn_that_is_twice_in_a_batch_the_better_one_is_written(store: ThreadStore, record: Any) -> None:
    batch = [record(text="1", revision=1), record(text="2", revision=2), record(text="0"), record(run="r2")]
    assert await write_turns(store, batch) == WriteResult(inserted=2, unchanged=2)
    turns = (await read_thread(store, ThreadKey(CHAT)) or {})["turns"]
    assert sorted(turn["messages"][0]["parts"][0]["content"] for turn in turns) == ["2", "hello"]


async def test_a_record_without_turn_gives_facts_only(store: ThreadStore, record: Any) -> None:
    facts = record(run="facts", turn=None, hash=None, at=1768903300000, thread={"title": "Weather"})
    await write_turns(store, [record(), facts])
    document = await read_thread(store, ThreadKey(CHAT))
    assert document is not None
    assert (document["title"], len(document["turns"])) == ("Weather", 1)
    assert await count_rows(store) == Counts(threads=1, turns=1, runs=2, interrupted=0)


async def test_links_reach_the_thread_that_they_start_from(store: ThreadStore, record: Any) -> None:
    child = thread_uuid("child")[0]
    link = {"from": child, "thread_id": CHAT, "relation": "spawned_from"}
    await write_turns(store, [record(links=[link]), record("child", "r2")])
    expected = {"links": [{"thread_id": CHAT, "relation": "spawned_from"}]}
    assert (await read_thread(store, ThreadKey(child)) or {})["relationships"] == expected
    assert "relationships" not in (await read_thread(store, ThreadKey(CHAT)) or {})
    every = {document["thread_id"]: document async for _, document in all_documents(store)}
    assert every == {
        CHAT: await read_thread(store, ThreadKey(CHAT)),
        child: await stored_reading.read_thread(store, ThreadKey(child)),
    }


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"in": [value]}
    return value


@pytest.mark.parametrize(
    "value",
    [
        "a\0b",
        "\ud83d lone",
        {"k\0ey": ["\0", "\\u0000"]},
        [2**53 + 1, 2**63, 2**64 + 1, -(2**70), 1.5, 1e300, -0.0, 100.0],
        deep(250),
        {"z": 1, "a": 2, "é": None, "": [[], {}, ""]},
        "x" * 2_000_000,
    ],
    ids=["nul", "surrogate", "nul in key", "numbers", "500 levels", "key order", "2 MB"],
)
async def test_any_json_comes_back_as_it_was(store: ThreadStore, record: Any, value: Any) -> None:
    given = record()
    given["turn"]["messages"][0]["parts"][0]["args"] = value
    await write_turns(store, [given])
    turn = (await read_thread(store, ThreadKey(CHAT)) or {})["turns"][0]
    assert repr(turn) == repr(given["turn"])  # the order of keys and the kind of numbers, too


async def test_any_name_is_taken(store: ThreadStore, record: Any) -> None:
    hostile = "n\0ul \ud800 '; DROP TABLE turns; -- " + "long " * 2000
    named = record(hostile, run=hostile, agent_id=hostile, tenant=hostile, model=hostile, dialect=hostile)
    named["thread"] = {"title": hostile, "external_id": hostile}
    await write_turns(store, [named])
    thread_id = thread_uuid(hostile)[0]
    key = ThreadKey(thread_id, hostile)
    assert await find_threads(store, hostile) == await stored_reading.find_threads(store, thread_id, hostile) == (key,)
    assert [found async for found in thread_keys(store)] == [key]
    assert (await read_thread(store, key) or {})["title"] == hostile
    (found,) = (await list_threads(store, wanted=ListQuery(agent=hostile, tenant=hostile))).threads
    assert found.thread_id == thread_id


async def test_a_batch_is_stored_whole_or_not_at_all(
    store: ThreadStore, record: Any, tables: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_turns(store, [record(text="before")])
    before = await tables()
    broken = record(run="r2")
    broken["turn"]["messages"][0]["usage"] = {"input_tokens": 1}
    rows = record_rows(broken)
    rows.usage.append(rows.usage[0])  # a duplicate key, which the database refuses when all else is written
    monkeypatch.setattr(
        "pipeline.stores.turns.record_rows", lambda one, *_: rows if one is broken else record_rows(one)
    )
    with pytest.raises(StoreError) as caught:
        await write_turns(store, [record(revision=1), broken])
    assert not caught.value.transient
    assert await tables() == before


WRITER = """
import asyncio, json, sys
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
async def main():
    batch = json.loads(sys.argv[2])
    async with await ThreadStore.open(sys.argv[1]) as store:
        for number in range(10_000):
            for one in batch:
                one["turn_id"] = f"{one['run_id']}-{number}"
            await write_turns(store, batch)
            print(number, flush=True)
asyncio.run(main())
"""


async def test_a_writer_that_is_killed_leaves_whole_batches(store: ThreadStore, store_url: str, record: Any) -> None:
    batch = json.dumps([record(f"chat{n}", f"r{n}") for n in range(20)])
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, store_url, batch, stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdout is not None
    reported = [int(await writer.stdout.readline()) for _ in range(5)]
    writer.kill()
    reported += [int(line) for line in (await writer.stdout.read()).split()]
    await writer.wait()
    turns = (await count_rows(store)).turns
    assert turns % 20 == 0
    assert turns // 20 - len(reported) in (0, 1)  # the last one may be stored and not reported
    total = (await usage_report(store, UsageQuery())).total
    assert total.requests == turns


async def test_writers_of_the_same_turns_agree(store: ThreadStore, store_url: str, record: Any, tables: Any) -> None:
    """Four writers, the same turns in other revisions and orders, all at once."""
    batches = [
        [record(f"chat{n % 7}", f"r{n}", seconds=n, revision=(n * 5 + writer) % 4, tokens=n) for n in range(60)]
        for writer in range(4)
    ]
    for writer, batch in enumerate(batches):
        batch.sort(key=lambda one: hash((writer, one["run_id"])))
    others = [await ThreadStore.open(store_url) for _ in range(3)]
    try:
        await asyncio.gather(*(write_turns(one, batch) for one, batch in zip([store, *others], batches, strict=True)))
        together = await tables()
        for key in [key async for key in thread_keys(store)]:
            await delete_thread(store, key)
        for batch in batches:
            await write_turns(store, batch)
        assert await tables() == together
        total = (await usage_report(store, UsageQuery())).total
        assert (total.turns, total.requests, total.input_tokens) == (60, 60, sum(range(60)))
    finally:
        for other in others:
            await other.close()


async def test_order_duplicates_and_batches_make_no_difference(store: ThreadStore, record: Any, tables: Any) -> None:
    pool = [
        record(
            chat, run, ordinal, seconds=seconds, revision=revision, status=status, role=role, tenant=tenant, text=text
        )
        for chat, run, ordinal, role, seconds in [
            ("chat", "r1", "user", "user", 1),
            ("chat", "r1", "", "agent", 1),
            ("chat", "r2", "", "agent", 4),
            ("other", "r1", "", "agent", 2),
        ]
        for revision, status, tenant, text in [
            (0, "interrupted", None, "cut"),
            (1, "complete", "t1", "once"),
            (2, "complete", "t2", "twice"),
            (2, "complete", "t2", "at odds"),
        ]
    ]
    pool += [
        record(run=f"facts{n}", turn=None, at=1768903200000 + n, thread={"title": f"title {n}", "metadata": {"n": n}})
        for n in range(3)
    ]

    async def stored(batches: list[list[int]]) -> Any:
        for key in [key async for key in thread_keys(store)]:
            await delete_thread(store, key)
        for batch in batches:
            await write_turns(store, [pool[n] for n in batch])
        return await tables(), [document async for _, document in all_documents(store)]

    everything = range(len(pool))
    expected = await stored([list(everything)])
    loop = asyncio.get_running_loop()

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.data())
    def check(data: st.DataObject) -> None:
        order = data.draw(st.permutations([*everything, *data.draw(st.lists(st.sampled_from(everything)))]))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(order)))))
        batches = [order[start:end] for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True)]
        assert asyncio.run_coroutine_threadsafe(stored(batches), loop).result() == expected

    await asyncio.to_thread(check)


async def test_names_that_only_an_escape_tells_apart_are_two(store: ThreadStore, record: Any) -> None:
    """`x` with a NUL behind it, and the six characters that stand for one in JSON: two agents of one turn."""
    named = [{"agent_id": agent_id, "agent_name": "A"} for agent_id in ("x\0", "x\\u0000")]
    assert await write_turns(store, [record(agents=named)]) == WriteResult(inserted=1)
    document = await read_thread(store, ThreadKey(CHAT)) or {}
    assert {"x\0", "x\\u0000"} <= document["agents"].keys()
    for agent_id in ("x\0", "x\\u0000"):
        assert len((await list_threads(store, wanted=ListQuery(agent=agent_id))).threads) == 1


async def test_sums_end_at_the_largest_number_that_a_column_takes(store: ThreadStore, record: Any, tables: Any) -> None:
    """1,100 responses of the most tokens that a count may be are more than 64 bits hold."""
    most = 2**53 - 1
    one = record()
    (response,) = one["turn"]["messages"]
    response["usage"] = {"input_tokens": most, "total_tokens": most, "cost": 9_000_000}
    one["turn"]["messages"] = [response] * 1100
    exact = record(chat="other", tokens=most)
    assert await write_turns(store, [one, exact]) == WriteResult(inserted=2)
    assert sorted(row["total_tokens"] for row in (await tables())["threads"]) == [most + 1, 2**63 - 1]
    report = await usage_report(store, UsageQuery(group_by=("thread",), order="input_tokens"))
    assert [row.figures.input_tokens for row in report.rows] == [2**63 - 1, most]
    assert [row.figures.requests for row in report.rows] == [1100, 1]
    (turn,) = (await turn_usage(store, ThreadKey(CHAT)))[0].values()
    assert turn.total_tokens == 2**63 - 1


async def test_a_turn_of_several_responses_has_what_each_of_them_used(store: ThreadStore, record: Any) -> None:
    one, single = record("chat", "r1", timings=[{"ttft_ms": 5, "duration_ms": 9}, {"ttft_ms": 7}]), record("chat", "r2")
    (response,) = one["turn"]["messages"]
    second = {**response, "model_name": "other", "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}
    second["meta:purpose"] = "compaction"
    one["turn"]["messages"] = [response, second]
    await write_turns(store, [one, single])
    found, total = await turn_usage(store, ThreadKey(CHAT))
    assert found[single["turn_id"]].steps == ()
    turn = found[one["turn_id"]]
    told = {"cost_usd": 0.001, "cost_kind": "told", "prices": ("stream",)}
    unpriced = {"unpriced": "the model is not in the price list", "purpose": "compaction"}
    assert turn.steps == (
        StepUsage(model="model-1", input_tokens=10, output_tokens=1, total_tokens=11, ttft_ms=5, duration_ms=9, **told),
        StepUsage(model="other", input_tokens=3, output_tokens=4, total_tokens=7, ttft_ms=7, **unpriced),
    )
    assert (total.input_tokens, total.cost_usd, total.thinking_tokens, total.steps) == (23, 0.002, None, ())
    assert (turn.input_tokens, turn.output_tokens, turn.cost_usd, turn.ttft_ms) == (13, 5, 0.001, 5)


async def test_times_that_no_column_takes_are_bounded(store: ThreadStore, record: Any) -> None:
    endless = record(timings=[{"ttft_ms": 2**63, "duration_ms": 2**70}])
    facts = record(run="f", turn=None, at=2**80)
    assert await write_turns(store, [endless, facts]) == WriteResult(inserted=2)
    assert (await usage_report(store, UsageQuery())).total.ttft_ms.p50 == LAST_MS

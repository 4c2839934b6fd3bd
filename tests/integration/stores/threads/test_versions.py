"""Several versions of one run, in any order and any batches: no stored turn loses an event, and nothing is dropped."""

import asyncio
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.assembly.offline import assemble
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from pipeline.kafka.outbox import Outbox
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.database.schema import turns
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.threads.reading import count_rows, read_thread
from pipeline.stores.threads.rows import record_of
from pipeline.stores.threads.summaries import WriteResult
from pipeline.stores.turns import compare_turns, write_turns
from pipeline.turns.event_coverage import ranges_of
from pipeline.worker.sinks.role import turn_writer
from tests.integration.stores.threads.test_unstorable_records import Letters
from tests.support.assembled import START, THREAD_ID
from tests.support.stored_threads import thread_keys
from topics import dead_letter, turn_record
from topics.thread_key import ThreadKey
from turnmill.errors import Reason

Record = Any
LAST = 5
TURNS = [{"type": "user-turn", "submitted_at": f"2026-01-20T10:00:0{n}Z", "parts": []} for n in range(LAST + 1)]
TEXTS = [
    {"type": "start"},
    {"type": "text-start", "id": "t"},
    *({"type": "text-delta", "id": "t", "delta": f"{n} "} for n in range(LAST - 3)),
    {"type": "text-end", "id": "t"},
    {"type": "finish"},
]
EVENTS = {"thread-protocol": TURNS, "vercel-ai": TEXTS}
SETS = [frozenset(range(a, b + 1)) for a in range(LAST + 1) for b in range(a, LAST + 1)]
SETS += [one | other for one in SETS for other in SETS if max(one) < min(other) - 1]


def version(dialect: str, held: frozenset[int], run_id: str = "r") -> list[Record]:
    """The turn records that a worker makes of these events of the run."""
    identity = {"v": 1, "thread_id": THREAD_ID, "run_id": run_id, "agent_id": "a", "dialect": dialect}
    envelopes = [{**identity, "seq": n, "ts": START + n, "events": [EVENTS[dialect][n]]} for n in sorted(held)]
    if dialect == "thread-protocol" and LAST in held:
        envelopes[-1]["end"] = "complete"
    return assemble(DIALECTS[dialect], envelopes)[0]


async def held(store: ThreadStore) -> dict[str, set[int]]:
    """turn_id -> the events that its stored record was made of."""
    async with store.reading() as connection:
        records = [record_of(row.record) for row in await connection.execute(turns.select())]
    return {one["turn_id"]: {seq for a, b in ranges_of(one) for seq in range(a, b + 1)} for one in records}


async def emptied(store: ThreadStore) -> ThreadStore:
    for key in [key async for key in thread_keys(store)]:
        await delete_thread(store, key)
    return store


def run_in(loop: asyncio.AbstractEventLoop, work: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(work, loop).result()


@pytest.mark.parametrize("dialect", EVENTS)
async def test_no_sequence_of_versions_shrinks_what_is_held(store: ThreadStore, dialect: str) -> None:
    loop = asyncio.get_running_loop()

    async def play(versions: Sequence[frozenset[int]], at_once: int) -> None:
        await emptied(store)
        for events in versions:
            before = await held(store)
            records = version(dialect, events)
            batches = [records[start : start + at_once] for start in range(0, len(records), at_once)]
            results = [await write_turns(store, batch) for batch in batches]
            after = await held(store)
            assert all(after[turn_id] >= events for turn_id, events in before.items())
            # What is not held now has become a dead letter, with all of its turns.
            late = [place for result in results for place in result.late]
            held_now = set().union(*after.values())
            assert events <= held_now or len(late) == len(records)
            assert len(late) in (0, len(records))
        await write_turns(store, version(dialect, frozenset(range(LAST + 1))))  # a replay joins them all
        assert set(map(frozenset, (await held(store)).values())) == {frozenset(range(LAST + 1))}

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(st.sampled_from(SETS), min_size=1, max_size=5), st.sampled_from([1, 2, 9]))
    def check(versions: list[frozenset[int]], at_once: int) -> None:
        run_in(loop, play(versions, at_once))

    await asyncio.to_thread(check)


@pytest.mark.parametrize("dialect", EVENTS)
async def test_versions_that_hold_one_another_end_alike_in_any_order(
    store: ThreadStore, tables: Any, dialect: str
) -> None:
    chain = [frozenset(range(2)), frozenset({0, 1, 4, 5}), frozenset(range(LAST + 1))]
    versions = [version(dialect, events) for events in chain]
    await write_turns(store, versions[-1])
    expected = await tables()
    for order in permutations(versions):
        await emptied(store)
        for records in order:
            assert (await write_turns(store, records)).late == ()
        assert await tables() == expected
        await emptied(store)
        await write_turns(store, [record for records in order for record in records])
        assert await tables() == expected


async def test_a_late_tail_leaves_the_stored_head_alone(store: ThreadStore, tables: Any) -> None:
    head, tail, whole = (version("vercel-ai", frozenset(events)) for events in ({0, 1}, {2, 3, 4, 5}, range(6)))
    for first, second in ((head, tail), (tail, head)):
        await emptied(store)
        await write_turns(store, first)
        before = await tables()
        assert await compare_turns(store, second) == WriteResult(late=tuple(range(len(second))))
        assert await write_turns(store, second) == WriteResult(late=tuple(range(len(second))))
        assert await write_turns(store, second) == WriteResult(late=tuple(range(len(second))))
        assert await tables() == before
        assert await write_turns(store, whole) == WriteResult(updated=1)
        assert await write_turns(store, second) == WriteResult(unchanged=1)  # the dead letters, once more
    assert await write_turns(store, [*head, *tail]) == WriteResult(unchanged=2)


async def test_a_late_tail_of_native_turns_is_late_as_a_whole(store: ThreadStore, tables: Any) -> None:
    """A and B are stored; C, D and E must neither replace them nor stand behind them as the third turn."""
    head, tail = version("thread-protocol", frozenset({0, 1})), version("thread-protocol", frozenset({2, 3, 4}))
    assert await write_turns(store, head) == WriteResult(inserted=2)
    before = await tables()
    for batch in ([tail], [[record] for record in tail], [[record] for record in reversed(tail)]):
        results = [await write_turns(store, records) for records in batch]
        assert sum(len(result.late) for result in results) == 3
        assert await tables() == before
    whole = version("thread-protocol", frozenset(range(5)))
    assert await write_turns(store, whole) == WriteResult(inserted=3, updated=2)
    starts = [turn["submitted_at"] for turn in (await read_thread(store, ThreadKey(THREAD_ID)) or {})["turns"]]
    assert starts == [turn["submitted_at"] for turn in TURNS[:5]]


async def test_a_late_head_is_late_as_a_whole(store: ThreadStore) -> None:
    await write_turns(store, version("thread-protocol", frozenset({5})))
    head = version("thread-protocol", frozenset({0, 1, 2}))
    assert await write_turns(store, head) == WriteResult(late=(0, 1, 2))
    assert (await count_rows(store)).turns == 1


async def test_the_end_of_a_stored_run_once_more_changes_nothing(store: ThreadStore, tables: Any) -> None:
    """A spool that sends again, days later, what was stored: cut off so, it would be other turns."""
    await write_turns(store, version("thread-protocol", frozenset(range(6))))
    before = await tables()
    for first in range(1, 6):
        again = version("thread-protocol", frozenset(range(first, 6)))
        assert await write_turns(store, again) == WriteResult(unchanged=len(again))
    assert await tables() == before


async def test_facts_without_a_turn_are_no_exception(store: ThreadStore, record: Any) -> None:
    facts = record(run="f", turn=None, events=2, ranges=[[0, 1]], at=1)
    late = record(run="f", turn=None, events=3, ranges=[[2, 4]], at=2)
    assert await write_turns(store, [facts, late]) == WriteResult(inserted=1, late=(1,))


async def test_a_tail_without_any_head_is_stored(store: ThreadStore) -> None:
    (tail,) = version("vercel-ai", frozenset({2, 3, 4, 5}))
    assert await write_turns(store, [tail]) == WriteResult(inserted=1)
    (turn,) = (await read_thread(store, ThreadKey(THREAD_ID)) or {})["turns"]
    assert (turn["completion_status"], turn["meta:missing"]) == ("interrupted", [[0, 1]])


async def test_other_runs_and_threads_do_not_matter(store: ThreadStore, record: Any) -> None:
    held = {"status": "interrupted", "events": 2}
    batch = [record(run="r", ranges=[[0, 1]], **held), record(run="r2", ranges=[[2, 3]], **held)]
    assert await write_turns(store, [*batch, record("other", "r", ranges=[[2, 3]], **held)]) == WriteResult(inserted=3)


async def test_a_late_version_becomes_a_dead_letter_with_its_bytes(store: ThreadStore) -> None:
    letters = Letters()
    writer = turn_writer(Settings(), Metrics(10), Outbox(letters))
    writer.store.value = store
    head, tail = version("thread-protocol", frozenset({0, 1})), version("thread-protocol", frozenset({2, 3, 4}))
    values = [turn_record.encode(record) for record in [*head, *tail]]
    group: Any = [StoredRecord(value, place, 0, THREAD_ID.encode()) for place, value in enumerate(values)]
    await writer.apply([(3, group)])
    assert letters.found() == {place: (Reason.LATE_EVENT, values[place]) for place in (2, 3, 4)}
    letter = dead_letter.from_record(letters.sent[0].key, letters.sent[0].value, letters.sent[0].headers or [])
    assert (letter.topic, letter.partition, letter.key) == ("turnmill.turns", 3, THREAD_ID.encode())
    assert f"`turnmill replay --thread {THREAD_ID}`" in letter.detail
    assert (await count_rows(store)).turns == 2

"""A sink applies what gathers as one group, until it succeeds; its floor is what it has applied."""

import asyncio
from typing import Any

import pytest

from pipeline.assembly.records import StoredRecord
from pipeline.observability.metrics import Metrics
from pipeline.stores.database.errors import StoreError
from pipeline.worker.host import group_work as group_work_module
from pipeline.worker.host import work
from pipeline.worker.host.group_work import GROUP_RECORDS, Group, GroupWork


class Store:
    """Keeps groups, as (partition, offset) of each record; `failures` are raised first, `hold` is waited for."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.groups: list[list[tuple[int, int]]] = []
        self.hold = asyncio.Event()
        self.hold.set()

    async def apply(self, group: Group) -> None:
        await self.hold.wait()
        if self.failures:
            raise self.failures.pop()
        self.groups.append([(partition, record.offset) for partition, records in group for record in records])

    def offsets(self, partition: int = 0) -> list[int]:
        return [offset for group in self.groups for number, offset in group if number == partition]


def away() -> StoreError:
    return StoreError("the store is away", transient=True)


def batch(start: int, end: int) -> Any:
    """Records with all that a sink reads."""
    return [StoredRecord(b"{}", offset, 0) for offset in range(start, end)]


async def hand_in(sink: GroupWork, partition: int, start: int, end: int) -> None:
    await sink.handle(partition, batch(start, end))


async def settled(sink: GroupWork) -> None:
    assert sink.mine.writing is not None
    await asyncio.wait_for(asyncio.wait([sink.mine.writing]), 60)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def sink(store: Store, monkeypatch: pytest.MonkeyPatch) -> GroupWork:
    monkeypatch.setattr(work, "FIRST_DELAY", 0.001)
    monkeypatch.setattr(group_work_module, "RETRY_DELAY", 0.001)
    sink = GroupWork("store", store.apply, Metrics(10))
    await sink.assign({0: 5, 1: 0, 2: 0})
    return sink


async def test_what_was_applied_is_the_floor(sink: GroupWork, store: Store) -> None:
    store.hold.clear()
    await hand_in(sink, 0, 3, 8)
    assert (sink.floor(0), sink.behind(0), sink.floor(7), sink.behind(7)) == (5, 3, None, 0)
    store.hold.set()
    await settled(sink)
    assert (store.offsets(), sink.floor(0), sink.behind(0)) == ([5, 6, 7], 8, 0)
    await hand_in(sink, 0, 3, 8)
    assert store.offsets() == [5, 6, 7]


async def test_what_gathers_meanwhile_is_one_group(sink: GroupWork, store: Store) -> None:
    store.hold.clear()
    await hand_in(sink, 0, 5, 6)
    await asyncio.sleep(0)
    for partition, start, end in [(1, 0, 2), (2, 0, 1), (1, 2, 3), (0, 6, 7)]:
        await hand_in(sink, partition, start, end)
    store.hold.set()
    await settled(sink)
    assert store.groups == [[(0, 5)], [(1, 0), (1, 1), (2, 0), (1, 2), (0, 6)]]
    assert [sink.floor(partition) for partition in (0, 1, 2)] == [7, 3, 1]


async def test_a_group_is_bound_and_so_is_what_waits(sink: GroupWork, store: Store) -> None:
    store.hold.clear()
    full = asyncio.ensure_future(hand_in(sink, 1, 0, 2 * GROUP_RECORDS + 7))
    for _ in range(1_000):  # of the loop: it would be done after a few
        await asyncio.sleep(0)
    assert not full.done()
    store.hold.set()
    await full
    await settled(sink)
    assert [len(group) for group in store.groups] == [GROUP_RECORDS, GROUP_RECORDS, 7]
    assert store.offsets(1) == list(range(2 * GROUP_RECORDS + 7))


async def test_a_group_is_bound_in_bytes_and_takes_a_larger_record_alone(
    sink: GroupWork, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_work_module, "GROUP_BYTES", 100)
    store.hold.clear()
    await hand_in(sink, 0, 5, 6)
    sizes = (40, 60, 1, 500, 30, 30, 30, 30)
    values: Any = [StoredRecord(bytes(size), offset, 0) for offset, size in enumerate(sizes)]
    handed_in = asyncio.ensure_future(sink.handle(1, values))
    await asyncio.sleep(0.01)
    assert not handed_in.done(), "as much waits as one group takes"
    store.hold.set()
    await handed_in
    await settled(sink)
    assert [[offset for _, offset in group] for group in store.groups] == [[5], [0, 1], [2], [3], [4, 5, 6], [7]]


async def test_a_store_that_is_away_is_tried_again(sink: GroupWork, store: Store) -> None:
    store.failures = [away(), away(), away()]
    await hand_in(sink, 0, 5, 7)
    await settled(sink)
    assert (store.offsets(), sink.floor(0), sink.trouble) == ([5, 6], 7, None)


async def test_whatever_else_fails_is_tried_again_too(sink: GroupWork, store: Store) -> None:
    store.failures = [RuntimeError("a fault of ours"), away()]
    await hand_in(sink, 0, 5, 7)
    await settled(sink)
    assert (store.offsets(), sink.floor(0)) == ([5, 6], 7)


@pytest.mark.parametrize("failure", [away(), RuntimeError("a fault of ours")])
async def test_a_group_that_fails_is_given_up_when_its_partitions_go(
    sink: GroupWork, store: Store, failure: Exception
) -> None:
    store.failures = [failure] * 10_000
    await hand_in(sink, 0, 5, 7)
    await asyncio.sleep(0.02)
    assert sink.floor(0) == 5
    assert sink.trouble == ("the store is away" if isinstance(failure, StoreError) else None)
    await sink.interrupt()
    await hand_in(sink, 0, 7, 9)
    assert (store.offsets(), sink.floor(0)) == ([], 5)
    sink.drop()
    assert (sink.floor(0), sink.trouble) == (None, None)


async def test_quiescence_waits_for_the_group_under_way_and_gives_up_the_rest(sink: GroupWork, store: Store) -> None:
    store.hold.clear()
    await hand_in(sink, 0, 5, 7)
    await asyncio.sleep(0)
    full = asyncio.ensure_future(hand_in(sink, 1, 0, 3 * GROUP_RECORDS))
    quiet = asyncio.ensure_future(sink.interrupt())
    await asyncio.sleep(0.01)
    assert (full.done(), quiet.done()) == (True, False)
    store.hold.set()
    await quiet
    assert (store.groups, sink.floor(0), sink.floor(1)) == ([[(0, 5), (0, 6)]], 7, 0)


async def test_a_group_of_an_earlier_assignment_does_not_touch_this_one(sink: GroupWork, store: Store) -> None:
    store.hold.clear()
    await hand_in(sink, 0, 5, 7)
    await asyncio.sleep(0)
    before = sink.mine
    sink.drop()
    await sink.assign({0: 6})
    await hand_in(sink, 0, 6, 8)
    assert (sink.floor(0), sink.behind(0)) == (6, 2)
    store.hold.set()
    await settled(sink)
    assert before.writing is not None
    await before.writing
    assert (sorted(store.groups), sink.floor(0)) == ([[(0, 5), (0, 6)], [(0, 6), (0, 7)]], 8)


async def test_a_sink_that_waits_for_room_lets_go_when_it_is_dropped(sink: GroupWork, store: Store) -> None:
    store.hold.clear()
    full = asyncio.ensure_future(hand_in(sink, 0, 5, 5 + 2 * GROUP_RECORDS))
    await asyncio.sleep(0.01)
    assert not full.done()
    writing = sink.mine.writing
    sink.drop()
    await asyncio.wait_for(full, 60)
    store.hold.set()
    assert writing is not None
    await asyncio.wait_for(writing, 60)
    assert store.offsets() == list(range(5, 5 + GROUP_RECORDS)), "the group under way ends, and what waited is given up"
    assert (sink.floor(0), sink.mine.writing) == (None, None)

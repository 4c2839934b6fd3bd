"""A sink applies each batch until it succeeds; its floor is what it has applied."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.assembly.run import StoredRecord
from pipeline.errors import StoreError
from pipeline.kafka import patience
from pipeline.kafka.sink import Sink
from pipeline.kafka.stage import Records
from pipeline.metrics import Metrics


class Store:
    def __init__(self) -> None:
        self.fail = 0
        self.offsets: list[int] = []
        self.hold: asyncio.Event | None = None

    async def apply(self, partition: int, records: Records) -> None:
        if self.hold is not None:
            await self.hold.wait()
        if self.fail:
            self.fail -= 1
            raise StoreError("the store is away", transient=True)
        self.offsets += [record.offset for record in records]


def batch(start: int, end: int) -> list[StoredRecord]:
    return [StoredRecord(b"{}", offset, 0) for offset in range(start, end)]


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def sink(store: Store, monkeypatch: pytest.MonkeyPatch) -> Sink:
    monkeypatch.setattr(patience, "FIRST_DELAY", 0.001)
    sink = Sink("store", store.apply, Metrics(10))
    await sink.assign({0: 5})
    return sink


async def test_what_was_applied_is_the_floor(sink: Sink, store: Store) -> None:
    await sink.handle(0, batch(3, 8))  # type: ignore[arg-type]
    assert (store.offsets, sink.floor(0), sink.floor(1)) == ([5, 6, 7], 8, None)
    await sink.handle(0, batch(3, 8))  # type: ignore[arg-type]
    assert store.offsets == [5, 6, 7]


async def test_a_store_that_is_away_is_tried_again(sink: Sink, store: Store) -> None:
    store.fail = 3
    await sink.handle(0, batch(5, 7))  # type: ignore[arg-type]
    assert (store.offsets, sink.floor(0), sink.trouble) == ([5, 6], 7, None)


async def test_a_batch_is_given_up_when_the_partition_goes(sink: Sink, store: Store) -> None:
    store.fail = 10**9
    waiting = asyncio.ensure_future(sink.handle(0, batch(5, 7)))  # type: ignore[arg-type]
    await asyncio.sleep(0.02)
    assert sink.trouble == "the store is away"
    assert sink.floor(0) == 5
    sink.interrupt()
    await waiting
    assert (store.offsets, sink.floor(0)) == ([], 5)
    sink.drop()
    assert (sink.floor(0), sink.trouble) == (None, None)


async def test_a_batch_of_an_earlier_assignment_does_not_set_the_floor_back(sink: Sink, store: Store) -> None:
    store.hold = asyncio.Event()
    slow = asyncio.ensure_future(sink.handle(0, batch(5, 7)))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    sink.drop()
    await sink.assign({0: 100})
    store.hold.set()
    await slow
    assert sink.floor(0) == 100


async def test_a_large_batch_is_applied_in_slices_and_stops_between_two(sink: Sink, store: Store) -> None:
    slices: list[int] = []

    async def apply(partition: int, records: Records) -> None:
        slices.append(len(records))
        if len(slices) == 2:
            sink.interrupt()

    sink.apply = apply
    await sink.handle(0, batch(0, 1705))  # type: ignore[arg-type]
    assert (slices, sink.floor(0)) == ([500, 500], 1005)
    await sink.assign({0: 1005})
    await sink.handle(0, batch(0, 1705))  # type: ignore[arg-type]
    assert (slices[2:], sink.floor(0)) == ([500, 200], 1705)

"""Counting a store, which reads it whole: once for all callers, and rarely."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from pipeline.gateway.serving import status
from pipeline.gateway.serving.status import REST, StoreCounts
from pipeline.stores.database.errors import StoreError
from pipeline.stores.threads.summaries import Counts
from tests.support.fake_stores import answer_by_methods


class Store:
    """A store whose count takes as long as the test wants."""

    def __init__(self, moved: Callable[[float], None]) -> None:
        self.asked = 0
        self.open = asyncio.Event()
        self.seconds = 2.0
        self.error: StoreError | None = None
        self._moved = moved

    async def count_rows(self) -> Counts:
        self.asked += 1
        await self.open.wait()
        self._moved(self.seconds)
        if self.error is not None:
            raise self.error
        return Counts(self.asked, 0, 0, 0)


@pytest.fixture
async def made(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Store, StoreCounts, Callable[[float], None]]]:
    now = [1000.0]

    def moved(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(status, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now[0])}))
    monkeypatch.setattr(status, "PATIENCE", 0.01)
    store = Store(moved)
    answer_by_methods(monkeypatch, Store)

    async def opened() -> Any:
        return cast("Any", store)

    counts = StoreCounts(opened)
    yield store, counts, moved
    await counts.close()


async def test_many_callers_share_a_count_and_none_waits_long(made: Any) -> None:
    store, counts, _ = made
    assert await asyncio.gather(*(counts.get() for _ in range(10))) == [None] * 10
    store.open.set()
    assert [one.threads for one in await asyncio.gather(*(counts.get() for _ in range(10)))] == [1] * 10
    assert store.asked == 1


async def test_nothing_is_counted_for_many_times_as_long_as_it_takes(made: Any) -> None:
    store, counts, moved = made
    store.open.set()
    await counts.get()
    moved(REST * store.seconds - 0.1)
    assert (await counts.get()).threads == 1
    moved(0.2)
    store.open.clear()
    assert (await counts.get()).threads == 1, "the old numbers, while new ones are counted"
    store.open.set()
    assert (await counts.get()).threads == 2


async def test_a_failure_is_said_and_tried_again_at_once(made: Any) -> None:
    store, counts, _ = made
    store.open.set()
    store.error = StoreError("no database")
    for _ in range(2):
        with pytest.raises(StoreError, match="no database"):
            await counts.get()
    store.error = None
    assert (await counts.get()).threads == 3


async def test_closing_ends_a_count(made: Any) -> None:
    store, counts, _ = made
    await counts.get()
    await counts.close()
    store.open.set()
    await asyncio.sleep(0)
    assert store.asked == 1
    assert not [one for one in asyncio.all_tasks() if one.get_name() == "store counts"]

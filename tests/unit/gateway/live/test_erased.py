"""Which threads were deleted, as live figures ask for it."""

import asyncio
from typing import Any

import pytest

from pipeline.gateway.live import erased as erased_threads
from pipeline.gateway.live.erased import Erased
from pipeline.stores.database.errors import StoreError
from tests.support.fake_stores import answer_by_methods
from topics.thread_key import ThreadKey

A, B, C = (ThreadKey(name, "acme") for name in "abc")


class Store:
    def __init__(self) -> None:
        self.gone = {B}
        self.asked: list[list[ThreadKey]] = []
        self.away = False

    async def erased_among(self, threads: list[ThreadKey]) -> set[ThreadKey]:
        self.asked.append(list(threads))
        if self.away:
            raise StoreError("away", transient=True)
        return self.gone & set(threads)


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_by_methods(monkeypatch, Store)


async def test_each_thread_is_asked_for_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()

    async def opened() -> Any:
        return store

    erased = Erased(opened)
    assert await erased.among([A, B]) == {B}
    assert await erased.among([A, B, C]) == {B}
    assert store.asked == [[A, B], [C]]
    monkeypatch.setattr(erased_threads, "ERASED_TTL", 0.0)
    store.gone.add(A)
    assert await erased.among([A, B, C]) == {A, B}, "who is deleted stays so, others may be by now"
    assert store.asked[2] == [A, C]
    store.away = True
    assert await erased.among([A, B, C]) == {A, B}


async def test_of_many_readers_one_asks() -> None:
    store, go_on = Store(), asyncio.Event()

    async def opened() -> Any:
        await go_on.wait()
        return store

    erased = Erased(opened)
    readers = [asyncio.create_task(erased.among([B])) for _ in range(100)]
    await asyncio.sleep(0)
    go_on.set()
    assert {B} in await asyncio.gather(*readers)
    assert store.asked == [[B]]


async def test_whose_turn_comes_soon_is_asked_for_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    store, now = Store(), 100.0

    async def opened() -> Any:
        return store

    monkeypatch.setattr(erased_threads.time, "monotonic", lambda: now)
    erased = Erased(opened)
    assert await erased.among([A]) == set()
    now += 2.4
    assert await erased.among([C]) == set()
    now += 2.6
    store.gone.add(C)
    assert await erased.among([A]) == set()
    assert store.asked == [[A], [C], [A, C]]
    assert await erased.among([C]) == {C}, "it was found when another thread was asked for"
    assert len(store.asked) == 3
    now += 30.0
    assert await erased.among([A]) == set()
    assert store.asked[3] == [A], "nobody wants to know of others any more"

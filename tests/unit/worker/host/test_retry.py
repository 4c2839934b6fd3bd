import asyncio

import pytest

from pipeline.stores.database.errors import StoreError
from pipeline.worker.host import work
from pipeline.worker.host.work import Retry


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "FIRST_DELAY", 0.0)


async def test_repeats_until_it_works() -> None:
    failures: list[str | None] = []
    waits = Retry("x", lambda: failures.append(waits.trouble))
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise StoreError(f"away {calls}", transient=True)

    assert await waits.until_done(call)
    assert calls == 3
    assert failures == [None, "away 1"]
    assert waits.trouble is None


async def test_gives_up_when_told_so() -> None:
    waits = Retry("x", lambda: None)
    failed = asyncio.Event()

    async def call() -> None:
        failed.set()
        raise StoreError("away")

    waiting = asyncio.ensure_future(waits.until_done(call))
    await failed.wait()
    waits.given_up.set()
    assert not await waiting
    assert waits.trouble == "away"
    assert not await waits.until_done(call)


async def test_other_errors_are_not_waited_out() -> None:
    async def call() -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await Retry("x", lambda: None).until_done(call)

"""A connection is made once for all who need it at the same time, and tried again a while after a failure."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.database import opened as module
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.opened import Opened
from pipeline.worker.sinks import role as store_role


class Server:
    """Counts what connects to it; `away` for a time."""

    def __init__(self) -> None:
        self.connections = 0
        self.attempts = 0
        self.away = False

    async def open(self, *_: object, **__: object) -> int:
        self.attempts += 1
        await asyncio.sleep(0)
        if self.away:
            raise StoreError("the store is away", transient=True)
        self.connections += 1
        return self.connections


async def test_all_share_one_connection() -> None:
    opened = Opened(Server().open)
    assert await asyncio.gather(*(opened.get() for _ in range(5))) == [1] * 5
    assert await opened.get() == 1


async def test_a_failure_is_the_answer_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    server.away = True
    opened = Opened(server.open)
    failures = await asyncio.gather(*(opened.get() for _ in range(5)), return_exceptions=True)
    assert {str(error) for error in failures} == {"the store is away"}
    assert server.attempts == 1
    server.away = False
    with pytest.raises(StoreError):
        await opened.get()
    monkeypatch.setattr(module, "RETRY_DELAY", 0.0)
    later = Opened(server.open)
    server.away = True
    with pytest.raises(StoreError):
        await later.get()
    server.away = False
    assert await later.get() == 1


async def test_who_is_cancelled_leaves_it_to_the_next() -> None:
    opened = Opened(Server().open)
    first = asyncio.create_task(opened.get())
    await asyncio.sleep(0)
    first.cancel()
    assert await opened.get() == 1


async def test_the_store_role_opens_its_store_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    monkeypatch.setattr(store_role, "ThreadStore", server)
    producer: Any = SimpleNamespace()
    work = store_role.store_work(Settings(), Metrics(), producer)
    await work.tick(0, 0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    assert len(tasks) > 1
    await asyncio.wait(tasks)  # they fail right after, since a number is no store
    assert server.attempts == 1

"""A budget that stops: a run that never ends, and is never stored, is stopped by what it says that it has used."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, Final

import pytest

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import find_threads, read_thread
from tests.support.gateways import running
from tests.support.waiting import until
from tests.support.workers import WorkerProcess
from tests.unit.assembly.test_open_usage import response
from turnmill import ClientSettings, Publisher, RunStopped
from turnmill.ending import ended


async def endless() -> AsyncIterator[dict[str, Any]]:
    yield {"type": "start"}
    while True:
        yield {"type": "data-sys-usage", "data": {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}}
        await asyncio.sleep(0.05)


async def responses() -> AsyncIterator[dict[str, Any]]:
    """One response after the other, of a wire whose usage is told at the end of the run."""
    for number in count():
        for event in response(number):
            yield event
        await asyncio.sleep(0.1)


WIRES: Final = {"vercel-ai": endless, "anthropic": responses}


@pytest.mark.parametrize("dialect", WIRES)
async def test_a_run_that_does_not_end_is_stopped_by_its_budget(applied_settings: Settings, dialect: str) -> None:
    budgets = json.dumps([{"name": "b", "agent": "a", "tokens": 100, "per": "month", "enforce": "stop"}])
    changes = {"gateway_port": 0, "control": True, "checkpoint_interval": 0.2, "budgets": budgets}
    settings = applied_settings.model_copy(update=changes)
    client = ClientSettings(
        brokers=settings.brokers, topic_prefix=settings.topic_prefix, home=settings.home, control=True
    )
    worker = WorkerProcess(settings, roles="assemble,store").start()
    try:
        async with running(settings), Publisher(client) as publisher:

            async def goes_on(agent: str) -> None:
                async with publisher.run(thread_id=agent, agent_id=agent, dialect=dialect) as run:
                    async for _ in run.tee(WIRES[dialect]()):
                        pass

            other = asyncio.create_task(goes_on("other"))
            with pytest.raises(RunStopped) as raised:
                await goes_on("a")
            assert raised.value.by == "budget"
            assert not other.done()
            await ended(other)

        async def stored() -> bool:
            async with await ThreadStore.open(settings.store_url) as store:
                for key in await find_threads(store, "a", None):
                    document = await read_thread(store, key)
                    assert document is not None
                    [turn] = [one for one in document["turns"] if one["turn_type"] == "agent"]
                    assert turn["interruption"]["reason"] == "budget"
                    assert turn["meta:stopped_by"]["by"] == "budget"
                    return True
            return False

        await until(stored)
    finally:
        worker.stop()

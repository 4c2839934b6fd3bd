"""A worker of two processes, with a real broker: killed one by one, and as a whole; nothing is lost."""

import os
import signal
from pathlib import Path

import aiohttp
import pytest

from pipeline.settings import Settings
from tests.support.fleet import expected, fleet, interleaved
from tests.support.topic_records import publish
from tests.support.waiting import PATIENCE, until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import EVENTS

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="children are found in /proc")

RUNS = 60


async def test_kills_of_a_child_and_of_the_parent_lose_nothing(applied_settings: Settings) -> None:
    runs = fleet(11, RUNS)
    records = list(interleaved(runs, 11))
    third = len(records) // 3
    settings = applied_settings.model_copy(update={"session_timeout": 3.0})  # a killed one holds the group up
    worker = WorkerProcess(settings, processes=2)
    after = WorkerProcess(settings, "after")
    try:
        await worker.start().url()
        children = worker.children()
        assert set(children) == {"assemble", "store"}
        await publish(settings, EVENTS, records[:third])
        os.kill(children["store"], signal.SIGKILL)
        assert worker.process is not None
        assert worker.process.wait(PATIENCE) == 137
        await _gone(children["assemble"])

        await publish(settings, EVENTS, records[third : 2 * third])
        worker.log.unlink()
        async with aiohttp.ClientSession() as client, client.get(f"{await worker.start().url()}/metrics") as answer:
            text = await answer.text()
        assert 'turnmill_store_rows_total{process="store"}' in text
        assert 'turnmill_open_turns{process="assemble"}' in text
        children = worker.children()
        worker.kill()
        for pid in children.values():
            await _gone(pid)

        after.start()
        await publish(settings, EVENTS, records[2 * third :])
        assert await wait_until_stored(settings, RUNS, [after]) == expected(runs)
        assert after.stop() == 0
    finally:
        worker.end()
        after.end()


async def _gone(pid: int) -> None:
    async def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    await until(gone, lambda: f"process {pid} still runs")

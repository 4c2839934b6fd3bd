"""Workers are killed, stopped and joined in mid-run: every run is stored once, as if nothing had happened."""

import asyncio

from pipeline.settings import Settings
from tests.support.fleet import expected, fleet, interleaved
from tests.support.topic_records import publish, read_all
from tests.support.workers import WorkerProcess, stored, wait_until_stored
from topics.catalog import DEAD_LETTERS, EVENTS


def quick(settings: Settings) -> Settings:
    """Short timeouts, so that a killed worker's partitions are soon another's, and long runs are spilled."""
    return settings.model_copy(update={"session_timeout": 3.0, "spill_after": 1.0, "checkpoint_interval": 0.3})


async def test_kill_9_while_200_runs_are_published(applied_settings: Settings) -> None:
    settings = quick(applied_settings)
    for round_ in range(5):
        runs = fleet(round_, 200)
        worker = WorkerProcess(settings, f"worker-{round_}").start()
        try:
            await worker.url()
            publishing = asyncio.ensure_future(publish(settings, EVENTS, interleaved(runs, round_), pause=0.1))
            await asyncio.sleep(1.2 + 0.3 * round_)
            worker.kill()
            await publishing
            worker.start()
            found = await wait_until_stored(settings, 200 * (round_ + 1), [worker])
        finally:
            worker.end()
        right = expected(runs)
        assert {turn: found.get(turn) for turn in right} == right
    assert len(await stored(settings)) == 1000
    assert await read_all(settings, DEAD_LETTERS) == []


async def test_three_workers_one_leaves_one_is_killed(applied_settings: Settings) -> None:
    settings = quick(applied_settings)
    runs = fleet(77, 300)
    workers = [WorkerProcess(settings, f"worker-{number}").start() for number in range(3)]
    try:
        publishing = asyncio.ensure_future(publish(settings, EVENTS, interleaved(runs, 77), pause=0.25))
        await asyncio.sleep(4.5)
        await workers[0].url()
        assert workers[0].stop() == 0
        await asyncio.sleep(2)
        workers[1].kill()
        await publishing
        found = await wait_until_stored(settings, 300, workers)
    finally:
        for worker in workers:
            worker.end()
    assert found == expected(runs)
    assert await read_all(settings, DEAD_LETTERS) == []

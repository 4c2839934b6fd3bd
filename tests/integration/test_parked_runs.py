"""Runs that weigh more than a worker may hold: each is stored whole, also by a worker that finds them parked."""

import re

import aiohttp

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from pipeline.stores.content.store import ContentStore
from pipeline.turns.canonical import turn_hash
from tests.integration.test_large_turns import calls, documents, run_with
from tests.support.topic_records import publish, read_all
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import DEAD_LETTERS, EVENTS
from topics.thread_key import ThreadKey
from turnmill.wire.envelope import encode

RUNS = 6


async def parked(worker: WorkerProcess) -> float:
    """How many runs a worker has parked."""
    async with aiohttp.ClientSession() as client, client.get(f"{await worker.url()}/metrics") as page:
        [found] = re.findall(r"^turnmill_runs_parked_total (\S+)$", await page.text(), re.MULTILINE)
        return float(found)


async def test_runs_of_three_times_what_a_worker_may_hold(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"assembly_bytes": 8_000_000, "session_timeout": 6.0})
    runs = [run_with(number, calls(10, 400_000, large="results")) for number in range(RUNS)]
    mixed = [envelope for some in zip(*runs, strict=True) for envelope in some]
    values = [(envelope["thread_id"].encode(), encode(envelope)) for envelope in mixed]
    first, second = WorkerProcess(settings, "first").start(), WorkerProcess(settings, "second")
    try:
        await publish(settings, EVENTS, values[: len(values) * 2 // 3])

        async def some() -> bool:
            return await parked(first) > 0

        assert await until(some, first.text)
        first.kill()
        second.start()
        await publish(settings, EVENTS, values[len(values) * 2 // 3 :])
        await wait_until_stored(settings, RUNS, [second])
        assert second.stop() == 0
    finally:
        first.end()
        second.end()
    contents = ContentStore.of(settings)
    found = {
        thread_id: turn_hash((await contents.inlined(ThreadKey(thread_id), document))["turns"][0])
        for thread_id, document in (await documents(settings)).items()
    }
    assert found == {run[0]["thread_id"]: assemble(DIALECTS["vercel-ai"], run)[0][0]["hash"] for run in runs}
    assert await read_all(settings, DEAD_LETTERS) == []

"""The archive role in real workers: killed in mid-segment, and replayed."""

import asyncio
from pathlib import Path

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import all_documents
from tests.support.archived import archive, turns_of
from tests.support.fleet import expected, fleet, interleaved
from tests.support.topic_records import publish, set_back
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import EVENTS, TURNS

RUNS = 60


def with_archive(settings: Settings, folder: Path) -> Settings:
    """Small segments, and short timeouts, so that a killed worker's partitions are soon another's."""
    quick = {"session_timeout": 3.0, "checkpoint_interval": 0.3}
    return settings.model_copy(
        update={**quick, "archive": folder.as_uri(), "archive_bytes": 20_000, "archive_age": 4.0}
    )


def archived(folder: Path) -> int:
    """Turns of agents, each once."""
    if not any(folder.rglob("*.parquet")):
        return 0
    with archive(folder) as connection:
        (count,) = connection.execute("SELECT count(*) FROM turns WHERE role = 'agent'").fetchone() or (0,)
        return int(count)


async def wait_until_archived(folder: Path, turns: int, worker: WorkerProcess) -> None:
    counted: tuple[set[Path], int] = set(), 0

    async def all_of_them() -> int:
        nonlocal counted
        if (files := set(folder.rglob("*.parquet"))) != counted[0]:
            counted = files, await asyncio.to_thread(archived, folder)
        return counted[1] if counted[1] >= turns else 0

    assert await until(all_of_them, lambda: f"not {turns} turns are archived\n{worker.text()[-3000:]}") == turns


async def equals_the_store(settings: Settings, folder: Path) -> None:
    async with await ThreadStore.open(settings.store_url) as store:
        documents = {document["thread_id"]: document["turns"] async for _, document in all_documents(store)}
    with archive(folder) as connection:
        assert turns_of(connection) == documents


async def test_each_turn_once_through_kill_9_and_replay(applied_settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    settings = with_archive(applied_settings, folder)
    right: dict[str, str] = {}
    worker = WorkerProcess(settings, "worker", roles="assemble,store,archive")
    try:
        for round_ in range(2):
            runs = fleet(round_, RUNS)
            right |= expected(runs)
            worker.start()
            await worker.url()
            publishing = asyncio.ensure_future(publish(settings, EVENTS, interleaved(runs, round_), pause=0.1))
            await asyncio.sleep(2.5 + round_)
            worker.kill()  # segments are open, and some may be written and not committed
            await publishing
        worker.start()
        assert await wait_until_stored(settings, len(right), [worker]) == right
        await wait_until_archived(folder, len(right), worker)
        await equals_the_store(settings, folder)
        assert worker.stop() == 0
        await set_back(settings, "archive", TURNS)
        before = {path.name for path in folder.rglob("*.parquet")}
        for path in folder.rglob("*.parquet"):
            path.unlink()
        worker.start()
        await wait_until_archived(folder, len(right), worker)
        await equals_the_store(settings, folder)
        assert {path.name for path in folder.rglob("*.parquet")} <= before
    finally:
        worker.end()

"""Procedures of the operations handbook that move data: more partitions, and an older backup that is caught up."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.settings import Settings
from tests.support.commands import turnmill
from tests.support.fleet import AgentRun, expected, fleet, interleaved
from tests.support.topic_records import publish, read_all, set_back
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import DEAD_LETTERS, EVENTS, TURNS


async def until_stored(settings: Settings, turns: int) -> Mapping[str, str]:
    """A worker, until so many turns are stored. -> turn_id -> hash."""
    worker = WorkerProcess(settings).start()
    try:
        found = await wait_until_stored(settings, turns, [worker])
        assert worker.stop() == 0
        return found
    finally:
        worker.end()


async def send(settings: Settings, runs: Sequence[AgentRun], seed: int) -> None:
    await publish(settings, EVENTS, interleaved(list(runs), seed))


async def test_partitions_are_added_in_a_pause(applied_settings: Settings) -> None:
    runs = fleet(41, 60)
    await send(applied_settings, runs[:30], 41)
    await until_stored(applied_settings, 30)
    settings = applied_settings.model_copy(update={"partitions": 7})
    assert "open 0" in (await turnmill(settings, "doctor")).stdout
    assert (await turnmill(settings, "topics", "apply", "--grow")).returncode == 0
    again = runs[:30]  # what was stored before is published again: it is on other partitions now
    await send(settings, [*runs[30:], *again], 42)
    assert await until_stored(settings, 60) == expected(runs)
    assert await read_all(settings, DEAD_LETTERS) == []
    doctor = await turnmill(settings, "doctor", "--ledger")
    assert doctor.returncode == 0, doctor.stdout
    assert "runs 60 = stored 60 + dead letters 0 + open 0" in doctor.stdout


async def test_another_prefix_takes_over_without_a_pause(applied_settings: Settings) -> None:
    """Runs are under way on the old topics while others begin on the new ones; both end in the one store."""
    old = applied_settings.model_copy(update={"store": f"sqlite:///{applied_settings.home / 'threads.db'}"})
    new = old.model_copy(update={"topic_prefix": f"{old.topic_prefix}.next", "partitions": 7})
    assert (await turnmill(new, "topics", "apply")).returncode == 0
    runs = fleet(43, 60)
    records = list(interleaved(runs[:30], 43))
    workers = [WorkerProcess(old, "old").start(), WorkerProcess(new, "new").start()]
    try:
        await publish(old, EVENTS, records[: len(records) // 2])
        await send(new, runs[30:], 44)
        await publish(old, EVENTS, records[len(records) // 2 :])
        assert await wait_until_stored(old, 60, workers) == expected(runs)
        assert [worker.stop() for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.end()
    for settings, said in ((old, "runs 30 = stored 30"), (new, "runs 30 = stored 30")):
        assert f"{said} + dead letters 0 + open 0" in (await turnmill(settings, "doctor", "--ledger")).stdout


async def test_an_older_backup_is_caught_up_from_the_turns_topic(applied_settings: Settings) -> None:
    settings, runs = applied_settings, fleet(45, 40)
    await send(settings, runs[:20], 45)
    await until_stored(settings, 20)
    database = Path(settings.store_url.removeprefix("sqlite:///"))
    backup = shutil.copy(database, settings.home / "backup.db")  # the worker has ended: all is in the one file
    await send(settings, runs[20:], 46)
    await until_stored(settings, 40)
    for file in settings.home.glob("threads.db*"):
        file.unlink()
    shutil.copy(backup, database)
    await set_back(settings, "store", TURNS)
    assert await until_stored(settings, 40) == expected(runs)
    assert "runs 40 = stored 40" in (await turnmill(settings, "doctor", "--ledger")).stdout

"""The worker as an operator sees it: exit statuses, health, and what it says when something is missing."""

import signal
import subprocess
import sys

import aiohttp
import pytest

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.support.fleet import expected, fleet, interleaved
from tests.support.topic_records import publish
from tests.support.waiting import PATIENCE, until
from tests.support.workers import WorkerProcess, environment, wait_until_stored
from topics.catalog import DEAD_LETTERS, EVENTS, TURNS


def worker(settings: Settings, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline", "worker", *arguments]
    return subprocess.run(
        command, env=environment(settings, **more), capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.mark.parametrize("processes", ["1", "2"])
def test_missing_topics_are_named_once(settings: Settings, processes: str) -> None:
    done = worker(settings, "--processes", processes)
    assert done.returncode == 3
    assert done.stderr.count(f"{settings.topic_prefix}.events") == 1
    assert "turnmill topics apply" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_that_is_not_there_is_named(settings: Settings) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    done = worker(settings, TURNMILL_BROKERS=address)
    assert done.returncode == 3
    assert address in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_roles_and_settings_are_named(settings: Settings) -> None:
    done = worker(settings, "--roles", "assemble,juggle")
    assert (done.returncode, "juggle" in done.stderr) == (2, True)
    done = worker(settings, TURNMILL_BROKER="x:1")
    assert (done.returncode, "TURNMILL_BROKER is no setting" in done.stderr) == (2, True)
    done = worker(settings, TURNMILL_PARTITIONS="many")
    assert (done.returncode, "TURNMILL_PARTITIONS" in done.stderr) == (2, True)


async def test_health_while_it_runs_and_exit_status_when_told_to_stop(applied_settings: Settings) -> None:
    process = WorkerProcess(applied_settings).start()
    try:
        url = await process.url()
        async with aiohttp.ClientSession() as client:

            async def ready() -> bool:
                async with client.get(f"{url}/readyz") as answer:
                    return answer.status == 200

            await until(ready)
            async with client.get(f"{url}/livez") as live:
                assert live.status == 200
            async with client.get(f"{url}/metrics") as metrics:
                assert "turnmill_open_turns 0.0" in await metrics.text()
        assert process.stop() == 0
    finally:
        process.end()


async def test_a_stop_does_not_wait_for_the_end_of_a_rebalance(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"session_timeout": 30.0})
    told, frozen, third = (WorkerProcess(settings, name) for name in ("told", "frozen", "third"))
    try:
        for process in (told.start(), frozen.start()):
            await process.url()
        await _until_logged(told, "assemble: 2 partitions")
        assert frozen.process is not None
        frozen.process.send_signal(signal.SIGSTOP)  # whoever rebalances now waits for it
        third.start()
        await _until_logged(told, "because it is rebalancing")
        assert told.stop() == 0
    finally:
        for process in (told, frozen, third):
            process.end()


async def _until_logged(process: WorkerProcess, text: str) -> None:
    async def logged() -> bool:
        return text in process.text()

    await until(logged, lambda: f"{text!r} is not in\n{process.text()}")


async def test_publishers_compress_as_they_like(applied_settings: Settings) -> None:
    runs = fleet(9, 5)
    process = WorkerProcess(applied_settings).start()
    try:
        for run, codec in zip(runs, (None, "gzip", "snappy", "lz4", "zstd"), strict=True):
            records = [(run.key, value) for value in run.values()]
            await publish(applied_settings, EVENTS, records, compression_type=codec)
        assert await wait_until_stored(applied_settings, 5, [process]) == expected(runs)
    finally:
        process.end()


async def test_roles_in_processes_of_their_own(applied_settings: Settings) -> None:
    runs = fleet(5, 60)
    processes = [WorkerProcess(applied_settings, role, role).start() for role in ("assemble", "store")]
    try:
        await publish(applied_settings, EVENTS, interleaved(runs, 5))
        await wait_until_stored(applied_settings, 60, processes)
    finally:
        for process in processes:
            process.end()


async def test_a_record_that_is_no_turn_does_not_hold_up_the_store(applied_settings: Settings) -> None:
    runs = fleet(6, 20)
    key = runs[0].key
    process = WorkerProcess(applied_settings).start()
    try:
        rubbish = [(key, b"\xff"), (key, b'{"v":1,"thread_id":"x","run_id":5,"turn":[]}'), (key, b"[]")]
        await publish(applied_settings, TURNS, rubbish)
        await publish(applied_settings, EVENTS, interleaved(runs, 6))
        await wait_until_stored(applied_settings, 20, [process])
    finally:
        process.end()
    from tests.support.topic_records import read_all

    letters = await read_all(applied_settings, DEAD_LETTERS)
    assert sorted(letter.value for letter in letters) == sorted(value for _, value in rubbish)  # type: ignore[attr-defined]

"""A real broker that goes away and comes back, processes that are killed, disks that are full: nothing is lost."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from pipeline.devbroker import local
from pipeline.devbroker.local import Cluster
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.support.places import CACHE, ROOT
from tests.support.topic_records import read_all
from tests.support.workers import environment
from topics.catalog import EVENTS
from turnmill.errors import BrokerError
from turnmill.publish.counts import Report
from turnmill.publish.publisher import Publisher
from turnmill.publish.synchronous import SyncPublisher
from turnmill.wire.envelope import decode

RUN = {"thread_id": "5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01", "agent_id": "weather", "dialect": "vercel-ai"}


def delta(n: int) -> dict[str, Any]:
    return {"type": "text-delta", "id": "t", "delta": f"word {n} "}


async def published(settings: Settings) -> dict[str, tuple[list[Any], str | None]]:
    """run_id -> (its events as assembly takes them: by number, once each; how it ended). Asserts their order."""
    runs: dict[str, tuple[list[Any], str | None]] = {}
    for row in await read_all(settings, EVENTS):
        record = decode(row.value)  # type: ignore[attr-defined]
        events, end = runs.get(record["run_id"], ([], None))
        assert record["seq"] <= len(events), "a hole"
        runs[record["run_id"]] = (events + record["events"][len(events) - record["seq"] :], record.get("end") or end)
    return runs


@contextmanager
def own_broker(tmp_path: Path) -> Iterator[tuple[Settings, Cluster]]:
    settings = Settings(home=tmp_path, cache=CACHE, brokers=f"127.0.0.1:{free_ports(1)[0]}", partitions=3)
    with local.running(settings) as cluster:
        yield settings, cluster


async def confirmed(publisher: Publisher) -> Report:
    await publisher.flush(60)
    return publisher.report()


async def test_a_broker_that_goes_away_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with own_broker(tmp_path) as (settings, cluster):
        await apply_topics(settings)
        async with Publisher(settings) as publisher:
            run, other = publisher.run(**RUN, run_id="through", max_events=1), publisher.run(**RUN, run_id="within")
            for n in range(20):
                await run.send(delta(n))
            assert (await confirmed(publisher)).spooled == 0

            await asyncio.to_thread(cluster.kill, 0)
            for n in range(20, 120):
                await run.send(delta(n))
                await asyncio.sleep(0.03)
            for n in range(100):
                await other.send(delta(n))
            await other.end()
            report = publisher.report()
            assert report.spooled > 50
            assert report.trouble
            tries = [record for record in caplog.records if record.name.startswith("aiokafka")]
            assert len(tries) < 5, "forty a second, left to itself; one a minute of all tests of this process"
            assert report.sent == report.confirmed + report.waiting + report.spooled

            await asyncio.to_thread(cluster.restart, 0)
            for n in range(120, 200):
                await run.send(delta(n))
            await run.end()
            report = await confirmed(publisher)
            assert (report.confirmed, report.spooled, report.dropped, report.trouble) == (report.sent, 0, 0, None)
        assert list(settings.spool_folder.glob("*/*")) == []
        assert await published(settings) == {
            "through": ([delta(n) for n in range(200)], "complete"),
            "within": ([delta(n) for n in range(100)], "complete"),
        }

        # Away at the start, and still at the end: the next one sends it.
        await asyncio.to_thread(cluster.kill, 0)
        monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.5)
        with SyncPublisher(settings) as early, early.run(**RUN, run_id="early") as early_run:
            for n in range(30):
                early_run.send(delta(n))
            with pytest.raises(BrokerError, match="did not confirm"):
                early.flush(0.5)
        left = early.report()
        assert (left.confirmed, left.spooled) == (0, left.sent)
        await asyncio.to_thread(cluster.restart, 0)
        async with Publisher(settings) as later:
            report = await confirmed(later)
            assert (report.adopted, report.confirmed) == (left.sent, left.sent)
        assert (await published(settings))["early"] == ([delta(n) for n in range(30)], "complete")


KILLED = """
import asyncio, os, signal, sys
from turnmill.publish.publisher import Publisher
from pipeline.settings import load

async def main():
    async with Publisher(load()) as publisher:
        run = publisher.run(thread_id="t", agent_id="a", dialect="vercel-ai", run_id=sys.argv[1])
        for n in range(200):
            await run.send({"type": "text-delta", "id": "t", "delta": f"word {n} "})
            await asyncio.sleep(0.005)
        await run.end()
        while publisher.report().waiting:
            await asyncio.sleep(0.05)
        print(publisher.report().spooled, flush=True)
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_what_a_killed_process_has_spooled_is_sent_by_the_next(applied_settings: Settings) -> None:
    away = applied_settings.model_copy(update={"brokers": f"127.0.0.1:{free_ports(1)[0]}"})
    processes = [
        subprocess.Popen(  # noqa: ASYNC220  # they are waited for in a thread
            [sys.executable, "-c", KILLED, name], env=environment(away), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name in ("one", "two")
    ]
    spooled = 0
    for process in processes:  # none dies before all have spooled: else the next would take over what is its
        assert process.stdout is not None
        spooled += int(await asyncio.to_thread(process.stdout.readline))
    for process in processes:
        await asyncio.to_thread(process.communicate)
        assert process.returncode == -9
    async with Publisher(applied_settings) as publisher:
        report = await confirmed(publisher)
        assert (report.adopted, report.confirmed, report.damaged) == (spooled, spooled, 0)
    whole = ([delta(n) for n in range(200)], "complete")
    assert await published(applied_settings) == {"one": whole, "two": whole}


async def test_a_record_that_the_broker_never_takes_holds_nothing_up(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=settings.brokers)
    await client.start()
    topic = EVENTS.full_name(settings.topic_prefix)
    small = {"max.message.bytes": "100000"}
    await client.create_topics([NewTopic(topic, settings.partitions, 1, topic_configs=small)])
    await client.close()
    settings = settings.model_copy(update={"compression": "none"})
    async with Publisher(settings) as publisher:
        run = publisher.run(**RUN, run_id="r", max_events=1)
        for n in range(10):
            await run.send(delta(n))
        await run.send({"type": "data-x", "data": "x" * 200_000})
        for n in range(10):
            await run.send(delta(n))
        await run.end()
        report = await confirmed(publisher)
    assert (report.refused, report.confirmed) == (1, report.sent - 1)
    (file,) = settings.spool_folder.glob("*/refused.jsonl")
    assert "MessageSizeTooLarge" in file.read_text()[:200]
    assert "refuses a record of 200" in caplog.text
    seqs = [decode(row.value)["seq"] for row in await read_all(settings, EVENTS)]  # type: ignore[attr-defined]
    assert list(dict.fromkeys(seqs)) == [*range(10), *range(11, 21), 21]


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A disk of its own where root may mount one; skipped elsewhere (a limit of file size is tested with the spool)."""
    if shutil.which("mount") is None:
        pytest.skip("no disk can be mounted without the system's mount")
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("no disk can be mounted here")
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "-l", folder], check=True)
        yield


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk")
@pytest.mark.parametrize("policy", ["block", "drop"])
async def test_a_full_disk(applied_settings: Settings, tmp_path: Path, policy: str, caplog, monkeypatch) -> None:
    monkeypatch.setattr("turnmill.publish.delivery.UNCONFIRMED_BYTES", 2_000_000)
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.5)
    large = {"type": "data-x", "data": "x" * 100_000}
    with small_disk(tmp_path / "disk", 2):
        away = f"127.0.0.1:{free_ports(1)[0]}"
        more = {"brokers": away, "spool": tmp_path / "disk" / "spool", "spool_policy": policy}
        settings = applied_settings.model_copy(update=more)
        publisher = Publisher(settings)

        async def fill() -> None:
            async with publisher:
                run = publisher.run(**RUN, run_id="r", max_events=1)
                async with asyncio.timeout(4):
                    for _ in range(80):
                        await run.send(large)
                raise InterruptedError

        with pytest.raises(TimeoutError if policy == "block" else InterruptedError):
            await fill()
        report = publisher.report()
        assert "is full: No space left on device" in caplog.text
        assert "has not confirmed" in caplog.text  # and says how many are lost, as it ends
        assert (report.dropped > 20) is (policy == "drop")
        kept = settings.model_copy(update={"brokers": applied_settings.brokers})
        async with Publisher(kept) as later:
            report = await confirmed(later)
        assert report.adopted >= 10
        assert (report.confirmed, report.damaged) == (report.adopted, 0)
        events, _ = (await published(applied_settings))["r"]
        assert events == [large] * report.adopted


@pytest.mark.parametrize(
    ("name", "words"), [("plain_iterator", "It rains in Paris."), ("synchronous_script", "[DONE]")]
)
async def test_the_examples(applied_settings: Settings, name: str, words: str) -> None:
    example = ROOT / "examples" / f"{name}.py"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, example), env=environment(applied_settings), stdout=-1, stderr=-1
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert words in out.decode()
    assert b"spooled=0" in out + errors
    ((events, end),) = (await published(applied_settings)).values()
    assert (len(events) > 5, end) == (True, "complete")

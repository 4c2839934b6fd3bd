"""What a tenant notices of another one that keeps a worker at its bound of memory."""

import asyncio
import shutil
import threading
import uuid
from collections.abc import Iterator
from typing import Final

import click
from aiokafka import AIOKafkaProducer

from tests.chaos.cluster import Brokers, three_brokers
from tests.chaos.large_runs import THREAD, in_turn, records, results
from tests.chaos.load import load_of
from tests.chaos.memory import rss
from tests.chaos.report import circumstances, table, write_results
from tests.chaos.restarts import DEFAULTS, watch
from tests.chaos.scene import Scene
from tests.chaos.stores import Sqlite
from tests.support.fleet import fleet
from tests.support.places import CACHE, ROOT
from topics.catalog import EVENTS
from turnmill.kafka.client import client_options
from turnmill.wire.envelope import loads

FOLDER: Final = ROOT / ".cache" / "chaos" / "neighbours"
SECONDS: Final = 60.0
RUNS: Final = 1500
LARGE: Final = 12  # runs of the other tenant that are open at once
MEGABYTES: Final = 16  # of each
PACE: Final = 10_000_000  # bytes a second that it sends
ROOM: Final = 4_000_000_000
Figures = tuple[float, float, float]  # seconds, the median and 99 of 100; the largest resident bytes


@click.command()
@click.option("--write/--no-write", default=True, show_default=True, help="Write results/neighbours.md.")
def neighbours(*, write: bool) -> None:
    """Measure how long turns take until they are stored, alone and beside runs that weigh more than a worker holds."""
    rows = asyncio.run(_measure())
    text = table(
        ("beside it", "`end` produced → turn stored, median", "99 of 100", "the worker's largest memory"), rows
    )
    click.echo(text)
    if write:
        write_results("neighbours", circumstances("python -m tests.chaos neighbours") + "\n" + text)


async def _measure() -> list[tuple[str, str, str, str]]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    weight = f"{LARGE} runs of {MEGABYTES} MB at once, {PACE / 1e6:.0f} MB a second"
    async with three_brokers(FOLDER / "cluster", CACHE) as brokers:
        found = {
            "nobody": await _measured(brokers),
            weight: await _measured(brokers, LARGE),
            "the same, and room for all of them": await _measured(brokers, LARGE, assembly_bytes=ROOM),
        }
    return [
        (name, f"{median * 1000:,.0f} ms", f"{most * 1000:,.0f} ms", f"{memory / 1e6:,.0f} MB")
        for name, (median, most, memory) in found.items()
    ]


async def _measured(brokers: Brokers, large: int = 0, **settings: int) -> Figures:
    load = load_of(fleet(7, RUNS), 7)
    ends = {
        (envelope["thread_id"], envelope["run_id"]): place
        for place, (_, value) in enumerate(load.records)
        if (envelope := loads(value or b"{}")).get("end")
    }
    options = {**DEFAULTS, **settings}
    async with Scene(f"beside-{large}-{len(settings)}", 1, brokers, Sqlite(), load, FOLDER, CACHE, **options) as scene:
        seen: dict[tuple[str, str], float] = {}
        enough = threading.Event()
        # In a thread of its own: publishing must not keep it from looking.
        watching = asyncio.ensure_future(
            asyncio.to_thread(asyncio.run, watch(scene.settings.store_url, seen, enough, every=0.02))
        )
        scene.pace = SECONDS
        worker = scene.worker().start()
        await scene.ready(worker)
        assert worker.process is not None
        memory = [float(rss(worker.process.pid))]
        others = asyncio.ensure_future(_send(scene, large))
        scene.publish()
        while not ends.keys() <= seen.keys() or not others.done():
            memory.append(rss(worker.process.pid))
            await asyncio.sleep(0.05)
        await others
        enough.set()
        await watching
        assert scene.publishing is not None
        took = sorted(seen[run] - scene.publishing.acked_at[place] for run, place in ends.items())
        return took[len(took) // 2], took[len(took) * 99 // 100], max(memory)


async def _send(scene: Scene, large: int) -> None:
    """The other tenant's records, over and over as long as the first one's go on."""
    topic = EVENTS.full_name(scene.settings.topic_prefix)
    loop = asyncio.get_running_loop()
    began, sent = loop.time(), 0
    options = client_options(scene.settings)
    async with AIOKafkaProducer(**options, acks="all", linger_ms=5, max_request_size=5_000_000) as producer:
        while large and loop.time() - began < SECONDS:
            for key, value in in_turn(*(_run() for _ in range(large))):
                await producer.send(topic, value, key=key)
                sent += len(value)
                await asyncio.sleep(max(0.0, sent / PACE - (loop.time() - began)))
                if loop.time() - began > SECONDS:
                    break


def _run() -> Iterator[tuple[bytes, bytes]]:
    thread_id = str(uuid.uuid4()).encode()
    for value in records("large", results(MEGABYTES)):
        yield thread_id, value.replace(THREAD.encode(), thread_id, 1).replace(b"{", b'{"tenant":"other",', 1)

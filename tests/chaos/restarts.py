"""How long stops and starts take: SIGTERM at full load, a start with a large state, a roll under load."""

import asyncio
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from sqlalchemy import select

from pipeline.kafka.offsets import group_lag
from pipeline.settings import Settings
from pipeline.stores.database.schema import threads, turns
from pipeline.stores.database.store import ThreadStore
from pipeline.worker.host.roles import ROLES
from tests.chaos.bad_data import many_open
from tests.chaos.cluster import Brokers, three_brokers
from tests.chaos.load import load_of, mixed
from tests.chaos.report import circumstances, table, write_results
from tests.chaos.scene import Scene
from tests.chaos.stores import Postgres, PostgresServer, Sqlite
from tests.support.fleet import interleaved
from tests.support.places import CACHE, ROOT
from tests.support.workers import WorkerProcess
from topics import state
from topics.catalog import EVENTS, STATE, TURNS
from topics.state import Clocks, Closed, RunKey, Segment
from turnmill.kafka.client import client_options
from turnmill.wire.envelope import encode, loads

FOLDER: Final = ROOT / ".cache" / "chaos" / "restarts"
STOPS: Final = 20  # as many as find what happens in one of eight
BACKLOG: Final = 90_000  # runs
STARTS: Final = 3
ENTRIES: Final = 100_000
TIMEOUTS: Final = ("session_timeout", "checkpoint_interval", "spill_after", "terminal_grace")
DEFAULTS: Final[Mapping[str, object]] = {"partitions": 12, **{t: Settings.model_fields[t].default for t in TIMEOUTS}}


@click.command()
@click.option("--write/--no-write", default=True, show_default=True, help="Write results/restarts.md.")
def restarts(*, write: bool) -> None:
    """Measure stops and starts. Exit status 1 where one takes longer than it may."""
    rows = asyncio.run(_measure())
    text = table(("what", "may take", "took, at worst", "how often"), [row[:4] for row in rows])
    click.echo(text)
    if write:
        write_results("restarts", circumstances("python -m tests.chaos restarts") + "\n" + text)
    sys.exit(0 if all(row[4] for row in rows) else 1)


async def _measure() -> list[tuple[str, str, str, int, bool]]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    async with three_brokers(FOLDER / "cluster", CACHE) as brokers:
        stops = await stops_at_full_load(brokers)
        starts = await starts_with_large_state(brokers)
        delays = await roll_under_load(brokers)
    return [
        (
            "SIGTERM at full load → last checkpoint → left the group",
            "5 s",
            f"{max(stops):.1f} s",
            len(stops),
            max(stops) <= 5,
        ),
        (
            f"start → ready, with {ENTRIES:,} entries of state",
            "10 s",
            f"{max(starts):.1f} s",
            len(starts),
            max(starts) <= 10,
        ),
        (
            "`end` produced → turn stored, while three workers are rolled",
            "10 s",
            f"{max(delays):.1f} s (median {sorted(delays)[len(delays) // 2]:.2f} s)",
            len(delays),
            max(delays) <= 10,
        ),
    ]


async def stops_at_full_load(brokers: Brokers) -> list[float]:
    """Seconds from SIGTERM to the end of a worker that has all roles and a backlog, its groups left."""
    runs = many_open(1, BACKLOG)
    load = replace(runs, records=list(interleaved(runs.runs, 1, open_at_once=300)))
    took = []
    async with Scene("stops", 1, brokers, Sqlite(), load, FOLDER, CACHE, **DEFAULTS) as scene:
        scene.publish(times=0)
        await scene.all_published()
        worker = scene.worker().start()
        for _ in range(STOPS):
            await scene.ready(worker)
            await asyncio.sleep(2)  # in the middle of the backlog
            began = time.monotonic()
            assert await asyncio.to_thread(worker.stop) == 0, worker.text()[-2000:]
            took.append(time.monotonic() - began)
            waiting = 0
            for role, topic in (("assemble", EVENTS), ("store", TURNS)):
                assert not await _members(scene, role), f"{role} has members still"
                waiting += sum(
                    row.lag for row in await group_lag(scene.settings, ROLES[role].group(scene.settings), [topic])
                )
            click.echo(f"stopped in {took[-1]:.2f} s, {waiting} records were left")
            assert waiting, "it had nothing left to do"
            worker.log.unlink()
            worker.start()
        outcome = await scene.outcome(240)
        assert not outcome.problems, outcome.problems
    return took


async def _members(scene: Scene, role: str) -> int:
    client = AIOKafkaAdminClient(**client_options(scene.settings))
    await client.start()
    try:
        found = await client.describe_consumer_groups([ROLES[role].group(scene.settings)])
        return sum(len(group[5]) for response in found for group in response.groups)
    finally:
        await client.close()


async def starts_with_large_state(brokers: Brokers) -> list[float]:
    """Seconds from the start of a process until it is ready."""
    load = load_of(mixed(1, 50), 1)
    took = []
    async with Scene("starts", 1, brokers, Sqlite(), load, FOLDER, CACHE, **DEFAULTS) as scene:
        await _fill_state(scene)
        for number in range(STARTS):
            worker = scene.worker()
            began = time.monotonic()
            worker.start()
            await scene.ready(worker)
            took.append(time.monotonic() - began)
            click.echo(f"ready after {took[-1]:.2f} s, with {_processor_seconds(worker):.2f} s of processor time")
            if number < STARTS - 1:
                worker.stop()
        scene.publish(times=0.1)
        outcome = await scene.outcome(60)
        assert not outcome.problems, outcome.problems
    return took


def _processor_seconds(worker: WorkerProcess) -> float:
    """What it has used: the figure that other work on the machine does not move."""
    assert worker.process is not None
    fields = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _fill_state(scene: Scene) -> None:
    """Nine of ten entries are closed runs; the others are open ones with 2 KB each."""
    producer = AIOKafkaProducer(**client_options(scene.settings), acks="all", linger_ms=20)
    await producer.start()
    now = int(time.time() * 1000)
    try:
        for number in range(ENTRIES):
            run = RunKey(None, str(uuid.uuid4()), f"before-{number}")
            if number % 10:
                closed = Closed(0, 40, complete=True, at=now)
                key, value = state.closed_key(run, closed), state.encode(run, closed)
            else:
                segment = Segment(0, 0, now, Clocks(now), [_beginning(run.thread_id, run.run_id)])
                key, value = state.segment_key(run, segment), state.encode(run, segment)
            topic = STATE.full_name(scene.settings.topic_prefix)
            await producer.send(topic, value, key=key.encode(), partition=number % scene.settings.partitions)
    finally:
        await producer.stop()


def _beginning(thread_id: str, run_id: str) -> bytes:
    events = [{"type": "start"}, {"type": "start-step"}, {"type": "text-start", "id": "t"}]
    events.append({"type": "text-delta", "id": "t", "delta": "word " * 400})
    base = {"v": 1, "thread_id": thread_id, "run_id": run_id, "agent_id": "a", "dialect": "vercel-ai"}
    return encode({**base, "seq": 0, "ts": int(time.time() * 1000), "events": events})


async def roll_under_load(brokers: Brokers) -> list[float]:
    """Seconds from when the broker had a run's last record until its turns were stored, for every run."""
    load = load_of(mixed(1, 1500), 1)
    last_of = {}
    for place, (_, value) in enumerate(load.records):
        envelope = loads(value or b"{}")
        if envelope.get("end"):
            last_of[envelope["thread_id"], envelope["run_id"]] = place
    store = Postgres(await PostgresServer().start(), own=True)
    async with Scene("rolled", 1, brokers, store, load, FOLDER, CACHE, **DEFAULTS) as scene:
        seen: dict[tuple[str, str], float] = {}
        enough = threading.Event()
        # In a thread of its own: publishing must not keep it from looking.
        watching = asyncio.ensure_future(asyncio.to_thread(asyncio.run, watch(scene.settings.store_url, seen, enough)))
        scene.pace = 45.0
        await _rolled(scene)
        scene.mended()
        outcome = await scene.outcome(60)
        enough.set()
        await watching
        assert not outcome.problems, outcome.problems
        assert scene.publishing is not None
        acked = scene.publishing.acked_at
        return [max(0.0, seen[run] - acked[place]) for run, place in last_of.items()]


async def _rolled(scene: Scene) -> None:
    """As a Deployment does it: the next one is stopped when the one before is ready again."""
    await scene.start()
    scene.publish()
    await scene.published(0.1)
    for worker in scene.crew:
        assert await asyncio.to_thread(worker.stop) == 0, worker.text()[-2000:]
        worker.log.unlink()
        await scene.ready(worker.start())


async def watch(
    store_url: str, seen: dict[tuple[str, str], float], enough: threading.Event, every: float = 0.2
) -> None:
    """When each run was first seen in the store; `every`: seconds between two looks."""
    async with ThreadStore(store_url) as store:
        while not enough.is_set():
            async with store.reading() as connection:
                rows = (await connection.execute(select(threads.c.thread_id, turns.c.run_id).join(threads))).all()
            now = time.monotonic()
            for thread_id, run_id in rows:
                seen.setdefault((thread_id, run_id), now)
            await asyncio.sleep(every)

"""Half of the peak for half an hour, with a kill -9 every two minutes: does anything get lost, grow, or fall behind?"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import orjson
from aiokafka import AIOKafkaProducer
from sqlalchemy import func, select

from pipeline.app import consumer_group
from pipeline.balance import take_stock
from pipeline.kafka.admin import group_lag
from pipeline.kafka.client import client_options
from pipeline.stores.schema import turns
from pipeline.stores.sql import ThreadStore
from tests.chaos.cluster import three_brokers
from tests.chaos.load import Answer, Load
from tests.chaos.memory import rss, slope
from tests.chaos.report import circumstances, table, write_part
from tests.chaos.scene import Scene
from tests.chaos.stores import Sqlite
from tests.fleet import START, AgentRun
from tests.workers import WorkerProcess
from topics.catalog import EVENTS, TURNS

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".cache" / "chaos" / "soak"
CACHE: Final = ROOT / ".cache" / "threadmill"
SCRIPTS: Final = 64  # different answers, which all runs take turns with
PER_RECORD: Final = 8
AT_ONCE: Final = 300
EVENTS_A_RUN: Final = 151
PEAK_RUNS: Final = 6000
KILL_EVERY: Final = 120.0
LOOK_EVERY: Final = 5.0
WARM_UP: Final = 300.0  # until the memory of closed runs is as full as it gets
YOUNG: Final = 60.0  # of a worker's life that does not count
REMEMBERED: Final = 120.0  # dedupe_window: what is remembered for a day by default must be full soon


@dataclass(frozen=True, slots=True)
class Script:
    """One answer: its records without their ids, and the hash of its turn."""

    tails: list[bytes]
    hash: str | None


def script(number: int) -> Script:
    """An answer of 144 words."""
    events: list[dict[str, Any]] = [{"type": "start"}, {"type": "start-step"}, {"type": "text-start", "id": "t"}]
    events += [
        {"type": "text-delta", "id": "t", "delta": f" word{(number * 977 + n * 7919) % 9999}"} for n in range(144)
    ]
    events += [
        {"type": "text-end", "id": "t"},
        {"type": "data-sys-usage", "data": {"input_tokens": 12, "output_tokens": 144}},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]
    envelopes = []
    for seq in range(0, EVENTS_A_RUN, PER_RECORD):
        some = events[seq : seq + PER_RECORD]
        envelope: dict[str, Any] = {"agent_id": "soak", "seq": seq, "ts": START + 20 * seq, "dialect": "vercel-ai"}
        envelope |= {"events": some, "dt": [20 * n for n in range(len(some))]}
        envelopes.append(envelope)
    envelopes[-1]["end"] = "complete"
    identity = {"v": 1, "thread_id": str(uuid.UUID(int=number, version=4)), "run_id": "r"}
    answer = Answer()
    answer.add(AgentRun(identity["thread_id"], "r", [identity | envelope for envelope in envelopes]))  # type: ignore[arg-type]
    (right,) = answer.turns.values()
    return Script([b"," + orjson.dumps(envelope)[1:] for envelope in envelopes], right.hash)


class Source:
    """Publishes runs without end, AT_ONCE of them open, at a steady rate."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.scripts = [script(number) for number in range(SCRIPTS)]
        self.begun = 0
        self.events = 0
        self.ended = False  # begin no more runs
        self.open: deque[tuple[int, bytes, bytes, int]] = deque()  # number, key, head, next record

    async def run(self, rate: float, *, runs: int | None = None) -> None:
        """`rate`: events a second, 0 for all that go; until `runs` were begun, or `ended`. Raises what fails."""
        producer = AIOKafkaProducer(
            **client_options(self.scene.settings), acks="all", max_batch_size=65_536, compression_type="zstd"
        )
        await producer.start()
        waiting: deque[Any] = deque()
        until = None if runs is None else self.begun + runs
        began, events = time.monotonic(), self.events
        try:
            while self._more(until):
                for batch, partition in self._batches(producer, until):
                    topic = EVENTS.full_name(self.scene.settings.topic_prefix)
                    waiting.append(await producer.send_batch(batch, topic, partition=partition))
                while len(waiting) > 48:
                    await waiting.popleft()
                ahead = (self.events - events) / rate - (time.monotonic() - began) if rate else 0.0
                await asyncio.sleep(max(0.0, ahead))
            for confirmed in waiting:
                await confirmed
        finally:
            await producer.stop()

    def _more(self, until: int | None) -> bool:
        """Open runs that may be begun. -> whether there is anything to send."""
        while len(self.open) < AT_ONCE and not self.ended and (until is None or self.begun < until):
            thread_id = str(uuid.uuid4())
            head = f'{{"v":1,"thread_id":"{thread_id}","run_id":"{self.begun}"'.encode()
            self.open.append((self.begun, thread_id.encode(), head, 0))
            self.begun += 1
        return bool(self.open)

    def _batches(self, producer: AIOKafkaProducer, until: int | None) -> list[tuple[Any, int]]:
        """The next record of each open run, in a batch for each partition."""
        batches: dict[int, Any] = {}
        for _ in range(len(self.open)):
            number, key, head, record = self.open.popleft()
            tails = self.scripts[number % SCRIPTS].tails
            partition = number % self.scene.settings.partitions
            batch = batches.get(partition) or batches.setdefault(partition, producer.create_batch())
            if batch.append(key=key, value=head + tails[record], timestamp=None) is None:
                self.open.append((number, key, head, record))  # with the next batch
                continue
            self.events += PER_RECORD if record < len(tails) - 1 else EVENTS_A_RUN % PER_RECORD
            if record < len(tails) - 1:
                self.open.append((number, key, head, record + 1))
        return [(batch, partition) for partition, batch in batches.items()]


@dataclass(slots=True)
class Watched:
    """What was seen of one life of a worker: (seconds since it began to be watched, bytes)."""

    worker: WorkerProcess
    pid: int
    began: float = field(default_factory=time.monotonic)
    memory: list[tuple[float, float]] = field(default_factory=list)

    def grown(self, after: float) -> float | None:
        """Percent an hour, of what came `after` so many seconds."""
        samples = [(x, y) for x, y in self.memory if x >= after]
        return slope(samples) if len(samples) >= 12 else None


class Watch:
    """Looks at memory and lag every few seconds."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.lives: list[Watched] = []
        self.lags: list[tuple[float, int, int]] = []  # seconds, of assemble, of store

    def born(self, worker: WorkerProcess) -> None:
        assert worker.process is not None
        self.lives.append(Watched(worker, worker.process.pid))

    async def look(self) -> None:
        began = time.monotonic()
        while True:
            now = time.monotonic()
            for life in self.lives:
                if life.worker.process is not None and life.worker.process.pid == life.pid:
                    try:
                        life.memory.append((now - life.began, rss(life.pid)))
                    except (OSError, ProcessLookupError):
                        continue
            lags = [
                sum(row.lag for row in await group_lag(self.scene.settings, self._group(role), [topic]))
                for role, topic in (("assemble", EVENTS), ("store", TURNS))
            ]
            self.lags.append((now - began, lags[0], lags[1]))
            await asyncio.sleep(LOOK_EVERY)

    def _group(self, role: str) -> str:
        return consumer_group(self.scene.settings, role)


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="How long, after the peak was measured.")
@click.option("--write/--no-write", default=True, show_default=True, help="Write docs/reliability.md.")
def soak(minutes: float, *, write: bool) -> None:
    """Half of the peak, with a kill every two minutes. Exit status 1 where something was lost or grows."""
    rows, good = asyncio.run(_soak(minutes * 60))
    text = table(("what", "is"), rows)
    click.echo(text)
    if write:
        write_part("soak", circumstances(f"python -m tests.chaos soak --minutes {minutes:g}") + "\n" + text)
    sys.exit(0 if good else 1)


async def _soak(seconds: float) -> tuple[list[tuple[str, str]], bool]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    nothing = Load([], [], Answer(), 0)
    settings: dict[str, Any] = {
        "partitions": 12,
        "spill_after": 30.0,
        "dedupe_window": REMEMBERED,
        "checkpoint_interval": 1.0,
    }
    async with (
        three_brokers(FOLDER / "cluster", CACHE) as brokers,
        Scene("soak", 1, brokers, Sqlite(), nothing, FOLDER, CACHE, **settings) as scene,
    ):
        return await _measured(scene, seconds)


async def _measured(scene: Scene, seconds: float) -> tuple[list[tuple[str, str]], bool]:
    await scene.start(3)
    source = Source(scene)
    began = time.monotonic()
    await source.run(0, runs=PEAK_RUNS)
    await _until_stored(scene, source.begun, 600)
    peak = source.events / (time.monotonic() - began)
    click.echo(f"peak: {peak:,.0f} events/s; half of it for {seconds / 60:g} min")
    watch = Watch(scene)
    for worker in scene.crew:
        watch.born(worker)
    looking = asyncio.ensure_future(watch.look())
    publishing = asyncio.ensure_future(source.run(peak / 2))
    before, began, kills = source.events, time.monotonic(), 0
    while (left := began + seconds - time.monotonic()) > 0:
        await asyncio.wait([publishing, looking], timeout=min(left, KILL_EVERY), return_when=asyncio.FIRST_COMPLETED)
        if publishing.done() or looking.done():
            break
        if left > KILL_EVERY:
            victim = scene.crew[1 + kills % 2]
            victim.kill()
            kills += 1
            await asyncio.sleep(1)
            watch.born(victim.start())
            lag, memory = watch.lags[-1][1:] if watch.lags else None, _memory(watch.lives[0])
            click.echo(f"{time.monotonic() - began:.0f} s: kill {kills}, lag {lag}, the one that lives on {memory}")
    rate = (source.events - before) / (time.monotonic() - began)
    source.ended = True
    await publishing
    looking.cancel()
    drained = time.monotonic()
    await _until_stored(scene, source.begun, 600)
    drained = time.monotonic() - drained
    return await _results(scene, source, watch, (peak, rate, kills, seconds, drained))


async def _until_stored(scene: Scene, runs: int, within: float) -> None:
    deadline = time.monotonic() + within
    async with ThreadStore(scene.settings.store_url) as store:
        while time.monotonic() < deadline:
            async with store._reading() as connection:
                if (await connection.execute(select(func.count()).select_from(turns))).scalar_one() >= runs:
                    return
            await asyncio.sleep(0.2)
    raise AssertionError(f"not all of {runs} runs were stored within {within:.0f} s\n{scene.logs()}")


async def _results(
    scene: Scene, source: Source, watch: Watch, figures: tuple[float, float, int, float, float]
) -> tuple[list[tuple[str, str]], bool]:
    peak, rate, kills, seconds, drained = figures
    right = {str(n): source.scripts[n % SCRIPTS].hash for n in range(source.begun)}
    wrong = 0
    async with ThreadStore(scene.settings.store_url) as store:
        async with store._reading() as connection:
            for run_id, found, status in await connection.execute(select(turns.c.run_id, turns.c.hash, turns.c.status)):
                wrong += right.pop(run_id, None) != found or status != "complete"
        balance = await take_stock(scene.settings, store)
    steady = watch.lives[0].grown(min(WARM_UP, seconds / 3))
    lives = [g for life in watch.lives[3:] if (g := life.grown(YOUNG)) is not None]
    half = len(watch.lags) // 2
    early, late = (_mean([a + b for _, a, b in some]) for some in (watch.lags[1:half], watch.lags[half:]))
    balanced = balance.runs == source.begun == balance.stored and not balance.open and not wrong and not right
    flat = steady is not None and abs(steady) <= 2
    keeps_up = late <= max(2 * early, rate)
    rows = [
        (
            "peak of this arrangement (publisher, three brokers, three workers, SQLite, on one machine)",
            f"{peak:,.0f} events/s",
        ),
        ("rate of the soak", f"{rate:,.0f} events/s ({rate / peak:.0%}), for {seconds / 60:g} min"),
        ("kill -9", f"{kills}, of two of the three workers in turn"),
        ("runs published", f"{source.begun:,} ({source.events:,} events)"),
        ("stored / dead letters / open", f"{balance.stored:,} / {balance.dead:,} / {balance.open:,}"),
        ("turns missing, twice, or of another hash", f"{len(right):,}, {wrong:,}"),
        ("memory of the worker that lives on", f"{_memory(watch.lives[0])}; slope {_percent(steady)}"),
        (
            "memory of the others, slope of each life",
            f"{len(lives)} lives, {', '.join(_percent(g) for g in lives) or '–'}",
        ),
        ("lag, records, first half / second half", f"{early:,.0f} / {late:,.0f} on average"),
        ("after the last record: all stored within", f"{drained:.1f} s"),
    ]
    return rows, balanced and flat and keeps_up


def _memory(life: Watched) -> str:
    sizes = [y / 2**20 for _, y in life.memory] or [0.0]
    return f"{sizes[0]:.0f} MB → {sizes[-1]:.0f} MB, {max(sizes):.0f} MB at most"


def _percent(growth: float | None) -> str:
    return "–" if growth is None else f"{growth:+.1f} %/h"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0

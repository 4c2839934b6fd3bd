"""Half of the peak for half an hour, with a kill -9 every two minutes: does anything get lost, grow, or fall behind?"""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click
from sqlalchemy import func, select

from pipeline.kafka.offsets import group_lag
from pipeline.kafka.reading import records_of
from pipeline.stores.database.schema import turns
from pipeline.stores.database.store import ThreadStore
from pipeline.worker.host.roles import ROLES
from pipeline.worker.repair.ledger import take_stock
from tests.chaos.cluster import three_brokers
from tests.chaos.load import Answer, Load
from tests.chaos.memory import rss, slope
from tests.chaos.report import circumstances, table, write_results
from tests.chaos.scene import Scene
from tests.chaos.source import SCRIPTS, Source
from tests.chaos.stores import Sqlite
from tests.support.places import CACHE, ROOT
from tests.support.stored import stored_turns
from tests.support.workers import WorkerProcess
from topics.catalog import EVENTS, STATE, TURNS

FOLDER: Final = ROOT / ".cache" / "chaos" / "soak"
PEAK_RUNS: Final = 6000
KILL_EVERY: Final = 120.0
WARM_UP_KILL_EVERY: Final = 20.0  # each lets the others catch up: their peaks come before memory is measured
LOOK_EVERY: Final = 5.0
YOUNG: Final = 60.0  # of a worker's life that does not count
AT_REST: Final = 30.0  # seconds behind all work: what memory is left then was not in flight
REMEMBERED: Final = 120.0  # dedupe_window: what is remembered for a day by default must be full soon


@dataclass(slots=True)
class Watched:
    """What was seen of one life of a worker: (seconds since it began to be watched, bytes)."""

    worker: WorkerProcess
    pid: int
    began: float = field(default_factory=time.monotonic)
    memory: list[tuple[float, float]] = field(default_factory=list)

    def grown(self, after: float = 0.0) -> float | None:
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
        return ROLES[role].group(self.scene.settings)


@click.command()
@click.option("--minutes", default=30.0, show_default=True, help="How long, after the warm-up.")
@click.option("--warm-up", default=10.0, show_default=True, help="Minutes, with a kill every 20 seconds.")
@click.option("--write/--no-write", default=True, show_default=True, help="Write results/soak.md.")
def soak(minutes: float, warm_up: float, *, write: bool) -> None:
    """Half of the peak, with a kill every two minutes. Exit status 1 where something was lost or grows."""
    rows, good = asyncio.run(_soak(minutes * 60, warm_up * 60))
    text = table(("what", "is"), rows)
    click.echo(text)
    if write:
        allocator = f"PYTHONMALLOC={os.environ['PYTHONMALLOC']} " if "PYTHONMALLOC" in os.environ else ""
        command = f"{allocator}python -m tests.chaos soak --minutes {minutes:g} --warm-up {warm_up:g}"
        write_results("soak", circumstances(command) + "\n" + text)
    sys.exit(0 if good else 1)


async def _soak(seconds: float, warm_up: float) -> tuple[list[tuple[str, str]], bool]:
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
        return await _measured(scene, seconds, warm_up)


async def _measured(scene: Scene, seconds: float, warm_up: float) -> tuple[list[tuple[str, str]], bool]:
    await scene.start(3)
    source = Source(scene)
    began = time.monotonic()
    await source.run(0, runs=PEAK_RUNS)
    await _until_stored(scene, source.begun, 600)
    peak = source.events / (time.monotonic() - began)
    click.echo(f"peak: {peak:,.0f} events/s; half of it for {warm_up / 60:g} + {seconds / 60:g} min")
    publishing = asyncio.ensure_future(source.run(peak / 2))
    warming = Watch(scene)
    await _kill(scene, warming, publishing, warm_up, WARM_UP_KILL_EVERY)
    watch = Watch(scene)
    before, began = source.events, time.monotonic()
    kills = await _kill(scene, watch, publishing, seconds, KILL_EVERY)
    rate = (source.events - before) / (time.monotonic() - began)
    source.ended = True
    await publishing
    drained = time.monotonic()
    await _until_stored(scene, source.begun, 600)
    drained = time.monotonic() - drained
    await asyncio.sleep(AT_REST)
    rest = f"{AT_REST:.0f} s after that the worker that lives on has", f"{rss(watch.lives[0].pid) / 2**20:.0f} MB"
    rows, good = await _results(scene, source, (warming, watch), (peak, rate, kills, seconds, drained))
    return [*rows, rest], good


async def _kill(scene: Scene, watch: Watch, publishing: asyncio.Future[None], seconds: float, every: float) -> int:
    """Two of the three workers in turn, while `watch` looks. -> how often; returns early where something fails."""
    for worker in scene.crew:
        watch.born(worker)
    looking = asyncio.ensure_future(watch.look())
    began, kills = time.monotonic(), 0
    while (left := began + seconds - time.monotonic()) > 0:
        await asyncio.wait([publishing, looking], timeout=min(left, every), return_when=asyncio.FIRST_COMPLETED)
        if publishing.done() or looking.done():
            break
        if left > every:
            victim = scene.crew[1 + kills % 2]
            victim.kill()
            kills += 1
            await asyncio.sleep(1)
            watch.born(victim.start())
            lag, memory = watch.lags[-1][1:] if watch.lags else None, _memory(watch.lives[0])
            click.echo(f"{time.monotonic() - began:.0f} s: kill {kills}, lag {lag}, the one that lives on {memory}")
    if looking.done():
        looking.result()  # raises: nobody has looked for a while
    looking.cancel()
    return kills


async def _until_stored(scene: Scene, runs: int, within: float) -> None:
    deadline = time.monotonic() + within
    async with ThreadStore(scene.settings.store_url) as store:
        while time.monotonic() < deadline:
            async with store.reading() as connection:
                if (await connection.execute(select(func.count()).select_from(turns))).scalar_one() >= runs:
                    return
            await asyncio.sleep(0.2)
    raise AssertionError(f"not all of {runs} runs were stored within {within:.0f} s\n{scene.logs()}")


async def _results(
    scene: Scene, source: Source, watches: tuple[Watch, Watch], figures: tuple[float, float, int, float, float]
) -> tuple[list[tuple[str, str]], bool]:
    peak, rate, kills, seconds, drained = figures
    warming, watch = watches
    right = {str(n): source.scripts[n % SCRIPTS].hash for n in range(source.begun)}
    wrong = 0
    async with ThreadStore(scene.settings.store_url) as store:
        async for _, record, _ in stored_turns(store):
            wrong += right.pop(record["run_id"], None) != record["hash"] or record["status"] != "complete"
        balance = await take_stock(scene.settings, store)
    steady = watch.lives[0].grown()
    lives = [g for life in watch.lives[3:] if (g := life.grown(YOUNG)) is not None]
    quarters = _quarters([events + turns for _, events, turns in watch.lags[1:]])
    of_events = _quarters([events for _, events, _ in watch.lags[1:]])
    entries = sum([1 async for _ in records_of(scene.settings, STATE)])
    balanced = balance.runs == source.begun == balance.stored and not balance.open and not wrong and not right
    flat = steady is not None and abs(steady) <= 2
    keeps_up = quarters[3] <= 1.1 * quarters[1]
    rows = [
        (
            "peak of this arrangement (publisher, three brokers, three workers, SQLite, on one machine)",
            f"{peak:,.0f} events/s",
        ),
        ("rate of the soak", f"{rate:,.0f} events/s ({rate / peak:.0%}), for {seconds / 60:g} min"),
        ("kill -9", f"{kills}, of two of the three workers in turn, and {len(warming.lives) - 3} in the warm-up"),
        ("runs published", f"{source.begun:,} ({source.events:,} events)"),
        ("stored / dead letters / open", f"{balance.stored:,} / {balance.dead:,} / {balance.open:,}"),
        ("turns missing, twice, or of another hash", f"{len(right):,}, {wrong:,}"),
        ("memory of the worker that lives on, in the warm-up", _memory(warming.lives[0])),
        ("memory of the same worker after it", f"{_memory(watch.lives[0])}; slope {_percent(steady)}"),
        (
            "memory of the others, slope of each life",
            f"{len(lives)} lives, {', '.join(_percent(g) for g in lives) or '–'}",
        ),
        ("lag, records, on average in each quarter of the time", _listed(quarters)),
        ("of it on the events topic", _listed(of_events)),
        ("entries of the state topic at the end, which a takeover reads", f"{entries:,}"),
        ("after the last record: all stored within", f"{drained:.1f} s"),
    ]
    return rows, balanced and flat and keeps_up


def _memory(life: Watched) -> str:
    sizes = [y / 2**20 for _, y in life.memory] or [0.0]
    return f"{sizes[0]:.0f} MB → {sizes[-1]:.0f} MB, {max(sizes):.0f} MB at most"


def _percent(growth: float | None) -> str:
    return "–" if growth is None else f"{growth:+.1f} %/h"


def _quarters(values: Sequence[float]) -> list[float]:
    parts = [values[len(values) * n // 4 : len(values) * (n + 1) // 4] for n in range(4)]
    return [sum(part) / len(part) if part else 0.0 for part in parts]


def _listed(values: Sequence[float]) -> str:
    return " / ".join(f"{value:,.0f}" for value in values)

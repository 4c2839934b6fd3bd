"""Run all measurements of a plan, one after the other, on a broker of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from pipeline.worker.processes import memory as process_memory
from tests.bench import (
    asked,
    capture,
    gateway,
    growth,
    history,
    in_process,
    latency,
    memory,
    postgres,
    proxy,
    publishing,
    retention,
    scale,
    searching,
)
from tests.bench.contenders import CONTENDERS, LIMIT, PEERS
from tests.bench.load_topics import Site
from tests.bench.loads import LOADS, Load, Script, fleet, staggered, unfinished
from tests.bench.result import Contender, Measured
from tests.bench.results import Result, Suite
from tests.bench.streams import STREAMS
from turnmill.errors import CallerError

Progress = Callable[[str], None]

ASSEMBLY: Final = "assembly"
LATENCY: Final = "latency"
MEMORY: Final = "memory"
FLEET: Final = "fleet"
PUBLISHING: Final = "publishing"
GATEWAY: Final = "gateway"
PROXY: Final = "proxy"
CAPTURE: Final = "capture"
HISTORY: Final = "history"
SEARCH: Final = "search"
ASKED: Final = "asked"
ALL: Final = (ASSEMBLY, *LOADS, FLEET, LATENCY, MEMORY, PUBLISHING, CAPTURE, GATEWAY, PROXY)
LAKE: Final = "lake"
RETENTION: Final = "retention"
GROWTH: Final = "growth"
SCALE: Final = "scale"
WITHOUT_BROKER: Final = (HISTORY, SEARCH, ASKED, LAKE, RETENTION, GROWTH)
APART: Final = (*WITHOUT_BROKER, SCALE)  # measured where they are asked for: each takes its time
MEASUREMENTS: Final = (*ALL, *APART)
USUAL: Final = (ASSEMBLY, "text-1", "text-8")
USUAL_CONTENDERS: Final = (LIMIT, "turns", "sqlite", "faust")

PACED_RUNS: Final = 1_100  # 33 s at 5,000 events/s
BACKLOGS: Final = (1_000_000, 5_000_000)  # events
OPEN: Final = (1_000, 20_000)  # turns
OPEN_BYTES: Final = 5_000  # of text in each


@dataclass(frozen=True, slots=True)
class Plan:
    """Names of what to measure; `scripts`: the recorded runs of the fleet; `server`: the URL of a Postgres server;
    `turns`: of the stores of `history`, `search` and `retention`, and of the tables of `lake`.
    """

    measurements: Sequence[str]
    contenders: Sequence[str]
    repetitions: int = 1
    scripts: Sequence[Script] = ()
    server: str | None = None
    turns: int = history.TURNS

    @classmethod
    def of(cls, only: Sequence[str], *, everything: bool, peers: bool) -> Plan:
        """`only` names measurements, contenders or both. Raises CallerError for any other name."""
        unknown = [name for name in only if name not in MEASUREMENTS and name not in CONTENDERS]
        if unknown:
            raise CallerError(f"no {', '.join(unknown)} here; there are {', '.join([*MEASUREMENTS, *CONTENDERS])}")
        what = [name for name in MEASUREMENTS if name in only]
        who = [name for name in CONTENDERS if name in only]
        usual = [*USUAL_CONTENDERS, *(PEERS if peers else ())]
        return cls(what or (ALL if everything else USUAL), who or (list(CONTENDERS) if everything else usual))


def run(settings: Settings, plan: Plan, suite: Suite, progress: Progress) -> None:
    """Measure what is planned, part by part into `suite`; one that fails goes into `failed`, and the rest goes on.

    Raises BrokerError, StoreError, and KeyboardInterrupt: what is measured by then is in the suite.
    """
    if ASSEMBLY in plan.measurements:
        with _part(suite.failed, "assembly in process", progress):
            text = [load for load in LOADS.values() if load.text]
            for name, load in product(STREAMS, text):
                suite.assembly.append(in_process.measure(load, name))
    if set(plan.measurements) <= {ASSEMBLY}:
        return
    with tempfile.TemporaryDirectory(prefix="turnmill-bench-") as folder:
        own = _own(settings, Path(folder))
        relational = any(map(_in_postgres, plan.contenders)) or {LATENCY, HISTORY, SEARCH, RETENTION, GROWTH} & {
            *plan.measurements
        }
        started = postgres.server(plan.server, Path(folder)) if relational else nullcontext(plan.server)
        with started as server:
            if HISTORY in plan.measurements:
                with _part(suite.failed, f"a store of {plan.turns:,} turns", progress):
                    suite.histories += asyncio.run(history.both(Path(folder), server, plan.turns, progress))
            if LAKE in plan.measurements:
                with _part(suite.failed, f"tables of {plan.turns:,} turns", progress):
                    from tests.bench import lake  # who has no tables need not have pyiceberg

                    suite.lake += asyncio.run(lake.measure(Path(folder), plan.turns, progress))
            if SEARCH in plan.measurements:
                with _part(suite.failed, f"searches among {plan.turns:,} turns", progress):
                    suite.searches += asyncio.run(searching.both(Path(folder), server, plan.turns, progress))
            if ASKED in plan.measurements:
                with _part(suite.failed, "turns that say what was asked", progress):
                    suite.asked += asyncio.run(asked.measure(Path(folder), progress))
            if GROWTH in plan.measurements:
                turns = min(plan.turns, growth.LARGE)
                with _part(suite.failed, f"stores that grow to {turns:,} turns", progress):
                    process_memory.relax_collector()  # as in the worker whose work is measured
                    suite.growth += asyncio.run(growth.both(Path(folder), server, turns, progress))
            if RETENTION in plan.measurements:
                with _part(suite.failed, f"a backlog of {plan.turns:,} turns that expires", progress):
                    suite.expiries += asyncio.run(retention.both(Path(folder), server, plan.turns, progress))
            if not set(plan.measurements) <= {ASSEMBLY, *WITHOUT_BROKER}:
                with local.running(own, progress=progress):
                    asyncio.run(_end_to_end(own, server, plan, suite, progress))


def _own(settings: Settings, folder: Path) -> Settings:
    """Settings for a broker of its own, without the caller's TLS and logins."""
    broker, port = free_ports(2)
    wire = [name for name in Settings.model_fields if name.startswith(("sasl_", "ssl_", "oauth_"))]
    return settings.model_copy(
        update={
            **{name: Settings.model_fields[name].default for name in [*wire, "security_protocol"]},
            "home": folder,
            "brokers": f"127.0.0.1:{broker}",
            "port": port,
            "log_level": "WARNING",
            "content": f"file://{folder}/content",
        }
    )


def _in_postgres(contender: str) -> bool:
    return contender.startswith("postgres")


async def _end_to_end(settings: Settings, server: str | None, plan: Plan, suite: Suite, progress: Progress) -> None:
    chosen = [contender for contender in CONTENDERS.values() if contender.name in plan.contenders]
    for contender in chosen:
        needs = contender.missing() if not _in_postgres(contender.name) or server is None else None
        if needs is not None:
            suite.left_out[contender.name] = needs
    able = [contender for contender in chosen if contender.name not in suite.left_out]
    loads = {name: load for name, load in LOADS.items() if name in plan.measurements}
    if FLEET in plan.measurements and plan.scripts:
        loads[FLEET] = fleet(plan.scripts)
    elif FLEET in plan.measurements:
        suite.left_out[FLEET] = "a checkout of the project, for the demo's recordings"
    for load in loads.values():
        site = Site(settings.model_copy(update={"topic_prefix": f"bench-{load.name}"}), load, server)
        with _part(suite.failed, f"{load.title}: publishing {load.events:,} events", progress):
            await site.fill()
            suite.results.append(await _result(site, able, plan.repetitions, progress))
    if LATENCY in plan.measurements:
        for store in ("sqlite", "postgres") if server is not None else ("sqlite",):
            with _part(suite.failed, f"latency at {latency.RATE:,} events/s, {store}", progress):
                site = await _fresh(settings, f"latency-{store}", staggered(PACED_RUNS), server)
                suite.latencies.append(await latency.measure(site, store))
    if MEMORY in plan.measurements:
        for events in BACKLOGS:
            with _part(suite.failed, f"memory: a backlog of {events:,} events", progress):
                load = LOADS["text-8"]
                lag = replace(load, runs=round(events / load.events * load.runs))
                site = await _fresh(settings, f"lag-{events}", lag)
                await site.fill()
                suite.backlogs.append(await memory.backlog(site))
        for turns in OPEN:
            with _part(suite.failed, f"memory: {turns:,} open turns", progress):
                site = await _fresh(settings, f"open-{turns}", unfinished(turns, OPEN_BYTES))
                await site.fill()
                suite.open_turns.append(await memory.open_turns(site))
    if PUBLISHING in plan.measurements:
        for streams in publishing.STREAMS:
            with _part(suite.failed, f"publishing: {streams} streams of a chat server", progress):
                site = await _fresh(settings, "publishing", LOADS["text-1"])
                suite.publishing.append(await publishing.measure(site.settings, streams))
    if CAPTURE in plan.measurements:
        for streams in capture.STREAMS:
            with _part(suite.failed, f"capture: a program that reads {streams} streams", progress):
                site = await _fresh(settings, "capture", LOADS["text-1"])
                suite.captured.append(await capture.measure(site.settings, streams))
    if GATEWAY in plan.measurements:
        with _part(suite.failed, f"the gateway: {gateway.RUNS:,} uploads, {gateway.READERS} live readers", progress):
            site = await _fresh(settings, "gateway", LOADS["text-1"])
            suite.gateway = await gateway.measure(site.settings)
    if PROXY in plan.measurements:
        with _part(suite.failed, f"the proxy: {proxy.CALLS} calls, {proxy.STREAMS} streams", progress):
            site = await _fresh(settings, "proxy", LOADS["text-1"])
            suite.proxy = await proxy.measure(site.settings)
    if SCALE in plan.measurements:
        await _scale(settings, suite, progress)


async def _scale(settings: Settings, suite: Suite, progress: Progress) -> None:
    with _part(suite.failed, "scale: a worker of several processes", progress):
        async for one in scale.processes(settings, progress):
            suite.scale.processes.append(one)
    for count in scale.PARTITIONS:
        with _part(suite.failed, f"scale: {count} partitions", progress):
            async for grown in scale.partitions(settings, count, progress):
                suite.scale.grown.append(grown)


@contextmanager
def _part(failed: dict[str, str], name: str, progress: Progress, shown: str | None = None) -> Iterator[None]:
    """Run one part of the suite: any error in it goes into `failed`, and the other parts go on."""
    progress(shown or name)
    try:
        yield
    except Exception as error:
        first: Exception = error
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        failed[name] = str(first) or repr(first)


async def _fresh(settings: Settings, name: str, load: Load, server: str | None = None) -> Site:
    site = Site(settings.model_copy(update={"topic_prefix": f"bench-{name}"}), load, server)
    await apply_topics(site.settings)
    return site


async def _result(site: Site, contenders: Sequence[Contender], repetitions: int, progress: Progress) -> Result:
    """Measure one load. A contender that fails once is left out: ratios are formed within each repetition."""
    load = site.load
    able = {one.name: one for one in contenders if one.any_load or load.text}
    measured: dict[str, list[Measured]] = {name: [] for name in able}
    failed: dict[str, str] = {}
    for number in range(repetitions):
        for name, contender in able.items():
            if name not in failed:
                shown = f"{load.title}: {contender.title}, {number + 1} of {repetitions}"
                with _part(failed, name, progress, shown):
                    measured[name].append(await contender.measure(site))
    return Result(load, {name: found for name, found in measured.items() if name not in failed}, failed)

"""All measurements of one run, on a broker of its own: the same machine, the same data, one after the other."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.bench import in_process
from pipeline.bench.contenders import CONTENDERS
from pipeline.bench.in_process import InProcess
from pipeline.bench.loads import LOADS, Load
from pipeline.bench.site import Site
from pipeline.bench.streams import STREAMS
from pipeline.kafka import local
from pipeline.kafka.ports import free_ports
from pipeline.settings import Settings

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Result:
    """Events/s of each contender with one load: of every repetition, by the contender's name."""

    load: Load
    rates: dict[str, list[float]]

    def rate(self, contender: str) -> float:
        """The median."""
        return statistics.median(self.rates[contender])

    def ratio(self, contender: str, other: str) -> float:
        """The median over repetitions of one's rate by the other's in the same repetition."""
        return statistics.median(a / b for a, b in zip(self.rates[contender], self.rates[other], strict=True))


@dataclass(frozen=True, slots=True)
class Suite:
    """What was measured."""

    assembly: list[InProcess]
    results: list[Result]


def run(settings: Settings, repetitions: int, *, dialects: bool, progress: Progress) -> Suite:
    """Measure everything; takes two minutes with one repetition. `dialects`: assembly in process for each of them."""
    progress("assembly in process")
    names = STREAMS if dialects else ["vercel-ai"]
    assembly = [in_process.measure(replace(load, dialect=name)) for name in names for load in LOADS.values()]
    with tempfile.TemporaryDirectory(prefix="threadmill-bench-") as folder:
        broker, port = free_ports(2)
        own = settings.model_copy(
            update={"home": Path(folder), "brokers": f"127.0.0.1:{broker}", "port": port, "log_level": "WARNING"}
        )
        with local.running(own, progress=progress):
            results = asyncio.run(_end_to_end(own, list(LOADS.values()), repetitions, progress))
    return Suite(assembly, results)


async def _end_to_end(settings: Settings, loads: Sequence[Load], repetitions: int, progress: Progress) -> list[Result]:
    results = []
    for load in loads:
        site = Site(settings.model_copy(update={"topic_prefix": f"bench-{load.name}"}), load)
        progress(f"{load.title}: publishing {load.events:,} events")
        await site.fill()
        rates: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        for number in range(repetitions):
            for name, contender in CONTENDERS.items():
                progress(f"{load.title}: {contender.title}, {number + 1} of {repetitions}")
                rates[name].append((await contender.measure(site)).rate)
        results.append(Result(load, rates))
    return results

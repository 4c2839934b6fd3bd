"""What a suite has measured, and what follows from it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from pipeline.bench.gateway import GatewayLoad
from pipeline.bench.in_process import InProcess
from pipeline.bench.latency import Latency
from pipeline.bench.loads import Load
from pipeline.bench.memory import Backlog, OpenTurns
from pipeline.bench.publishing import Publishing
from pipeline.bench.result import Measured


@dataclass(frozen=True, slots=True)
class Result:
    """What each contender did with one load, by its name, in every repetition; and of those that failed, why."""

    load: Load
    measured: dict[str, list[Measured]]
    failed: dict[str, str] = field(default_factory=dict)

    def rate(self, contender: str) -> float:
        """Events a second, the median."""
        return statistics.median(one.rate for one in self.measured[contender])

    def cost(self, contender: str) -> float | None:
        """CPU µs an event, the median."""
        costs = [one.cost for one in self.measured[contender] if one.cost is not None]
        return statistics.median(costs) if costs else None

    def ratio(self, contender: str, other: str) -> float | None:
        """The median over repetitions of one's rate by the other's in the same repetition; None without either."""
        if contender not in self.measured or other not in self.measured:
            return None
        pairs = zip(self.measured[contender], self.measured[other], strict=True)
        return statistics.median(one.rate / by.rate for one, by in pairs)


@dataclass(slots=True)
class Suite:
    """What was measured, and why something was not."""

    assembly: list[InProcess] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    backlogs: list[Backlog] = field(default_factory=list)
    open_turns: list[OpenTurns] = field(default_factory=list)
    publishing: list[Publishing] = field(default_factory=list)
    gateway: GatewayLoad | None = None
    left_out: dict[str, str] = field(default_factory=dict)  # contender or load -> what it needs
    failed: dict[str, str] = field(default_factory=dict)  # part of the suite -> why there is no figure

"""The measurements of a suite, with medians and ratios."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.bench.asked import Asked
from tests.bench.capture import Captured
from tests.bench.gateway import GatewayLoad
from tests.bench.growth import Growth
from tests.bench.history import History
from tests.bench.in_process import InProcess
from tests.bench.latency import Latency
from tests.bench.loads import Load
from tests.bench.memory import Backlog, OpenTurns
from tests.bench.proxy import Proxied
from tests.bench.publishing import Publishing
from tests.bench.result import Measured
from tests.bench.retention import Waited
from tests.bench.scale import Scale
from tests.bench.searching import Searches

if TYPE_CHECKING:  # who has no tables need not have pyiceberg
    from tests.bench.lake import Step


@dataclass(frozen=True, slots=True)
class Result:
    """One load: contender -> its measurements, one a repetition; of contenders that failed, why."""

    load: Load
    measured: dict[str, list[Measured]]
    failed: dict[str, str] = field(default_factory=dict)

    def rate(self, contender: str) -> float:
        """The median of events a second."""
        return statistics.median(one.rate for one in self.measured[contender])

    def cost(self, contender: str) -> float | None:
        """The median of CPU µs an event; None where it was not measured, or the system does not tell it."""
        costs = [one.cost for one in self.measured.get(contender, ()) if one.cost is not None]
        return statistics.median(costs) if costs else None

    def ratio(self, contender: str, other: str) -> float | None:
        """The median of `contender`'s rate by `other`'s of the same repetition; None where either is missing."""
        if contender not in self.measured or other not in self.measured:
            return None
        pairs = zip(self.measured[contender], self.measured[other], strict=True)
        return statistics.median(one.rate / by.rate for one, by in pairs)


@dataclass(slots=True)
class Suite:
    """All measurements, and why some are missing."""

    assembly: list[InProcess] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    backlogs: list[Backlog] = field(default_factory=list)
    open_turns: list[OpenTurns] = field(default_factory=list)
    publishing: list[Publishing] = field(default_factory=list)
    captured: list[Captured] = field(default_factory=list)
    gateway: GatewayLoad | None = None
    proxy: Proxied | None = None
    histories: list[History] = field(default_factory=list)
    lake: list[Step] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    expiries: list[Waited] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    searches: list[Searches] = field(default_factory=list)
    scale: Scale = field(default_factory=Scale)
    left_out: dict[str, str] = field(default_factory=dict)  # contender or load -> what it needs
    failed: dict[str, str] = field(default_factory=dict)  # part of the suite -> why there is no figure

"""What a measurement says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pipeline.bench.load_topics import Site


@dataclass(frozen=True, slots=True)
class Measured:
    """`events` in `seconds`; `cpu` seconds of all processes that were measured, None where the system doesn't say."""

    events: int
    seconds: float
    cpu: float | None = None

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def cost(self) -> float | None:
        """CPU µs an event: moves less than the rate where others use the machine, too."""
        return None if self.cpu is None else self.cpu / self.events * 1e6


@dataclass(frozen=True, slots=True)
class Contender:
    """One line of the table. `any_load`: it does more than text deltas of one protocol. `needs`: why it can't run."""

    name: str
    title: str
    measure: Callable[[Site], Awaitable[Measured]]
    any_load: bool = True
    missing: Callable[[], str | None] = lambda: None


def percentile(ascending: Sequence[float], percent: int) -> float:
    """The smallest value that so many are not above."""
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]

"""One measurement, and the contender that it belongs to."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tests.bench.load_topics import Site


@dataclass(frozen=True, slots=True)
class Measured:
    """`events` in `seconds`; `cpu` seconds of all measured processes, None where the system does not tell them."""

    events: int
    seconds: float
    cpu: float | None = None

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def cost(self) -> float | None:
        """CPU µs an event; it varies less than the rate where others use the machine, too."""
        return None if self.cpu is None else self.cpu / self.events * 1e6


@dataclass(frozen=True, slots=True)
class Contender:
    """One line of the table. `any_load`: it takes all loads, not only text ones. `missing`: what it lacks to run."""

    name: str
    title: str
    measure: Callable[[Site], Awaitable[Measured]]
    any_load: bool = True
    missing: Callable[[], str | None] = lambda: None


def percentile(ascending: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile of ascending values."""
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]

"""What an input costs, in parts of what it may: above 1 it is a finding.

Time is the processor's, of all threads of the process, so that a busy machine costs nothing; and what holds the event
loop is a part of it. Memory is that of Python's objects. What is made is counted for each KB of the input.
"""

import json
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.climbing.changes import MOST
from tests.climbing.climber import Peak, climb

BOUNDS: Final = {"seconds": 0.25, "megabytes": 64.0, "made a KB": 100.0}
AGAIN: Final = 3  # times that a finding is measured, of which the least counts: the first may have paid for a cache


@dataclass(frozen=True, slots=True)
class Target:
    """What takes inputs. `rendered`: an input's JSON -> what travels; `take`: that -> how many rows, records and
    objects it made.
    """

    name: str
    seeds: Sequence[Any]
    rendered: Callable[[Any], Any]
    take: Callable[[Any], int]
    size: Callable[[Any], int]


@dataclass(frozen=True, slots=True)
class Found:
    """The costliest input of a target, by one of the bounds."""

    target: str
    bound: str
    measured: float
    peak: Peak

    @property
    def is_finding(self) -> bool:
        return self.measured > BOUNDS[self.bound]

    def __str__(self) -> str:
        mark = "FINDING" if self.is_finding else "       "
        return f"{mark} {self.target:<44} {self.measured:>9.3f} {self.bound} ({self.peak.tries} inputs)"


def measured(target: Target, value: Any, bound: str) -> float | None:
    """-> what an input costs; None for one that is too large, or can't travel."""
    try:
        given = target.rendered(value)
        size = target.size(given)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, OverflowError):
        return None
    if size > MOST:
        return None
    if bound == "megabytes":
        tracemalloc.start()
        try:
            target.take(given)
            return tracemalloc.get_traced_memory()[1] / 2**20
        finally:
            tracemalloc.stop()
    began = time.process_time()
    made = target.take(given)
    return time.process_time() - began if bound == "seconds" else made / max(1.0, size / 1024)


def search(target: Target, bound: str, seconds: float, seed: int) -> Found:
    """Climb for so many seconds."""
    until = time.monotonic() + seconds

    def cost(value: Any) -> float | None:
        found = measured(target, value, bound)
        if found is not None and found > BOUNDS[bound]:
            found = min([found, *(measured(target, value, bound) or 0.0 for _ in range(AGAIN - 1))])
        return found

    peak = climb(target.seeds, cost, Random(seed), lambda _: time.monotonic() < until, BOUNDS[bound] * 1.001)
    return Found(target.name, bound, peak.cost, peak)


def written(found: Found, folder: Path) -> Path:
    """Keep the input of a finding -> its file, which `--input` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() else "-" for letter in f"{found.target}-{found.bound}")
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"target": found.target, "bound": found.bound, "value": found.peak.value}))
    return path

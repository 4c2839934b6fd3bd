"""One schedule: a storm, then a calm in which all must come to rest, then the look at what is left."""

import logging
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from tests.simulation import invariants
from tests.simulation.loop import SimulatedLoop
from tests.simulation.scenarios import BY_NAME, SCENARIOS, Scenario
from tests.simulation.world import World
from tests.support.places import temporary

# Of a dead letter: it may quote an error of Python, which has other words where it comes out of compiled code.
UNTOLD = ("turnmill.detail",)

Mutant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a schedule. `failure` is None where all was right."""

    seed: int
    scenario: str
    failure: str | None
    trace: tuple[str, ...]
    seconds: float  # of simulated time
    records: int
    took: float  # seconds of CPU
    digest: str  # of the trace, and of all records that were written


def scenario_of(seed: int, only: str | None = None) -> Scenario:
    """The scenario that a seed plays, unless `only` names one."""
    if only is not None:
        return BY_NAME[only]
    return random.Random(seed).choices(SCENARIOS, [scenario.share for scenario in SCENARIOS])[0]


def play(seed: int, only: str | None = None, mutant: Mutant | None = None) -> Played:
    """Play one schedule; the same arguments always give the same trace."""
    scenario = scenario_of(seed, only)
    began = time.process_time()
    rng = random.Random(f"{seed} {scenario.name}")
    trace: list[str] = []
    random.seed(seed)
    folder = Path(tempfile.mkdtemp(prefix="simulated-", dir=temporary()))
    loop = SimulatedLoop(lambda process: trace.append(f"{loop.now:8.3f} {process.name} is killed"))
    world = World(scenario, loop, rng, folder, lambda text: trace.append(f"{loop.now:8.3f} {text}"))
    failure = None
    with pytest.MonkeyPatch.context() as patch, _quiet():
        world.patch(patch)
        if mutant is not None:
            mutant(patch)
        try:
            loop.run_until_complete(world.play())
            invariants.check(world)
        except AssertionError as error:
            failure = f"{type(error).__name__}: {error}"
        finally:
            for process in world.processes:
                process.bury()
            loop.close()
            shutil.rmtree(folder, ignore_errors=True)
    records = sum(len(log.written) for log in world.broker.logs.values())
    took = time.process_time() - began
    return Played(seed, scenario.name, failure, tuple(trace), loop.now, records, took, _digest(world, trace))


def _digest(world: World, trace: list[str]) -> str:
    found = sha256("\n".join(trace).encode())
    for place, log in world.broker.logs.items():
        for entry in log.written:
            headers = [header for header in entry.headers if header[0] not in UNTOLD]
            found.update(repr((place, entry.offset, entry.key, entry.value, headers)).encode())
    return found.hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """The pipeline's log lines are of no use here, and take half of the time."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)

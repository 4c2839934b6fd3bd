"""Some of the schedules of `make simulate`; and each is the same wherever it is played."""

import gc
import os
import subprocess
import sys

import pytest

from tests.simulation import mutants
from tests.simulation.scenarios import BY_NAME, SCENARIOS
from tests.simulation.schedule import play

SCHEDULES = 8  # of each scenario
FEWER = 4  # of the one whose schedules go on until threads have expired, twice
TWICE = ("members", "outages", "everything", "tight")
SEED = 3


def told(scenario: str) -> str:
    """All that is seen of a schedule."""
    played = play(SEED, scenario)
    return "\n".join((scenario, str(played.failure), str(played.seconds), str(played.records), *played.trace))


@pytest.mark.parametrize("scenario", [scenario.name for scenario in SCENARIOS if scenario.share])
def test_nothing_is_lost_in_any_of_them(scenario: str) -> None:
    for seed in range(FEWER if BY_NAME[scenario].retention else SCHEDULES):
        played = play(seed, scenario)
        again = f"make simulate ARGS='--seed {seed} --only \"{scenario}\"'"
        assert played.failure is None, f"{played.failure}\n{again}"
    gc.collect()


def test_a_seed_always_plays_the_same_schedule() -> None:
    here = "\n".join(map(told, TWICE))
    other_hashes = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    script = "from tests.simulation.test_short import TWICE, told; print('\\n'.join(map(told, TWICE)), end='')"
    there = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": other_hashes},
    ).stdout
    assert here == there
    assert here.count("\n") > 100


@pytest.mark.parametrize("name", mutants.BY_NAME)
def test_each_mutant_still_takes_something_out(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        mutants.BY_NAME[name].take_out(patch)

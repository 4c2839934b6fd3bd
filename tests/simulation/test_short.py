"""Some of the schedules of `make simulate`; and each is the same wherever it is played."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from tests.simulation.scenarios import SCENARIOS
from tests.simulation.schedule import play

SCHEDULES = 8  # of each scenario
TOLD = """
from tests.simulation.schedule import play
for seed in (3,):
    for scenario in {names!r}:
        played = play(seed, scenario)
        print(seed, scenario, played.failure, played.seconds, played.records)
        print("\\n".join(played.trace))
"""


@pytest.mark.parametrize("scenario", [scenario.name for scenario in SCENARIOS if scenario.share])
def test_nothing_is_lost_in_any_of_them(scenario: str) -> None:
    for seed in range(SCHEDULES):
        played = play(seed, scenario)
        again = f"make simulate ARGS='--seed {seed} --only \"{scenario}\"'"
        assert played.failure is None, f"{played.failure}\n{again}"
    gc.collect()


def test_a_seed_always_plays_the_same_schedule() -> None:
    names = ["members", "outages", "everything", "tight"]
    told = [
        subprocess.run(
            [sys.executable, "-c", TOLD.format(names=names)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert told[0].count("\n") > 100

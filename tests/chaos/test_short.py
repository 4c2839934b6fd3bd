"""Six of the scenarios of `make chaos`, on one broker and with a small load."""

from pathlib import Path

import pytest

from pipeline.devbroker.local import Cluster
from tests.chaos.cluster import Brokers
from tests.chaos.play import Stage, play
from tests.chaos.scenarios import BY_NAME, Scenario
from tests.support.places import CACHE

RUNS = 120
QUICKER = {"session_timeout": 3.0}


@pytest.mark.parametrize("name", ["mid-turn", "after-store", "after-produce", "zombie", "poison", "versions"])
async def test_nothing_is_lost(name: str, broker: Cluster, tmp_path: Path) -> None:
    scenario: Scenario = BY_NAME[name]
    stage = Stage(Brokers(broker), tmp_path, CACHE, pace=4.0, runs=RUNS, workers=2, settings=QUICKER)
    played = await play(stage, scenario, 1, "sqlite")
    assert not played.outcome.problems, "\n".join(played.outcome.problems)
    assert played.outcome.balance is not None
    assert played.outcome.balance.stored == RUNS

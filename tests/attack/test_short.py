"""The cheap ones of the attacks of `make attack`, on one stage."""

from pathlib import Path

from pipeline.devbroker.local import Cluster
from pipeline.settings import Settings
from tests.attack.attacks import ATTACKS
from tests.attack.play import Theatre, table
from tests.attack.stage import Code
from tests.support.places import CACHE


def no_postgres() -> str:
    raise AssertionError("the cheap ones are on SQLite")


async def test_every_attack_is_held(broker: Cluster, tmp_path: Path) -> None:
    base = Settings(home=tmp_path, cache=CACHE, brokers=broker.bootstrap)
    short = [attack for attack in ATTACKS if attack.short]
    outcomes = [outcome async for outcome in Theatre(base, Code(forked=True), no_postgres).play_all(short)]
    assert len(outcomes) == len(short) >= 8
    assert not [one for one in outcomes if one.problem], table(outcomes)

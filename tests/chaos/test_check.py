"""The check at the end of each play finds what it is there to find."""

from pathlib import Path

from pipeline.assembly.offline import assemble
from pipeline.devbroker.local import Cluster
from pipeline.dialects import DIALECTS
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.chaos.cluster import Brokers
from tests.chaos.load import cut, load_of
from tests.chaos.scene import Scene
from tests.chaos.stores import Sqlite
from tests.support.fleet import AgentRun, run_of
from tests.support.places import CACHE
from topics.turn_record import TurnRecord


def turns_of(run: AgentRun) -> list[TurnRecord]:
    return assemble(DIALECTS["vercel-ai"], run.envelopes)[0]


async def test_every_kind_of_loss_is_found(broker: Cluster, tmp_path: Path) -> None:
    runs = [run_of(1, number) for number in range(8)]
    stranger = run_of(2, 99)
    _missing, truncated, altered, billed, *good = runs
    async with Scene("check", 1, Brokers(broker), Sqlite(), load_of(runs, 1), tmp_path, CACHE) as scene:
        scene.pace = 0
        scene.publish()
        written = [turn for run in [*good, stranger, cut(truncated, [0, 1])] for turn in turns_of(run)]
        (wrong,) = turns_of(altered)
        assert wrong["turn"] is not None
        wrong["turn"]["messages"][0]["parts"][0]["content"] = "something else"
        (doubled,) = turns_of(billed)
        assert doubled["turn"] is not None
        doubled["turn"]["messages"] *= 2
        async with ThreadStore(scene.settings.store_url) as store:
            await write_turns(store, [*written, wrong, doubled])
        scene.mended()
        outcome = await scene.outcome(within=1)
    found = "\n".join(outcome.problems)
    for problem in (
        "not all was stored",
        "1 runs are open still",
        "1 not stored",
        "1 stored, and no run of ours",
        "1 with more usage than they have",
        "1 with less usage than they have",
        "1 of another status",
        "3 with another hash",
    ):
        assert problem in found, found
    assert (outcome.twice, outcome.truncated, outcome.different) == (2, 1, 3)

"""python -m tests.chaos: break everything that can break, and look whether anything was lost.

python -m tests.chaos                                 every scenario, three seeds
python -m tests.chaos --only zombie --seeds 5 --store postgres
python -m tests.chaos restarts                        how long stops and starts take
python -m tests.chaos soak --minutes 30               half of the peak, with a kill every two minutes
python -m tests.chaos neighbours                      what a tenant notices of another one at its bound
"""

import asyncio
import logging
import shutil
import sys
import time
from collections.abc import Callable, Sequence

import click

from tests.chaos.cluster import three_brokers
from tests.chaos.neighbours import neighbours
from tests.chaos.outcomes import keep, kept, line_of
from tests.chaos.play import Played, Stage, play_all
from tests.chaos.report import chaos_part, write_results
from tests.chaos.restarts import restarts
from tests.chaos.scenarios import BY_NAME, ON, SCENARIOS, Scenario
from tests.chaos.soak import soak
from tests.support.places import CACHE, ROOT

FOLDER = ROOT / ".cache" / "chaos" / "plays"
OUTCOMES = ROOT / ".cache" / "chaos" / "outcomes"
WHOLE = list(ON)


@click.group(invoke_without_command=True)
@click.option("--seeds", default="1,2,3", show_default=True, help="Seeds 1 and 3 are on SQLite, 2 on Postgres.")
@click.option("--only", multiple=True, type=click.Choice(list(BY_NAME)), help="Scenarios; all by default.")
@click.option("--store", type=click.Choice(["sqlite", "postgres"]), help="The store of every seed.")
@click.option("--beside", metavar="COMMIT", help="The other version of `versions`; by default one made of this tree.")
@click.option("--again", is_flag=True, help="Put what is played in its place in the table of results/chaos.md.")
@click.pass_context
def chaos(
    context: click.Context, seeds: str, only: tuple[str, ...], store: str | None, beside: str | None, *, again: bool
) -> None:
    """Play scenarios on three brokers and three workers. Exit status 1 where one failed.

    Where all are played, results/chaos.md is written.
    """
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())  # brokers are meant to be away now and then
    if context.invoked_subcommand is not None:
        return
    numbers = [int(seed) for seed in seeds.split(",")]
    whole = not only and store is None and beside is None and numbers == WHOLE
    plan = [
        (scenario, seed, scenario.kind(seed, store))
        for scenario in SCENARIOS
        if scenario.name in only or not only
        for seed in numbers
    ]
    if again and any(seed not in WHOLE or kind != scenario.kind(seed) for scenario, seed, kind in plan):
        raise click.UsageError("only plays of the whole run can be put in their places: seeds 1, 2 and 3, no --store")
    if whole and not again:
        shutil.rmtree(OUTCOMES, ignore_errors=True)
    began = time.monotonic()

    def tell(one: Played) -> None:
        _tell(one)
        if whole or again:
            keep(OUTCOMES, line_of(one, again=again))

    played = asyncio.run(_play(plan, beside, tell))
    if whole or again:
        write_results("chaos", chaos_part(kept(OUTCOMES), "make chaos"))
    failed = [one for one in played if one.outcome.problems]
    click.echo(f"{len(played) - len(failed)} of {len(played)} passed in {(time.monotonic() - began) / 60:.0f} min")
    sys.exit(1 if failed else 0)


async def _play(
    plan: Sequence[tuple[Scenario, int, str]], beside: str | None, tell: Callable[[Played], None]
) -> list[Played]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    async with three_brokers(FOLDER / "cluster", CACHE) as brokers:
        stage = Stage(brokers, FOLDER, CACHE, beside=beside)
        try:
            return await play_all(stage, plan, tell)
        finally:
            await stage.end()


def _tell(one: Played) -> None:
    outcome = one.outcome
    name = f"{one.scenario.name} seed {one.seed} {one.store}"
    if outcome.balance is not None:
        ledger = f"{outcome.balance.runs} runs, {outcome.balance.stored} stored, {outcome.balance.dead} dead"
    else:
        ledger = "no ledger"
    note = f" ({outcome.note})" if outcome.note else ""
    verdict = "FAILED" if outcome.problems else "passed"
    click.echo(
        f"{verdict}  {name}: {ledger}, recovered in {outcome.recovery:.1f} s; {outcome.seconds:.0f} s in all{note}"
    )
    for problem in outcome.problems:
        click.echo(f"    {problem}")


chaos.add_command(restarts)
chaos.add_command(soak)
chaos.add_command(neighbours)

if __name__ == "__main__":
    chaos()

"""python -m tests.simulation: play schedules, in as many processes as there are cores.

python -m tests.simulation                              20,000 schedules, or ten minutes of them
python -m tests.simulation --seed 17                    one schedule, with its trace
python -m tests.simulation --only hostile --seconds 60  those of one scenario
python -m tests.simulation mutants                      what is found when a mend is taken out
"""

import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import click

from tests.simulation import mutants
from tests.simulation.one import one, prepare
from tests.simulation.scenarios import BY_NAME
from tests.simulation.schedule import Played

SHOWN = 10  # failures
PROGRESS = 15.0  # seconds between two lines


@click.command(help=__doc__)
@click.argument("command", required=False, type=click.Choice(["mutants"]))
@click.option("--seed", type=int, help="Play this schedule alone, and print its trace.")
@click.option("--schedules", default=20_000, show_default=True, help="How many, from --first on.")
@click.option("--first", default=0, help="The first seed.")
@click.option("--seconds", default=600.0, show_default=True, help="Stop after so long.")
@click.option("--only", type=click.Choice(sorted(BY_NAME)), help="One scenario.")
@click.option("--mutant", type=click.Choice(sorted(mutants.BY_NAME)), help="With a mend taken out.")
def main(
    command: str | None,
    seed: int | None,
    schedules: int,
    first: int,
    seconds: float,
    only: str | None,
    mutant: str | None,
) -> None:
    if command == "mutants":
        sys.exit(mutants.main(only, mutant))
    playing = partial(one, only=only, mutant=mutant)
    if seed is None:
        sys.exit(_many(playing, range(first, first + schedules), seconds))
    played = playing(seed)
    click.echo("\n".join(played.trace))
    _tell(played, playing)
    sys.exit(int(played.failure is not None))


def _many(playing: partial[Played], seeds: range, seconds: float) -> int:
    began = shown = time.monotonic()
    scenarios: Counter[str] = Counter()
    failures: list[Played] = []
    simulated = records = busy = 0.0
    for played in _played(playing, seeds, began + seconds):
        scenarios[played.scenario] += 1
        simulated += played.seconds
        records += played.records
        busy += played.took
        if played.failure is not None:
            failures.append(played)
            if len(failures) <= SHOWN:
                _tell(played, playing)
        if time.monotonic() > shown + PROGRESS:
            shown = time.monotonic()
            click.echo(f"{scenarios.total():,} schedules in {shown - began:.0f} s, {len(failures)} failed")
    count, seconds = scenarios.total(), time.monotonic() - began
    click.echo(
        f"{count:,} schedules in {seconds:.0f} s ({count / seconds:.1f} a second, "
        f"{1000 * busy / max(count, 1):.0f} ms of CPU each), {len(failures)} failed"
    )
    click.echo(f"{simulated / 3600:,.1f} h of simulated time, {records:,.0f} records")
    click.echo(", ".join(f"{name} {count:,}" for name, count in sorted(scenarios.items())))
    return int(bool(failures))


def _played(playing: partial[Played], seeds: range, until: float) -> Iterator[Played]:
    """Schedules in the order in which they are done."""
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), prepare) as pool:
        for played in pool.imap_unordered(playing, seeds, chunksize=4):
            yield played
            if time.monotonic() > until:
                return


def _tell(played: Played, playing: partial[Played]) -> None:
    click.echo(f"\nseed {played.seed} ({played.scenario}): {played.failure or 'all is right'}")
    options = "".join(f' --{name} "{value}"' for name, value in playing.keywords.items() if value is not None)
    click.echo(f"again: make simulate ARGS='--seed {played.seed}{options}'\n")


if __name__ == "__main__":
    main()

"""python -m tests.attack: attack a running pipeline, as somebody with a token of another tenant would.

python -m tests.attack                              every attack
python -m tests.attack --only squat --only look
python -m tests.attack --memory                     each process within the memory that the chart gives it, as root
python -m tests.attack --python ../old/.venv/bin/python --folder ../old     the code of another checkout
"""

import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click

from pipeline.settings import Settings
from tests.attack.attack import Attack
from tests.attack.attacks import ATTACKS
from tests.attack.bounded_memory import emptied
from tests.attack.play import Outcome, Theatre, table
from tests.attack.stage import Code
from tests.support.places import CACHE, ROOT
from tests.support.servers import kafka, postgres

FOLDERS = ROOT / ".cache" / "attack"
HELD_AT_MOST = 0.5  # seconds of the gateway's loop, on a machine that does nothing else


@click.command()
@click.option("--only", multiple=True, help="Attacks whose name begins like this; all by default.")
@click.option("--short", is_flag=True, help="Only those that `make test` plays, too.")
@click.option("--list", "listed", is_flag=True, help="Say what each attack tries, and what it may not achieve.")
@click.option("--python", default=sys.executable, help="The interpreter of the code that is attacked.")
@click.option("--folder", type=click.Path(path_type=Path), help="The folder of that code.")
@click.option("--memory", "bounded", is_flag=True, help="Bound each process by a cgroup, as the chart does.")
def attack(only: Sequence[str], python: str, folder: Path | None, *, short: bool, listed: bool, bounded: bool) -> None:
    """Play attacks on a broker, a worker and a gateway of their own. Exit status 1 where one was not held."""
    chosen = [one for one in ATTACKS if one.name.startswith(tuple(only) or "") and (one.short or not short)]
    if listed:
        for one in chosen:
            click.echo(f"{one.name}\n    tries:   {one.tries}\n    may not: {one.may_not}")
        return
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    began = time.monotonic()
    outcomes = asyncio.run(_play(chosen, Code(python, folder, bounded=bounded)))
    emptied()
    broken = [one for one in outcomes if one.problem]
    spent = (time.monotonic() - began) / 60
    click.echo(f"{len(outcomes) - len(broken)} of {len(outcomes)} attacks were held, in {spent:.1f} min")
    sys.exit(1 if broken else 0)


async def _play(attacks: Sequence[Attack], code: Code) -> list[Outcome]:
    FOLDERS.mkdir(parents=True, exist_ok=True)
    found = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=FOLDERS, ignore_cleanup_errors=True)))
        cluster = stack.enter_context(kafka(folder / "kafka"))
        urls: list[str] = []

        def postgres_url() -> str:
            if not urls:
                urls.append(stack.enter_context(postgres()))
            return urls[0]

        base = Settings(home=folder, cache=CACHE, brokers=cluster.bootstrap)
        async for outcome in Theatre(base, code, postgres_url).play_all(attacks):
            waited = not outcome.problem and outcome.held > HELD_AT_MOST
            problem = f"nobody was answered for up to {outcome.held:g} s" if waited else outcome.problem
            found.append(replace(outcome, problem=problem))
            click.echo(table(found[-1:]))
    return found


if __name__ == "__main__":
    attack()

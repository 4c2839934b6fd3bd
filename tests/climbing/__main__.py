"""python -m tests.climbing: climb for inputs of at most 64 KB that cost far more than they should.

python -m tests.climbing                                  every endpoint, topic and packed form, FUZZ_SECONDS for each
python -m tests.climbing --only "POST /v1/records"        those whose name begins like this
python -m tests.climbing --input .cache/climbing/X.json   what a finding costs now
"""

import asyncio
import gc
import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from tests.climbing import endpoints, packed, topics
from tests.climbing.cost import BOUNDS, Target, measured, search, written
from tests.support.places import ROOT

FOLDER = ROOT / ".cache" / "climbing"


@click.command()
@click.option("--only", multiple=True, help="Targets whose name begins like this; all by default.")
@click.option("--seconds", envvar="FUZZ_SECONDS", default=10.0, show_default=True, help="For each target and bound.")
@click.option("--seed", default=1, show_default=True)
@click.option("--input", "path", type=click.Path(path_type=Path, exists=True), help="A finding, to be measured again.")
def climbing(only: Sequence[str], seconds: float, seed: int, path: Path | None) -> None:
    """Climb. Exit status 1 where an input costs more than it may."""
    logging.disable(logging.ERROR)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        store, called = topics.Store(Path(folder), runner), endpoints.Called(Path(folder), runner)
        every = [*endpoints.targets(called), *topics.targets(store), *packed.targets()]
        chosen = [one for one in every if one.name.startswith(tuple(only) or "")]
        gc.freeze()  # what tests import would be walked in the midst of a measurement
        try:
            status = _climb(chosen, seconds, seed) if path is None else _again(every, json.loads(path.read_text()))
        finally:
            gc.unfreeze()
            store.close()
            called.close()
    click.echo(f"{len(chosen)} targets in {(time.monotonic() - began) / 60:.1f} min")
    sys.exit(status)


def _climb(chosen: Sequence[Target], seconds: float, seed: int) -> int:
    findings = 0
    for target in chosen:
        for bound in BOUNDS:
            found = search(target, bound, seconds, seed)
            click.echo(str(found))
            if found.is_finding:
                findings += 1
                click.echo(f"        python -m tests.climbing --input {written(found, FOLDER)}")
    return int(findings > 0)


def _again(every: Sequence[Target], finding: dict[str, object]) -> int:
    (target,) = [one for one in every if one.name == finding["target"]]
    costs = {bound: measured(target, finding["value"], bound) or 0.0 for bound in BOUNDS}
    click.echo(", ".join(f"{cost:.3f} {bound}" for bound, cost in costs.items()))
    return int(any(cost > BOUNDS[bound] for bound, cost in costs.items()))


climbing()

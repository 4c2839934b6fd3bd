"""`threadmill bench`: how fast it is here, beside the limit of the machine and other engines."""

from __future__ import annotations

import json

import click
from rich.console import Console

from pipeline.bench import report, suite
from pipeline.settings import load


@click.command(short_help="Measure assembly, and the whole way on a local Kafka.")
@click.option("--runs", default=1, show_default=True, type=click.IntRange(1), help="Repetitions; medians are shown.")
@click.option("--all", "everything", is_flag=True, help="Assembly in process for every dialect, too.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with every repetition.")
def bench(*, runs: int, everything: bool, as_json: bool) -> None:
    """Measure throughput on a Kafka broker of its own; two minutes, and all cores.

    Each reader works alone, in a process of its own, on the same records: aiokafka and orjson without any job,
    Threadmill to the turns topic, Threadmill to SQLite, and a stock Faust agent.
    """
    where = report.conditions()
    console = Console(stderr=as_json, highlight=False)
    with console.status("starting") as status:
        measured = suite.run(load(), runs, dialects=everything, progress=status.update)
    if as_json:
        click.echo(json.dumps(report.as_json(measured, where)))
    else:
        report.show(measured, where, console)


commands = [bench]

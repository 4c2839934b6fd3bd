"""`turnmill bench`: measure Turnmill here, beside the limit of the machine and other engines."""

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from pipeline.cli.dev.demo import RECORDINGS
from pipeline.cli.files.recordings import Stream, files_of, read
from pipeline.cli.output import wide_console
from pipeline.settings import load
from tests.bench import against as revisions
from tests.bench import report, suite
from tests.bench.conditions import conditions, in_words
from tests.bench.contenders import CONTENDERS
from tests.bench.history import TURNS
from tests.bench.loads import Script
from tests.bench.results import Suite
from turnmill.errors import CallerError

PLACES: Final = ", ".join([*suite.MEASUREMENTS, *CONTENDERS])


@click.command(short_help="Measure throughput, latency and memory on a local Kafka.")
@click.option("--runs", default=1, show_default=True, type=click.IntRange(1), help="Repetitions; medians are shown.")
@click.option(
    "--all", "everything", is_flag=True, help="All loads, stores, engines, latency, memory, gateway: 20 minutes."
)
@click.option("--peers", is_flag=True, help="Quix Streams and Kafka Streams, too.")
@click.option("--only", metavar="NAME,…", default="", help=f"Some of: {PLACES}.")
@click.option("--postgres", metavar="URL", help="A server to measure with, where a database can be made and dropped.")
@click.option("--turns", default=TURNS, show_default=True, type=click.IntRange(1), help="Of a store or its archive.")
@click.option("--against", metavar="REV", help="Measure that revision of this repository in turn, and print ratios.")
@click.option("--targets", is_flag=True, help="With --against: print the targets, too; exit 1 if one is missed.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with every repetition.")
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Write the tables as Markdown between the marks of this page, too: results/benchmark.md.",
)
def bench(
    *,
    runs: int,
    everything: bool,
    peers: bool,
    only: str,
    postgres: str | None,
    turns: int,
    against: str | None,
    targets: bool,
    as_json: bool,
    markdown: bool,
    into: Path | None,
) -> None:
    """Measure on a Kafka broker of its own; three minutes, and all cores.

    Each reader works alone, in a process of its own, on the same records: aiokafka and orjson without any job,
    Turnmill to the turns topic and to a store, and other engines that do the same job. A part that fails is told
    as failed, the others go on, and the exit status is 1. Ctrl-C shows what was measured so far.

    With --against, the figures are others, each measured with that revision and then with this one, as often as --runs
    says; --only names some of: bare, indexed, tick, open, long, loads.
    """
    names = [name.strip() for name in only.split(",") if name.strip()]
    if into is not None:
        report.put_into(into.read_text(), "")  # raises for a page without marks, before 20 minutes of measuring
    if against is not None:
        is_met = _beside(against, names, runs, targets=targets, as_json=as_json, into=into)
        sys.exit(0 if is_met or not targets else 1)
    if targets:
        raise CallerError("--targets are ratios to another revision: name it by --against")
    plan = suite.Plan.of(names, everything=everything, peers=peers)
    plan = replace(plan, repetitions=runs, scripts=_fleet(), server=postgres, turns=turns)
    where = conditions()
    steps, measured = Console(stderr=True, highlight=False), Suite()
    with steps.status("starting") as status:
        try:
            suite.run(load(), plan, measured, progress=status.update)
        except KeyboardInterrupt:
            measured.failed["what was to come"] = "stopped by Ctrl-C"
    where["load_after"] = round(os.getloadavg()[0], 2)
    if as_json:
        click.echo(json.dumps(report.as_json(measured, where)))
    elif markdown:
        click.echo(report.markdown(measured, where))
    else:
        report.show(measured, where, wide_console())
    if into is not None:
        into.write_text(report.put_into(into.read_text(), report.markdown(measured, where)))
    if report.failed(measured):
        sys.exit(1)


def _beside(revision: str, names: list[str], runs: int, *, targets: bool, as_json: bool, into: Path | None) -> bool:
    """Measure beside another revision, and print; return whether all targets are met."""
    unknown = [name for name in names if name not in revisions.MEASUREMENTS]
    if unknown:
        raise CallerError(f"no {', '.join(unknown)} with --against; there are {', '.join(revisions.MEASUREMENTS)}")
    rows, where = [row for row in revisions.ROWS if not names or row.measured_by in names], conditions()
    with Console(stderr=True, highlight=False).status("starting") as status:
        sides = revisions.other(revision, status.update), revisions.today()
        measured = revisions.compared(sides, rows, runs, status.update)
    where["load_after"] = round(os.getloadavg()[0], 2)
    columns = ("", revision, "today", "ratio", *(("target", "") if targets else ()))
    lines = [one.cells(targets=targets) for one in measured]
    if as_json:
        click.echo(json.dumps([{**asdict(one), "met": one.is_met} for one in measured]))
    else:
        table = Table(*columns, box=None, pad_edge=False)
        for line in lines:
            table.add_row(*line)
        wide_console().print(table)
    if into is not None:
        told = "  \n".join(in_words(where))
        into.write_text(report.put_into(into.read_text(), f"{told}\n\n{report.in_cells(columns, lines)}\n"))
    return all(one.is_met for one in measured)


def _fleet() -> list[Script]:
    """The demo's recordings; empty outside a checkout of the project."""
    if not RECORDINGS.is_dir():
        return []
    found = [recording for file in files_of([RECORDINGS]) for recording in read(file, None, {}).recordings]
    return [Script(one.dialect, one.events, one.info, one.end) for one in found if isinstance(one, Stream)]

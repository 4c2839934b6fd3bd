"""`turnmill threads steps`: where the time of turns went; `turnmill usage tools`: which tools fail."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from pipeline.cli.options import Moment
from pipeline.cli.output import UNKNOWN, many, wide_console
from pipeline.cli.stored import selection
from pipeline.cli.stored.thread_view import plain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.steps import GOOD, thread_steps, tools_called
from pipeline.turns.times import passed
from topics import json_text


@click.command(short_help="Show where the time of each turn went.")
@click.argument("thread", metavar="ID")
@click.option("--turn", help="Only this turn.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object: the steps of each turn by its id.")
@selection.tenant_option
def steps(thread: str, turn: str | None, tenant: str | None, *, as_json: bool) -> None:
    """Show the calls of models and tools of each turn of a thread, when each began, and how long it took.

    A sub-agent's steps are below the call that began it. Times that the events don't tell are left open.
    """

    async def read(store: ThreadStore) -> dict[str, list[dict[str, Any]]]:
        return await thread_steps(store, await selection.find_thread(store, thread, tenant))

    found = selection.in_store(read)
    shown = {name: some for name, some in found.items() if turn in (None, name)}
    if as_json:
        click.echo(json_text.dumps(shown))
        return
    table = Table("turn", "step", "began s", "took s", "first token s", "status", box=None, pad_edge=False)
    for number in (2, 3, 4):
        table.columns[number].justify = "right"
    for name, some in shown.items():
        rows = [*_flat(some)]
        begun = min((at for step, _ in rows if (at := step["start"]) is not None), default=None)
        for number, (step, depth) in enumerate(rows):
            indented = f"{'  ' * depth}{step['kind']} {plain(step['name'] or '')}"
            times = (_seconds(begun, step["start"]), _seconds(step["start"], step["end"]))
            first = _seconds(step["start"], step.get("first_token"))
            status = Text(plain(step["status"]), style="" if step["status"] in GOOD else "red")
            table.add_row(Text("" if number else plain(name)), Text(indented), *times, first, status)
    wide_console().print(table if table.rows else "no turn of an agent here")


def _flat(some: Sequence[dict[str, Any]], depth: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    for step in some:
        yield step, depth
        yield from _flat(step.get("steps", ()), depth + 1)


def _seconds(since: int | None, until: int | None) -> str:
    return UNKNOWN if (took := passed(since, until)) is None else f"{took / 1000:.2f}"


@click.command(short_help="Show which tools are called, and which fail.")
@selection.filters
@click.option("--tenant", help="Only threads of this tenant.")
@click.option("--since", type=Moment(), help="Only turns from this time on, or 7d, 12h ago.")
@click.option("--json", "as_json", is_flag=True, help='Print {"tools": […], "turns": …}.')
def tools(*, as_json: bool, **wanted: Any) -> None:
    """Count the calls of each tool in the newest 10,000 turns of agents: those that failed, and how long they took."""
    used = selection.in_store(lambda store: tools_called(store, ListQuery(**wanted)))
    if as_json:
        click.echo(json_text.dumps(asdict(used)))
        return
    table = Table("tool", "calls", "failed", "unanswered", "took s, p95", box=None, pad_edge=False)
    for use in used.tools:
        counts = (f"{count:,}" for count in (use.calls, use.failed, use.unanswered))
        table.add_row(Text(plain(use.tool)), *counts, _seconds(0, use.took_p95_ms))
    console = wide_console()
    console.print(table)
    console.print(f"in {many(used.turns, 'turn')}", style="dim")

"""`turnmill runs`: open runs, and threads that wait for an answer."""

import asyncio
from dataclasses import asdict
from typing import Final

import click
from rich.table import Table
from rich.text import Text

from pipeline.cli.output import wide_console
from pipeline.cli.stored.selection import in_store
from pipeline.cli.stored.thread_view import plain, short_time
from pipeline.settings import load
from pipeline.stores.threads.reading import Waiting, WaitingWanted, waiting_threads
from pipeline.worker.assemble.limits import limits_of
from pipeline.worker.repair.open_runs import OpenRunRow, Wanted, open_runs, rows
from topics import json_text
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid

QUESTION_CHARACTERS: Final = 80  # of a question


@click.command(short_help="List open runs, or threads that wait for an answer.")
@click.option("--waiting", is_flag=True, help="Threads that wait for an approval, a client's result, or an answer.")
@click.option("--silent", is_flag=True, help="Only runs silent for longer than is usual for their agent.")
@click.option("--tenant", help="Only this tenant; '': without a tenant.")
@click.option("--agent", help="Only this agent, by id.")
@click.option("--thread", metavar="ID", help="Only of this thread or conversation.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Number of runs.")
@click.option("--json", "as_json", is_flag=True, help='Print {"runs": […]}.')
def runs(
    tenant: str | None, agent: str | None, thread: str | None, limit: int, *, waiting: bool, silent: bool, as_json: bool
) -> None:
    """List the open runs, longest silence first.

    They are read from the broker: from the state topic, and the events after the last checkpoint.
    """
    settings = load()
    if waiting:
        named = None if thread is None else (thread_uuid(thread, tenant)[0], thread)
        threads = in_store(lambda store: waiting_threads(store, WaitingWanted(tenant, agent, named), limit))
        _show(threads, waiting_table(threads), "no thread waits for an answer", as_json=as_json)
        return
    limits = limits_of(settings)
    listed = asyncio.run(open_runs(settings, limits.reopen_ms))
    open_rows = rows(listed, limits, Wanted(tenant, agent, thread, silent), now_ms(), limit)
    _show(open_rows, open_table(open_rows), "no run is open", as_json=as_json)


def _show(records: list[OpenRunRow] | list[Waiting], table: Table, none: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text.dumps({"runs": [asdict(record) for record in records]}))
    else:
        wide_console().print(table if records else none)


def open_table(runs: list[OpenRunRow]) -> Table:
    """Return open runs as a table, with unusually long silences in red."""
    table = Table("thread", "run", "agent", "tenant", "age", "silence", "usual", "events", "last event", box=None)
    for run in runs:
        usual = "" if run.usual_silence_ms is None else f"< {_span(run.usual_silence_ms)}"
        table.add_row(
            Text(plain(run.external_id or run.thread_id)),
            Text(plain(run.run_id)),
            Text(plain(run.agent_name or run.agent_id)),
            Text(plain(run.tenant or "")),
            _span(run.age_ms),
            Text(_span(run.silence_ms), style="red" if run.silent else ""),
            usual,
            f"{run.events:,}",
            Text(plain(run.last_event or "")),
        )
    return table


def waiting_table(threads: list[Waiting]) -> Table:
    """Return waiting threads as a table, with a line for each question."""
    table = Table("thread", "agent", "tenant", "since", "asks for", "tool", "what", box=None)
    for thread in threads:
        for asked in thread.asked:
            what = asked["message"] or ("" if asked["args"] is None else json_text.dumps(asked["args"]))
            table.add_row(
                Text(plain(thread.external_id or thread.thread_id)),
                Text(plain(thread.agent_name or thread.agent_id)),
                Text(plain(thread.tenant or "")),
                short_time(thread.since),
                asked["kind"],
                Text(plain(asked["tool_name"] or "")),
                Text(plain(what[:QUESTION_CHARACTERS])),
            )
    return table


def _span(milliseconds: int) -> str:
    """Return a duration as `8 s`, `12 min`, `3 h`."""
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"

"""`turnmill usage reconcile`: a provider's own usage beside that of the store."""

import sys
from datetime import UTC, date, datetime, timedelta
from typing import TextIO

import click

from pipeline.cli.output import many
from pipeline.cli.stored.selection import in_store
from pipeline.cli.stored.thread_view import plain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.usage.provider_exports import FORMATS, read_export
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.reconciling import GROUP_BY, Export, Line, compare
from pipeline.stores.usage.report import MAX_GROUPS, UsageQuery
from topics import json_text
from topics.catalog import DAY_MS
from turnmill.errors import CallerError

MAX_DAYS = 366  # from the first day of an export to its last
ROW = "  {:<24}{:>16}{:>16}{:>16}"


@click.command(short_help="Compare a provider's own usage with the store's.")
@click.option("--provider", type=click.Choice([*FORMATS]), required=True, help="Whose export FILE is.")
@click.option("--stored-as", metavar="NAME", help="The provider's name in the store, if it has another there.")
@click.option("--all", "every", is_flag=True, help="Also show what is equal.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all lines.")
@click.argument("file", type=click.File("r", encoding="utf-8-sig"))
def reconcile(provider: str, file: TextIO, stored_as: str | None, *, every: bool, as_json: bool) -> None:
    """Lay a provider's own usage export beside the store, by day (UTC), model and key: what differs, and why.

    \b
    FILE (- is standard input) has, as JSON:
      openai      pages of /v1/organization/usage/completions or /costs
      anthropic   pages of /v1/organizations/usage_report/messages or /cost_report
      openrouter  what /api/v1/activity returns, also as CSV

    Exit status 0: all is equal; 1: something differs; 2: FILE can't be read.
    """  # noqa: D301  # click's mark of a block that is not wrapped
    export = Export.of(read_export(provider, file))
    if not export.days:
        raise CallerError(f"there is no usage in it; expected: {FORMATS[provider].expected}")
    first, last = (date.fromisoformat(day) for day in (min(export.days), max(export.days)))
    if (last - first).days >= MAX_DAYS:
        raise CallerError(f"it is about more than {MAX_DAYS} days, {first} to {last}: give a part of it")
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    name = (stored_as or provider).lower()

    async def compared(store: ThreadStore) -> list[Line]:
        lines: list[Line] = []
        for day in days:
            start = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
            query = UsageQuery(GROUP_BY, start=start, end=start + DAY_MS, limit=MAX_GROUPS)
            rows = (await usage_report(store, query)).rows
            if any(row.other for row in rows):
                raise CallerError(f"{day}: over {MAX_GROUPS:,} models, providers and tiers are stored, too many here")
            lines += compare(export, day.isoformat(), rows, name)
        return lines

    lines = in_store(compared)
    differing = [line for line in lines if line.differing]
    if as_json:
        head = {"provider": provider, "from": first.isoformat(), "to": last.isoformat(), "equal": not differing}
        head |= {"uncounted": export.uncounted, "lines": [line.document() for line in lines]}
        click.echo(json_text.dumps(head))
    else:
        for line in lines if every else differing:
            _show(line)
        equal = len(lines) - len(differing)
        click.echo(f"{provider}, {first} to {last}: {many(equal, 'line')} equal, {len(differing):,} not")
        if export.uncounted:
            click.echo(f"of kinds that the store doesn't count: {many(export.uncounted, 'result')}")
    sys.exit(1 if differing else 0)


def _show(line: Line) -> None:
    document = line.document()
    model = "all models" if line.model is None else line.model or "–"
    click.echo(plain(f"{line.day} {model}: {line.state}"))
    click.echo(ROW.format("", "provider", "store", "difference"))
    for name, sides in document["counts"].items():
        if sides["differs"] or not line.differing:
            theirs, ours = sides["provider"], sides["store"]
            apart = None if theirs is None or ours is None else ours - theirs
            click.echo(ROW.format(name, _cell(theirs), _cell(ours), _cell(apart)))
    for key, counts in document["keys"].items():
        told = ", ".join(f"{name} {_cell(count)}" for name, count in counts.items())
        click.echo(plain(f"  of key {key}: {told}"))
    for reason in line.reasons:
        click.echo(plain(f"  {reason}"))


def _cell(count: float | None) -> str:
    if count is None:
        return "–"
    return f"{count:,}" if isinstance(count, int) else f"{count:,.6f}"

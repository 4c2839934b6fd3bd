"""`turnmill audit`: who changed or exported something."""

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

import click

from pipeline.cli.options import Moment
from pipeline.cli.stored.selection import in_store
from pipeline.cli.stored.thread_view import plain
from pipeline.observability.audit import Entry
from pipeline.stores.accounts.audit import AuditQuery, audit_page
from pipeline.stores.database.store import ThreadStore
from pipeline.turns.times import iso

PAGE = 500


@click.command(short_help="Show who changed or exported something.")
@click.option("--tenant", help="Only entries of this tenant; '': without a tenant.")
@click.option("--who", help="Only actions of this name.")
@click.option("--what", help="Only this action, as thread.erase, or kind, as token.")
@click.option("--since", type=Moment(), help="At or after this time, or 7d, 12h ago.")
@click.option("--until", type=Moment(), help="Before this time.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Number of entries.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per entry.")
def audit(limit: int, *, as_json: bool, **filters: Any) -> None:
    """Show who changed or exported something: the object, its tenant, and from where; newest first.

    The store keeps entries for TURNMILL_AUDIT_RETENTION.
    """

    async def show(store: ThreadStore) -> None:
        async for entry in _entries(store, AuditQuery(**filters), limit):
            click.echo(json.dumps(asdict(entry)) if as_json else _line(entry))

    in_store(show)


async def _entries(store: ThreadStore, query: AuditQuery, limit: int) -> AsyncIterator[Entry]:
    cursor: str | None = None
    while limit > 0:
        entries, cursor = await audit_page(store, query, min(limit, PAGE), cursor)
        for entry in entries:
            yield entry
        if cursor is None:
            return
        limit -= len(entries)


def _line(entry: Entry) -> str:
    who = f"{plain(entry.who) or 'somebody'} ({plain(entry.address)})"
    whose = "" if entry.tenant is None else f"  tenant {plain(entry.tenant)!r}"
    outcome = "" if entry.outcome == "done" else f"  {entry.outcome}"
    return f"{iso(entry.at)}  {who}  {entry.action}  {plain(entry.subject)}{whose}{outcome}"

"""`turnmill store`: the thread store's schema, sums, retention and search index."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC
from functools import partial
from typing import Any, Final

import click

from pipeline.cli.output import many
from pipeline.cli.stored.recording import in_store
from pipeline.cli.stored.thread_view import plain
from pipeline.observability.logs import set_up
from pipeline.settings import load
from pipeline.stores.database import migrate as migrations
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.expiry import Expired, Expiry
from pipeline.stores.search.write import index_some
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.usage.summing import compare_sums, sum_up
from pipeline.stores.usage.sums import Compared
from pipeline.stores.usage.time_buckets import MINUTE, label
from turnmill.clock import now_ms
from turnmill.errors import CallerError
from turnmill.settings import without_password

MAX_SHOWN: Final = 20  # wrong sums to print


@click.group()
def store() -> None:
    """Maintain the thread store that TURNMILL_STORE names."""


@store.command(short_help="Bring the store's schema up to date.")
def migrate() -> None:
    """Bring the store's schema up to date; safe while workers run, and from several places at once.

    SQLite files are also migrated when they are opened, Postgres only by this command.
    """
    url = load().store_url
    before = asyncio.run(_migrate(url))
    change = "already up to date" if before == migrations.HEAD else f"was {before or 'empty'}"
    click.echo(f"{without_password(url)}: schema {migrations.HEAD}, {change}")


@store.command(short_help="Check the connection and schema of the store.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def check(*, as_json: bool) -> None:
    """Check the connection and the schema of the store, and count its contents; exit status 4 on a failure."""
    found = asyncio.run(_check(load().store_url))
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{found['store']}: schema {found['schema']}")
    click.echo("{threads} threads, {turns} turns of {runs} runs, {interrupted} interrupted".format(**found))


@store.command(short_help="Compare the sums of usage with its rows.")
@click.option("--repair", is_flag=True, help="Correct wrong sums.")
def sums(*, repair: bool) -> None:
    """Compute the sums of usage again, from all rows, and compare; exit status 1 if one is wrong and not corrected.

    Missing sums are built first. Workers may run meanwhile; each week is one transaction.
    """
    found = in_store(partial(_sums, repair=repair))
    if found.since is None:
        click.echo("no sums of usage are kept: TURNMILL_USAGE_SUMS is off")
        return
    for place, whose in found.wrong[:MAX_SHOWN]:
        names = ", ".join("–" if name is None else plain(name) for name in whose)
        click.echo(f"wrong: {place.span // MINUTE} minutes from {label(place.start, UTC)}: {names}")
    change = "put right" if repair else "wrong"
    click.echo(f"{found.sums:,} sums compared with the rows, {len(found.wrong):,} {change}")
    if found.wrong and not repair:
        sys.exit(1)


@store.command(short_help="Delete the threads whose retention is over.")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and change nothing.")
def expire(*, dry_run: bool) -> None:
    """Delete now what has expired by TURNMILL_STORE_RETENTION, as the store role does gradually.

    A thread is deleted as a whole once its newest turn is older than that, unless it is held. Its large values and its
    rows in the archive are deleted, too; the sums of usage still include it.
    """
    settings = load()
    if not settings.kept_for.bounded:
        raise CallerError("nothing expires: set TURNMILL_STORE_RETENTION, as 90d")
    if not dry_run:
        set_up(settings.log_level, settings.log_format)
    found = in_store(lambda opened: _expire(Expiry(settings, opened), dry_run=dry_run))
    values = f"{many(found.objects, 'large value')} of {many(found.bytes, 'byte')}"
    archived = f", {many(found.archived, 'row')} of the archive" if settings.archive is not None else ""
    what = f"{many(found.threads, 'thread')} of {many(found.turns, 'turn')}, {values}{archived}"
    click.echo(f"would go: {what}" if dry_run else f"gone: {what}")
    if found.held:
        click.echo(f"{many(found.held, 'thread')} held, and left: `turnmill threads hold` lists them")


async def _expire(expiry: Expiry, *, dry_run: bool) -> Expired:
    now = now_ms()
    found = await expiry.would_go(now)
    if dry_run:
        return found
    done, more = Expired(held=found.held), True
    while more:
        some, more = await expiry.step(now)
        done += some
    return done


async def _sums(opened: ThreadStore, *, repair: bool) -> Compared:
    while await sum_up(opened):
        pass
    return await compare_sums(opened, repair=repair)


@store.command(short_help="Index the words of turns that searches don't find.")
def index() -> None:
    """Index the words of all turns that were stored with TURNMILL_SEARCH=off, so that searches find them.

    With TURNMILL_SEARCH=off, delete the index. The store role does the same, gradually; this command does it at once.

    It can be interrupted and repeated, and workers may run meanwhile.
    """
    settings = load()
    done = in_store(_index, search=settings.search)
    click.echo(f"deleted the words of {done:,} turns" if settings.search == "off" else f"indexed {done:,} turns")


async def _index(opened: ThreadStore) -> int:
    done = 0
    while some := await index_some(opened):
        done += some
    return done


async def _migrate(url: str) -> str | None:
    """Migrate the store, and return the previous revision."""
    async with ThreadStore(url) as opened:
        return await opened.migrate()


async def _check(url: str) -> dict[str, Any]:
    async with ThreadStore(url) as opened:
        revision = await opened.revision()
        await opened.check()
        counts = await count_rows(opened)
    return {
        "store": without_password(url),
        "schema": revision,
        "threads": counts.threads,
        "turns": counts.turns,
        "runs": counts.runs,
        "interrupted": counts.interrupted,
    }

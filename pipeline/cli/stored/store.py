"""`turnmill store` and `turnmill archive`: the store's schema, sums, retention and index; an archive in tables."""

import asyncio
import json
import sys
from datetime import UTC
from functools import partial
from typing import Any, Final

import click

from pipeline.cli.groups import Group
from pipeline.cli.output import many
from pipeline.cli.stored.selection import in_store, with_store
from pipeline.cli.stored.thread_view import plain
from pipeline.observability.audit import local_user
from pipeline.observability.logs import set_up
from pipeline.settings import load
from pipeline.stores.archive.turn_archive import lake_of
from pipeline.stores.database import migrate as migrations
from pipeline.stores.database.packing import unpacked
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.believed_time import believe, believed_time
from pipeline.stores.keeping.erasure import erase_all
from pipeline.stores.keeping.expiry import Expired, Expiry
from pipeline.stores.keeping.tenant_erasure import forget_tenant
from pipeline.stores.search.write import index_some
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.usage.summing import compare_sums, sum_up
from pipeline.stores.usage.sums import Compared
from pipeline.stores.usage.time_buckets import MINUTE, label
from pipeline.turns.times import iso
from pipeline.worker.repair import restoring
from topics import json_text
from turnmill.clock import now_ms
from turnmill.errors import CallerError
from turnmill.settings import without_password

MAX_SHOWN: Final = 20  # wrong sums to print
DAY: Final = 86_400.0  # seconds


@click.group(cls=Group)
def store() -> None:
    """Maintain the thread store that TURNMILL_STORE names."""


@store.command(short_help="Bring the store's schema up to date.")
def migrate() -> None:
    """Bring the store's schema up to date; safe while workers run, and from several places at once.

    SQLite files are also migrated when they are opened, Postgres only by this command.
    """
    url = load().store_url

    async def run() -> str | None:
        async with ThreadStore(url) as opened:
            return await opened.migrate()

    before = asyncio.run(run())
    change = "already up to date" if before == migrations.HEAD else f"was {before or 'empty'}"
    click.echo(f"{without_password(url)}: schema {migrations.HEAD}, {change}")


@store.command(short_help="Check the connection and schema of the store.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def check(*, as_json: bool) -> None:
    """Check the connection and the schema of the store, and count its contents; exit status 4 on a failure."""
    state = asyncio.run(_check(load().store_url))
    if as_json:
        click.echo(json.dumps(state))
        return
    click.echo(f"{state['store']}: schema {state['schema']}")
    click.echo("{threads} threads, {turns} turns of {runs} runs, {interrupted} interrupted".format(**state))


@store.command(short_help="Compare the sums of usage with its rows.")
@click.option("--repair", is_flag=True, help="Correct wrong sums.")
def sums(*, repair: bool) -> None:
    """Compute the sums of usage again, from all rows, and compare; exit status 1 if one is wrong and not corrected.

    Missing sums are built first. Workers may run meanwhile; each week is one transaction.
    """
    compared = in_store(partial(_sums, repair=repair))
    if compared.since is None:
        click.echo("no sums of usage are kept: TURNMILL_USAGE_SUMS is off")
        return
    for bucket, labels in compared.wrong[:MAX_SHOWN]:
        names = ", ".join("–" if name is None else plain(name) for name in labels)
        click.echo(f"wrong: {bucket.span // MINUTE} minutes from {label(bucket.start, UTC)}: {names}")
    change = "put right" if repair else "wrong"
    click.echo(f"{compared.sums:,} sums compared with the rows, {len(compared.wrong):,} {change}")
    if compared.wrong and not repair:
        sys.exit(1)


@store.command(short_help="Delete the threads whose retention is over.")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and change nothing.")
@click.option("--accept-time", is_flag=True, help="Take this machine's time as right, though the workers' was not it.")
def expire(*, dry_run: bool, accept_time: bool) -> None:
    """Delete now what has expired by TURNMILL_STORE_RETENTION, as the store role does gradually.

    A thread is deleted as a whole once its newest turn is older than that, unless it is held. Its large values and its
    rows in the archive are deleted, too; the sums of usage still include it.

    While clocks are more than an hour ahead of all that was seen before, nothing expires; if they are right,
    --accept-time says so, to the workers, too.
    """
    settings = load()
    if not settings.kept_for.bounded:
        raise CallerError("nothing expires: set TURNMILL_STORE_RETENTION, as 90d")
    if not dry_run:
        set_up(settings.log_level, settings.log_format)
    expired = in_store(lambda opened: _expire(Expiry(settings, opened), dry_run=dry_run, sure=accept_time))
    values = f"{many(expired.objects, 'large value')} of {many(expired.bytes, 'byte')}"
    archived = f", {many(expired.archived, 'row')} of the archive" if settings.archive is not None else ""
    what = f"{many(expired.threads, 'thread')} of {many(expired.turns, 'turn')}, {values}{archived}"
    click.echo(f"would go: {what}" if dry_run else f"gone: {what}")
    if expired.held:
        click.echo(f"{many(expired.held, 'thread')} held, and left: `turnmill threads hold` lists them")


async def _expire(expiry: Expiry, *, dry_run: bool, sure: bool) -> Expired:
    now = now_ms()
    if not sure and (believed := await believed_time(expiry.store, now)) < now:
        raise CallerError(
            f"this machine's time, {iso(now)}, is more than an hour past the latest that workers and agents agreed on, "
            f"{iso(believed)}: if it is right, add --accept-time"
        )
    expected = await expiry.would_go(now)
    if dry_run:
        return expected
    await believe(expiry.store, now)
    done, more = Expired(held=expected.held), True
    while more:
        step, more = await expiry.step(now)
        done += step
    return done


async def _sums(opened: ThreadStore, *, repair: bool) -> Compared:
    while await sum_up(opened):
        pass
    return await compare_sums(opened, repair=repair)


@store.command(short_help="Query the store's tables, with records unpacked.")
@click.argument("statement")
def sql(statement: str) -> None:
    """Run a SQL STATEMENT that only reads, and print its rows: a JSON object a line.

    Records of turns are stored packed; here they are JSON again. On SQLite `record_json(record)` is its text within the
    statement, too: SELECT json_extract(record_json(record), '$.run_id') FROM turns.
    """
    for row in in_store(partial(_rows, statement=statement)):
        click.echo(json_text.line(row))


async def _rows(opened: ThreadStore, statement: str) -> list[dict[str, Any]]:
    async with opened.only_reading() as connection:
        rows = (await connection.exec_driver_sql(statement)).mappings().all()
    return [{name: _readable(value) for name, value in row.items()} for row in rows]


def _readable(value: Any) -> Any:
    """Return a column's value for JSON: a record as its object, other bytes in hexadecimal digits."""
    if isinstance(value, bytes | memoryview):
        text = unpacked(bytes(value))
        return json_text.loads(text.decode()) if text.startswith(b"{") else text.hex()
    return value if value is None or isinstance(value, str | int | float | list | dict) else str(value)


@store.command(short_help="Bring a store from a backup up to date.")
def restore() -> None:
    """Play back to a store from a backup the changes since: of tokens, holds, webhooks, views, data sets and so on.

    Stop gateways and workers first. A command that was interrupted can be repeated. `turnmill replay` brings the turns.
    """
    settings = load()
    set_up(settings.log_level, settings.log_format)
    by = local_user()
    done = with_store(
        lambda opened: restoring.restore(
            settings, opened, partial(erase_all, settings, opened, by=by), partial(forget_tenant, settings, opened)
        )
    )
    click.echo("\n".join(f"{table}: {count:,}" for table, count in sorted(done.items())) or "nothing was missing")


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


async def _check(url: str) -> dict[str, Any]:
    async with ThreadStore(url) as opened:
        revision = await opened.revision()
        await opened.check()
        await opened.check_writing()
        counts = await count_rows(opened)
    names = ("threads", "turns", "runs", "interrupted")
    return {"store": without_password(url), "schema": revision, **{name: getattr(counts, name) for name in names}}


@click.group(cls=Group)
def archive() -> None:
    """Maintain the tables that TURNMILL_ARCHIVE=iceberg+… names."""


@archive.command(short_help="Join small files into large ones.")
def compact() -> None:
    """Join the small files of each day into large ones; safe while workers run.

    Older snapshots keep the small files until `expire` removes them.
    """
    done = asyncio.run(lake_of(load()).compact())
    for name, table in done.items():
        also = f"; {many(table.doubles, 'turn')} had rows of several days" if table.doubles else ""
        click.echo(f"{name}: {many(table.before, 'file')} before, {table.after:,} now{also}")


@archive.command("expire", short_help="Remove old snapshots, with their files.")
@click.option(
    "--older-than", metavar="DAYS", default=5.0, show_default=True, type=click.FloatRange(0), help="Minimum age."
)
def expire_snapshots(older_than: float) -> None:
    """Remove old snapshots with files that only they use, and files left by a crash; safe while workers run.

    The current snapshot stays, and so do those named by a tag or a branch.
    """
    done = asyncio.run(lake_of(load()).expire_snapshots(older_than * DAY))
    for name, table in done.items():
        click.echo(f"{name}: removed {many(table.snapshots, 'snapshot')}, {many(table.files, 'file')}")

"""`threadmill store`: the thread store's schema."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from pipeline.settings import load
from pipeline.stores import migrate as migrations
from pipeline.stores.sql import ThreadStore
from threadmill.settings import without_password


@click.group()
def store() -> None:
    """The thread store that THREADMILL_STORE names."""


@store.command(short_help="Bring the store's schema up to date.")
def migrate() -> None:
    """Bring the store's schema up to date; safe while workers run, and from several places at once.

    SQLite files are also migrated when they are opened; Postgres only here.
    """
    url = load().store_url
    before = asyncio.run(_migrate(url))
    change = "already up to date" if before == migrations.HEAD else f"was {before or 'empty'}"
    click.echo(f"{without_password(url)}: schema {migrations.HEAD}, {change}")


@store.command(short_help="Reach the store, and see that its schema fits.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def check(*, as_json: bool) -> None:
    """Reach the store, see that its schema fits, count what it holds; exit status 4 where it doesn't."""
    found = asyncio.run(_check(load().store_url))
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{found['store']}: schema {found['schema']}")
    click.echo("{threads} threads, {turns} turns of {runs} runs, {interrupted} interrupted".format(**found))


async def _migrate(url: str) -> str | None:
    async with ThreadStore(url) as opened:
        return await opened.migrate()


async def _check(url: str) -> dict[str, Any]:
    async with ThreadStore(url) as opened:
        revision = await opened.revision()
        await opened.check()
        counts = await opened.counts()
    return {
        "store": without_password(url),
        "schema": revision,
        "threads": counts.threads,
        "turns": counts.turns,
        "runs": counts.runs,
        "interrupted": counts.interrupted,
    }


commands = [store]

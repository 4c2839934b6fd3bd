"""`turnmill archive`: maintenance of an archive in Apache Iceberg tables."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

import click

from pipeline.cli.output import many
from pipeline.settings import load
from pipeline.stores.archive.configured import lake_of
from topics.thread_key import ThreadKey

DAY: Final = 86_400.0  # seconds


@click.group()
def archive() -> None:
    """Maintain the tables that TURNMILL_ARCHIVE=iceberg+… names."""


@archive.command(short_help="Join small files into large ones.")
def compact() -> None:
    """Join the small files of each day into large ones; safe while workers run.

    Older snapshots keep the small files until `expire` removes them.
    """
    done = asyncio.run(lake_of(load(), _none).compact())
    for name, found in done.items():
        also = f"; {many(found.doubles, 'turn')} had rows of several days" if found.doubles else ""
        click.echo(f"{name}: {many(found.before, 'file')} before, {found.after:,} now{also}")


@archive.command(short_help="Remove old snapshots, with their files.")
@click.option(
    "--older-than", metavar="DAYS", default=5.0, show_default=True, type=click.FloatRange(0), help="Minimum age."
)
def expire(older_than: float) -> None:
    """Remove old snapshots with files that only they use, and files left by a crash; safe while workers run.

    The current snapshot stays, and so do those named by a tag or a branch.
    """
    done = asyncio.run(lake_of(load(), _none).expire_snapshots(older_than * DAY))
    for name, found in done.items():
        click.echo(f"{name}: removed {many(found.snapshots, 'snapshot')}, {many(found.files, 'file')}")


async def _none(threads: Collection[ThreadKey]) -> set[ThreadKey]:
    """Return no thread: maintenance adds none, so none needs to be checked for deletion."""
    return set()

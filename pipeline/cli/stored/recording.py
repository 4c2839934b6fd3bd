"""The audit entries of a command, in the name of its user; stored when the command ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import click

from pipeline.observability.audit import Actor, Entry, acting, user_name
from pipeline.settings import load
from pipeline.stores.accounts.audit import add_audit
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore

HERE = "command line"


@contextmanager
def recorded() -> Iterator[None]:
    """Store the audit entries of the block when it ends, even if it fails."""
    settings, entries = load(), list[Entry]()
    before = acting.set(Actor(user_name(), address=HERE, keep=entries.append if settings.audit_retention else None))

    async def keep() -> None:
        async with await ThreadStore.open(settings.store_url) as store:
            await add_audit(store, entries, notify=settings.webhooks is not None)

    try:
        yield
    finally:
        acting.reset(before)
        if entries:
            try:
                asyncio.run(keep())
            except StoreError as error:
                click.echo(f"turnmill: {len(entries)} audit entries are in the log alone: {error}", err=True)

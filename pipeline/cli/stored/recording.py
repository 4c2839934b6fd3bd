"""The store of a command, and the audit entries in the name of its user, which are stored when the command ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from pipeline.observability.audit import Actor, Entry, acting, user_name
from pipeline.settings import load
from pipeline.stores.accounts.audit import add_audit
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore

HERE = "command line"
T = TypeVar("T")


def in_store(use: Callable[[ThreadStore], Awaitable[T]], **options: Any) -> T:
    """Return what `use` returns, called with the store; `options`: see `ThreadStore.open`."""

    async def run() -> T:
        async with await ThreadStore.open(load().store_url, **options) as store:
            return await use(store)

    return asyncio.run(run())


@contextmanager
def recorded() -> Iterator[None]:
    """Store the audit entries of the block when it ends, even if it fails."""
    settings, entries = load(), list[Entry]()
    before = acting.set(Actor(user_name(), address=HERE, keep=entries.append if settings.audit_retention else None))
    try:
        yield
    finally:
        acting.reset(before)
        if entries:
            try:
                in_store(lambda store: add_audit(store, entries, notify=settings.webhooks is not None))
            except StoreError as error:
                click.echo(f"turnmill: {len(entries)} audit entries are in the log alone: {error}", err=True)

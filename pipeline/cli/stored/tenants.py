"""`turnmill tenants`: erases all data of a tenant, and checks that nothing is left."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import partial

import click

from pipeline.cli.groups import Group
from pipeline.cli.output import many
from pipeline.cli.stored.selection import in_store, recorded
from pipeline.cli.stored.thread_view import plain
from pipeline.kafka.admin import describe_topics
from pipeline.kafka.topic_plan import Found
from pipeline.observability.audit import local_user
from pipeline.observability.logs import set_up
from pipeline.settings import load
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import Erased
from pipeline.stores.keeping.tenant_erasure import Left, erase_tenant, what_is_left
from pipeline.turns.times import iso
from turnmill.clock import now_ms
from turnmill.errors import BrokerError

WEEK_MS = "604800000"  # the broker's default of `segment.ms`


@click.group(cls=Group)
def tenants() -> None:
    """Erase a tenant, and look for remaining data."""


@tenants.command(short_help="Delete all data of a tenant.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Don't ask.")
def erase(name: str, *, yes: bool) -> None:
    """Delete a tenant's threads for good: turns, usage, sums, large values, and the archive's rows of them.

    Then look for remaining data, as `tenants check` does. NAME '' means the threads without a tenant.

    Later records of these threads are not stored. Held threads are not deleted, but named, with exit status 1. Stop the
    tenant's agents first. A command that was interrupted can be repeated.
    """
    if not yes:
        click.confirm(f"Delete all that is stored of the tenant {plain(name)!r} for good?", abort=True)
    settings = load()
    set_up(settings.log_level, settings.log_format)
    gone = 0

    def done(erased: Erased) -> None:
        nonlocal gone
        gone += len(erased.threads)
        click.echo(f"deleted {many(gone, 'thread')}")

    async def run(store: ThreadStore) -> Left:
        await erase_tenant(settings, store, name, local_user(), done)
        return await what_is_left(settings, store, name)

    with recorded():
        left = in_store(run)
    _say(name, left, partial(describe_topics, settings))


@tenants.command(short_help="Look for data of a tenant.")
@click.argument("name")
def check(name: str) -> None:
    """Show what is stored of a tenant, in any place; exit status 1 if there is anything.

    The topics are not read; it shows how long they retain their present records.
    """
    settings = load()
    _say(name, in_store(lambda store: what_is_left(settings, store, name)), partial(describe_topics, settings))


def _say(name: str, left: Left, topics: Callable[[], Coroutine[None, None, list[Found]]]) -> None:
    """Print what is left, and how long topics keep what they have; exit with status 1 if there is anything."""
    for key in left.held:
        click.echo(f"held, and left: {key.thread_id}")
    for kind, count in left.found.items():
        if count:
            click.echo(f"left: {kind}: {count:,}")
    click.echo(f"looked at: {', '.join(left.found)}")
    try:
        for topic in asyncio.run(topics()):
            click.echo(f"{topic.name}: {until(topic, now_ms())}")
    except BrokerError as error:
        click.echo(f"topics: {error}")
    if left.nothing:
        click.echo(f"nothing is stored of {plain(name)!r}")
        return
    click.echo(f"something is left of {plain(name)!r}")
    sys.exit(1)


def until(topic: Found, now: int) -> str:
    """Return, in words, how long a topic retains the records that it has at `now` (epoch ms)."""
    kept = int(topic.config.get("retention.ms", "-1"))
    if kept < 0:
        return "keeps what it has for ever: retention.ms is -1"
    if topic.partitions and all(p.begin is not None and p.begin == p.end for p in topic.partitions):
        return "has no records"
    # The broker deletes whole segments, once their last record is old enough.
    segment = int(topic.config.get("segment.ms", WEEK_MS))
    return f"may have something until {iso(now + kept)}, at the latest {iso(now + kept + segment)}"

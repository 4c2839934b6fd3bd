"""`turnmill replay`: assembles a time range of the events topic again, into the store or another one."""

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from pipeline.cli.options import Moment
from pipeline.cli.output import many, progress
from pipeline.observability.metrics import Metrics
from pipeline.settings import INLINE, Settings, load
from pipeline.stores.content.offload import Offload
from pipeline.stores.content.store import ContentStore, Ref
from pipeline.stores.database.keys import key_of
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.believed_time import believed_time
from pipeline.stores.threads.reading import erased_among
from pipeline.stores.turns import compare_turns, write_turns
from pipeline.turns.times import iso
from pipeline.worker.assemble.limits import limits_of, redaction_of
from pipeline.worker.assemble.outgoing_results import fits_inline
from pipeline.worker.repair.replay import Seen, Stretch, replayed
from topics import turn_record
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.clock import now_ms
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid
from turnmill.settings import without_password

BATCH_SIZE: Final = 500  # turn records in a transaction
SQLITE: Final = "sqlite:///"


@click.command(short_help="Assemble a time range of the events topic again.")
@click.option("--since", type=Moment(), help="Runs with a record at this time or later; by default all.")
@click.option("--until", type=Moment(), help="Runs with a record before this time; by default up to now.")
@click.option("--thread", "thread_id", help="Only this thread, by its id or the producer's conversation id.")
@click.option("--tenant", help="Only this tenant; empty: only threads without a tenant.")
@click.option(
    "--into", metavar="URL", help="Another store: sqlite:///path or postgresql://…; by default TURNMILL_STORE."
)
@click.option("--dry-run", is_flag=True, help="Print what would change, and store nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def replay(
    since: int | None,
    until: int | None,
    thread_id: str | None,
    tenant: str | None,
    into: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Assemble a time range of the events topic again, with the settings of the workers, and store the turns.

    TIME is the broker's time of records: ISO 8601 (UTC if without a time zone), or how long ago, as in 90s, 30m, 2h,
    7d. A run is replayed as a whole if any of its records is in the range. Runs whose beginning is no longer on the
    topic, and runs that are still open, are left out and named. It is safe while workers run: of two versions of a turn
    the store keeps the same one, whichever comes first.
    """
    if since is not None and until is not None and since >= until:
        raise CallerError(f"--since ({iso(since)}) must be before --until ({iso(until)})")
    ours = load()
    settings = ours if into is None else load(store=into, content=ours.content_url or INLINE)
    thread = thread_uuid(thread_id, tenant)[0] if thread_id is not None else None
    stretch = Stretch(since, until, thread, tenant)
    console = Console(stderr=True, highlight=False)
    with progress(console) as bar:
        task = bar.add_task("replaying", total=None)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        seen, counts = asyncio.run(_replay(settings, stretch, ours.store_url, advance, dry_run=dry_run))
    if as_json:
        click.echo(json.dumps({"turns": counts, "dry_run": dry_run, **dataclasses.asdict(seen)}))
        return
    _report(settings.store_url, seen, counts, dry_run=dry_run)


def _report(store_url: str, seen: Seen, counts: dict[str, int], *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    changing = ("changed", "new", "erased")
    listed = ", ".join(f"{counts[name]:,} {would if name in changing else ''}{name}" for name in counts)
    click.echo(f"{many(seen.records, 'record')} -> {without_password(store_url)}")
    click.echo(f"turns: {listed}")
    if seen.refused:
        click.echo(f"{many(seen.refused, 'record')} refused again, as the dead letters say; none was written again")
    if "late" in counts:
        click.echo("late: the store has events of these runs that the records read lack, so it keeps what it has")
    for count, names, why in (
        (seen.cut_runs, seen.cut, "left out, as their beginning lies before what could be read"),
        (seen.open_runs, seen.open, "left out, as they are still open"),
    ):
        if count:
            more = f" and {count - len(names):,} more" if count > len(names) else ""
            click.echo(f"{many(count, 'run')} {why}: {', '.join(names)}{more}")
    if seen.removed:
        click.echo(f"on {many(seen.removed, 'partition')} older records have been removed by the topic's retention")


async def _replay(
    settings: Settings, stretch: Stretch, original: str, advance: Callable[[int, int], object], *, dry_run: bool
) -> tuple[Seen, dict[str, int]]:
    """Return what was read, and the number of turns that were new, changed, unchanged, erased, late or expired.

    `original`: URL of the store that knows the erased threads, which a replay into another store leaves out, too.
    """
    seen, counts = Seen(), Counter[str](new=0, changed=0, unchanged=0, erased=0, late=0, expired=0)
    redaction = redaction_of(settings)
    contents = Unwritten.of(settings) if dry_run else ContentStore.of(settings)
    metrics = Metrics(settings.metric_series)
    offload = Offload(contents, settings.content_threshold, metrics) if contents.root is not None else None
    async with AsyncExitStack() as stack:
        url = settings.store_url
        if dry_run:
            store = await _existing(url)
        else:
            store = await ThreadStore.open(url, search=settings.search, prices=settings.price_list)
        if store is not None:
            await stack.enter_async_context(store)
        known = await _existing(original) if original != settings.store_url else None
        if known is not None:
            await stack.enter_async_context(known)
        waiting: list[TurnRecord] = []

        async def write() -> None:
            skipped = await erased_among(known, map(key_of, waiting)) if known is not None else set()
            records = [await _as_delivered(record, offload) for record in waiting if key_of(record) not in skipped]
            counts["erased"] += len(waiting) - len(records)
            waiting.clear()
            if store is None:
                counts["new"] += len({record["turn_id"] for record in records})
                return
            now = await believed_time(store, now_ms())
            result = await (compare_turns if dry_run else write_turns)(store, records, settings.kept_for, now)
            for key in () if dry_run else result.erased:  # as the store role does
                await contents.delete_thread(key)
            erased = sum(key_of(record) in result.erased for record in records)
            same = result.unchanged - erased - len(result.expired)
            counts.update(new=result.inserted, changed=result.updated, unchanged=same)
            counts.update(erased=erased, late=len(result.late), expired=len(result.expired))

        fits = fits_inline if offload is None else offload.fits
        turns = replayed(settings, limits_of(settings), stretch, redaction, seen, advance, fits)
        async with aclosing(turns):
            async for some in turns:
                waiting += some
                if len(waiting) >= BATCH_SIZE:
                    await write()
        await write()
    order = ("unchanged", "changed", "new")
    rare = [name for name in ("erased", "late", "expired") if counts[name]]
    return seen, {name: counts[name] for name in (*order, *rare)}


async def _existing(url: str) -> ThreadStore | None:
    """Return a store that exists; None for an SQLite file that is not there."""
    if url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists():  # noqa: ASYNC240  # once, at the start
        return None
    store = ThreadStore(url)
    await store.check()
    return store


async def _as_delivered(record: TurnRecord, offload: Offload | None) -> TurnRecord:
    """Return the record as the store role gets it from the turns topic: with references to large values."""
    value = turn_record.encode(record)
    if offload is not None and len(value) >= offload.threshold:
        value = await offload(value)
    return turn_record.decode(value)


class Unwritten(ContentStore):
    """A content store for dry runs, which returns references and writes nothing."""

    async def put(self, key: ThreadKey, data: bytes, media_type: str) -> Ref:
        """Return the reference that the object would have."""
        return self.ref(key, data, media_type)

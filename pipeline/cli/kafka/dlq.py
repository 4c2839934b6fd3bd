"""`turnmill dlq`: lists, shows and redrives refused records."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import click
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from pipeline.cli.groups import Group
from pipeline.cli.output import wide_console
from pipeline.cli.stored.selection import recorded
from pipeline.cli.stored.thread_view import plain
from pipeline.kafka.dead_letters import Filed, filed_letters
from pipeline.kafka.dead_letters import redrive as redrive_letters
from pipeline.observability.audit import audit, local_user, of
from pipeline.observability.logs import set_up
from pipeline.settings import load
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import erased_among
from topics.dead_letter import DeadLetter
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError, InvalidRecord, Reason
from turnmill.kafka.unpacking import is_batch, refused_records
from turnmill.settings import BrokerSettings
from turnmill.wire.envelope import loads

REASONS: Final = tuple(reason.value for reason in Reason)
BATCH_SIZE: Final = 1_000  # records in memory while they are sent
BATCH_BYTES: Final = 33_554_432


@click.group(cls=Group, short_help="List, show and redrive dead letters.")
def dlq() -> None:
    """List, show and redrive dead letters: records that could not be assembled, stored or delivered.

    A dead letter is named by its place on the dead-letters topic, PARTITION:OFFSET.
    """


@dlq.command("list")
@click.option("--reason", type=click.Choice(REASONS), help="Only those with this reason.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Number of letters, the newest.")
@click.option("--json", "as_json", is_flag=True, help="Print all of them, one JSON object per line.")
def list_(reason: str | None, limit: int, *, as_json: bool) -> None:
    """List dead letters, oldest first, and count them by reason."""
    counts, newest = asyncio.run(_overview(load(), reason, limit, as_json=as_json))
    if as_json:
        return
    console = wide_console()
    if not counts:
        console.print("no dead letters" + (f" with reason {reason}" if reason else ""))
        return
    table = Table("place", "refused at (UTC)", "reason", "redriven", "from", "detail", box=None, pad_edge=False)
    for column in table.columns[:5]:
        column.no_wrap = True
    for filed in newest:
        table.add_row(*_row(filed))
    console.print(table)
    listed = ", ".join(f"{name} {count:,}" for name, count in counts.most_common())
    console.print(f"{counts.total():,} dead letters: {escape(listed)}", soft_wrap=True)


@dlq.command(short_help="Show one dead letter, and why it was refused.")
@click.argument("position", metavar="PARTITION:OFFSET")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; key and value as text.")
def show(position: str, *, as_json: bool) -> None:
    """Show one dead letter: why it was refused, where it came from, and its value."""
    (filed,) = asyncio.run(_chosen(load(), {_position(position)}))
    if filed.letter is None:
        raise CallerError(f"{position} is no dead letter of Turnmill: its headers are not there")
    if as_json:
        click.echo(json.dumps(_fields(filed) | {"value": _text(filed.letter.value)}))
        return
    console = wide_console()
    for name, value in _fields(filed).items():
        console.print(Text(f"{name:12}", style="dim") + Text(plain(value)), soft_wrap=True)
    console.print()
    console.print(Text(plain(_indented(filed.letter.value))), soft_wrap=True)


@dlq.command(short_help="Publish dead letters again.")
@click.argument("places", metavar="[PARTITION:OFFSET]...", nargs=-1)
@click.option("--reason", type=click.Choice(REASONS), help="All with this reason.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
def redrive(places: Sequence[str], reason: str | None, *, dry_run: bool) -> None:
    """Publish dead letters again, with unchanged key and value, on the topic where they were refused.

    Use it once the cause is fixed, for instance by a newer worker that knows the dialect. The letters stay on the
    dead-letters topic; a record that is refused again is there twice. Turns that are stored already don't change.
    A batch that was too large is published again record by record. Letters of erased threads are left out, since
    nothing of these may be on the topics again. So are letters without a record (of a turn that another letter has):
    their detail says where the record is.
    """
    if bool(places) == bool(reason):
        raise CallerError("say which: either PARTITION:OFFSET…, or --reason; `turnmill dlq list` shows them")
    settings, chosen = load(), set(map(_position, places))
    with recorded():
        targets, left_out = asyncio.run(_redrive(settings, settings.store_url, reason, chosen, dry_run=dry_run))
        if not dry_run:
            set_up(settings.log_level, settings.log_format)
            for name in places or [f"reason {reason}"]:
                audit.info("dead letter %s redriven, by %s", name, local_user(), extra=of("dead-letter.redrive", name))
    where = ", ".join(f"{topic} ({number:,})" for topic, number in targets.items())
    done = "would be published again" if dry_run else "published again"
    rest = "".join(f"; {number:,} {what} left out" for what, number in left_out.items() if number)
    click.echo(f"{targets.total():,} {done}{f' to {where}' if where else ''}{rest}")


async def _overview(
    settings: BrokerSettings, reason: str | None, limit: int, *, as_json: bool
) -> tuple[Counter[str], list[Filed]]:
    """Return the number of letters by reason, and the newest `limit`. With `as_json`, print all of them instead."""
    counts, newest = Counter[str](), list[Filed]()
    async for filed in filed_letters(settings):
        if reason is not None and _reason(filed) != reason:
            continue
        counts[_reason(filed)] += 1
        if as_json:
            click.echo(json.dumps(_fields(filed)))
            continue
        newest.append(replace(filed, letter=replace(filed.letter, value=None)) if filed.letter else filed)
        if len(newest) >= 2 * limit:
            newest = sorted(newest, key=_time)[-limit:]
    return counts, sorted(newest, key=_time)[-limit:]


async def _chosen(settings: BrokerSettings, places: Collection[tuple[int, int]]) -> list[Filed]:
    """Return the letters at `places`, (partition, offset) each. Raises CallerError for a place without a letter."""
    letters = {(f.partition, f.offset): f async for f in filed_letters(settings) if (f.partition, f.offset) in places}
    missing = sorted(set(places) - set(letters))
    if missing:
        listed = ", ".join(f"{partition}:{offset}" for partition, offset in missing)
        raise CallerError(f"no dead letter at {listed}; `turnmill dlq list` shows those that are there")
    return list(letters.values())


async def _redrive(
    settings: BrokerSettings, store_url: str, reason: str | None, places: Collection[tuple[int, int]], *, dry_run: bool
) -> tuple[Counter[str], Counter[str]]:
    """Return the number of letters sent, by topic, and of those left out, by reason. Raises StoreError."""
    targets, left_out, waiting = Counter[str](), Counter[str](), list[DeadLetter]()

    async def send() -> None:
        async with await ThreadStore.open(store_url) as store:
            erased = await erased_among(store, {key for letter in waiting if (key := _thread(letter)) is not None})
        going = [letter for letter in waiting if _thread(letter) not in erased]
        left_out["of erased threads"] += len(waiting) - len(going)
        targets.update(letter.topic for letter in going)
        if not dry_run:
            await redrive_letters(settings, going)
        waiting.clear()

    size = 0
    async for filed in _letters(settings, reason, places):
        for letter in _records(filed, left_out):
            waiting.append(letter)
            size += len(letter.value or b"")
            if len(waiting) == BATCH_SIZE or size >= BATCH_BYTES:
                await send()
                size = 0
    if waiting:
        await send()
    return targets, left_out


def _records(letter: DeadLetter, left_out: Counter[str]) -> Iterator[DeadLetter]:
    """Yield a letter as it is, or with each of the records of the batch that it holds; count what is left out."""
    if letter.value == b"":
        left_out["without a record"] += 1
    elif not is_batch(letter.value or b""):
        yield letter
    else:
        try:
            for record in refused_records(letter.value or b""):
                if record is None:
                    left_out["of a batch, too large for a record,"] += 1
                else:  # a record with neither key nor value can't be sent
                    yield replace(letter, key=record.key, value=b"" if record.key is record.value else record.value)
        except ValueError as error:
            left_out[f"of a batch from where it can't be read ({error})"] += 1


def _thread(letter: DeadLetter) -> ThreadKey | None:
    """Return the thread that a record names; for an unreadable record, that of its key, without a tenant."""
    try:
        value = loads(letter.value or b"")
    except InvalidRecord:
        value = None
    named = value if isinstance(value, dict) else {"thread_id": (letter.key or b"").decode("utf-8", "replace")}
    thread, tenant = named.get("thread_id"), named.get("tenant")
    if not isinstance(thread, str):
        return None
    return ThreadKey.of(thread.lower(), tenant if isinstance(tenant, str) else None)


async def _letters(
    settings: BrokerSettings, reason: str | None, places: Collection[tuple[int, int]]
) -> AsyncIterator[DeadLetter]:
    for filed in await _chosen(settings, places) if places else ():
        if filed.letter is not None:
            yield filed.letter
    if reason is not None:
        async for filed in filed_letters(settings):
            if filed.letter is not None and filed.letter.reason == reason:
                yield filed.letter


def _position(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition(":")
    if not (partition.isdigit() and offset.isdigit()):
        raise CallerError(f"{text!r} is no place of a dead letter: PARTITION:OFFSET is expected, such as 3:17")
    return int(partition), int(offset)


def _reason(filed: Filed) -> str:
    return filed.letter.reason.value if filed.letter else "not ours"


def _time(filed: Filed) -> int:
    return filed.letter.time if filed.letter else 0


def _row(filed: Filed) -> tuple[str | Text, ...]:
    letter = filed.letter
    if letter is None:
        return filed.place, "", _reason(filed), "", "", "a record without the headers of a dead letter"
    texts = Text(f"{letter.topic}/{letter.partition}@{letter.offset}"), Text(plain(letter.detail))
    return filed.place, _when(letter), letter.reason.value, str(letter.redriven or ""), *texts


def _fields(filed: Filed) -> dict[str, Any]:
    letter = filed.letter
    if letter is None:
        return {"place": filed.place, "reason": _reason(filed)}
    facts = {name: getattr(letter, name) for name in ("reason", "detail", "topic", "partition", "offset")}
    size = len(letter.value or b"")
    rest = {"time": _when(letter), "redriven": letter.redriven, "key": _text(letter.key), "bytes": size}
    return {"place": filed.place, **facts, **rest}


def _when(letter: DeadLetter) -> str:
    return f"{datetime.fromtimestamp(letter.time / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _indented(data: bytes | None) -> str:
    """Return JSON indented, other bytes as text."""
    try:
        return json.dumps(loads(data or b""), indent=2, ensure_ascii=False)
    except InvalidRecord:
        return _text(data) or "(no value)"

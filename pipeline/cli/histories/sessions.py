"""`turnmill import --from claude-code | codex | …`: sessions to the events topic, or to standard output."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
from rich.console import Console

from pipeline.assembly.offline import assemble
from pipeline.cli.histories.session_files import Source, files_of, in_order, paths_of
from pipeline.cli.histories.session_import import Counts, File, Import, Output
from pipeline.cli.output import many, transfer
from pipeline.dialects import DIALECTS
from pipeline.dialects.transcript import RunOpened
from pipeline.policies.local_callers import LOOPBACK
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import answered_live, run_events
from pipeline.turns.thread_document import thread_document
from topics import json_text
from topics.json_text import Fields
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.clock import now_ms
from turnmill.errors import CallerError, TurnmillError
from turnmill.identity import thread_uuid
from turnmill.publish.publisher import Publisher
from turnmill.wire.envelope import VERSION

POLL_INTERVAL: Final = 1.0  # seconds
GROWING_SECONDS: Final = 86_400  # a file that was written since then may grow, and is held open
MAX_SHOWN: Final = 10  # lines that can't be read

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The sessions that are to be imported."""

    source: Source
    paths: tuple[Path, ...] = ()
    tenant: str | None = None
    printed: bool = False
    follow: bool = False


@dataclass(frozen=True, slots=True)
class Destination:
    """Where sessions go. `elsewhere`: the places on other machines, as far as the settings of this process say."""

    publisher: Callable[[], Publisher]
    store_url: str
    address: str
    elsewhere: Sequence[str]
    terminal_grace: float  # seconds; see the setting


def destination_of(settings: Settings) -> Destination:
    """Return where sessions go by the settings."""
    publisher = partial(Publisher, settings, spool=False)
    away = places_elsewhere(settings)
    return Destination(publisher, settings.store_url, settings.address, away, settings.terminal_grace)


def import_sessions(destination: Destination, wanted: Wanted, *, elsewhere: bool) -> None:
    """Import sessions, and say what became of them. Raises CallerError where they would leave this machine."""
    say = partial(Console(stderr=True, highlight=False).print, soft_wrap=True, markup=False)
    files = files_of(wanted.source, wanted.paths)
    if wanted.printed:
        printed = Printed()
        reading = Import(wanted.source, printed)
        asyncio.run(_read_all(reading, files, wanted))
        for document in printed.documents():
            click.echo(json_text.dumps(document))
        for text in remarks(reading.counts):
            say(text)
        _all_read(reading.counts)
        return
    away = destination.elsewhere
    if away and not elsewhere:
        raise CallerError(f"sessions would leave this machine, for {away[0]}: say --elsewhere if that is meant")
    if not away:
        say(f"to {destination.address}: nothing leaves this machine")
    _all_read(asyncio.run(publish_sessions(destination, wanted, files, say)))


def _all_read(counts: Counts) -> None:
    """Raise TurnmillError if anything was left out."""
    if counts.unread or counts.broken:
        left_out = ((len(counts.unread), "file"), (len(counts.broken), "line"))
        named = " and ".join(many(count, noun) for count, noun in left_out if count)
        raise TurnmillError(f"{named} can't be read, as each import will say: all others are imported")


def places_elsewhere(settings: Settings) -> list[str]:
    """Return the places on other machines to which sessions would go, as far as the settings of this process say."""
    if settings.publish_url:
        return [settings.publish_url]
    urls = filter(None, (settings.store_url, settings.archive, settings.content_url))
    hosts = [urlsplit(url).hostname for url in urls]
    return [*settings.brokers_elsewhere, *(host for host in hosts if host and host not in LOOPBACK)]


async def publish_sessions(destination: Destination, wanted: Wanted, files: Sequence[Path], say: Say) -> Counts:
    """Publish what isn't stored yet, say so, and with `follow` go on until this is cancelled. Return what was read."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(await ThreadStore.open(destination.store_url))
        publisher = await stack.enter_async_context(destination.publisher())
        topic = Topic(publisher, store, wanted.tenant)
        reading = Import(wanted.source, topic, min(2.0, destination.terminal_grace / 2))
        began = time.monotonic()
        followed = await _read_all(reading, files, wanted)
        await publisher.flush()
        counts = reading.counts
        runs = f"{many(counts.new, 'new run')}, {counts.known:,} stored before"
        say(f"{wanted.source.title}: {many(counts.files, 'file')}, {runs} ({time.monotonic() - began:.1f} s)")
        for text in remarks(counts):
            say(text)
        while wanted.follow:
            await asyncio.sleep(POLL_INTERVAL)
            await _read_on(reading, followed, wanted)
    return counts


def remarks(counts: Counts) -> Iterator[str]:
    """Yield what was not imported as it is in the files."""
    for file in counts.unread[:MAX_SHOWN]:
        yield f"not imported: {file}"
    for line in counts.broken[:MAX_SHOWN]:
        yield f"left out: {line} can't be read"
    if len(counts.broken) > MAX_SHOWN:
        yield f"and {len(counts.broken) - MAX_SHOWN:,} more lines"
    if counts.cut:
        yield f"{many(counts.cut, 'line')} had more than a record holds: long texts in them were cut, and say so"


@dataclass(slots=True, eq=False)
class Followed:
    """A file that may grow: its extent and its time when it was last read; `file`: where it was written lately."""

    size: int
    written: float  # epoch s
    file: File | None


async def _read_all(reading: Import, files: Sequence[Path], wanted: Wanted) -> dict[Path, Followed]:
    console = Console(stderr=True, highlight=False)
    followed: dict[Path, Followed] = {}
    with transfer(console) as bars:
        bar = bars.add_task(wanted.source.title, total=sum(path.stat().st_size for path in files))
        for path in await reading.stored_first(files):
            extent, written = wanted.source.kind(path).extent(path), path.stat().st_mtime
            followed[path] = Followed(extent, written, reading.open(path))
            await _read(reading, followed[path], wanted, lambda size: bars.advance(bar, size))
    return followed


async def _read_on(reading: Import, followed: dict[Path, Followed], wanted: Wanted) -> None:
    """Read what files have more than the last time, and new files."""
    sizes: dict[Path, int] = {}
    for path in paths_of(wanted.source, wanted.paths):
        with suppress(OSError):  # it may go at any time
            sizes[path] = wanted.source.kind(path).extent(path)
    grown = [path for path, size in sizes.items() if path not in followed or followed[path].size != size]
    for path in in_order(grown):
        entry = followed.setdefault(path, Followed(0, 0, None))
        again = entry.file is None or sizes[path] < entry.size  # it was written anew
        entry.size, entry.written = sizes[path], time.time()
        entry.file = reading.open(path) if again else entry.file
        await _read(reading, entry, wanted, lambda _: None)


async def _read(reading: Import, entry: Followed, wanted: Wanted, advance: Callable[[int], object]) -> None:
    if entry.file is None:
        return
    await reading.read(entry.file, advance)
    await reading.settle(entry.file, now_ms())
    await asyncio.sleep(0)  # whoever sends has its turn
    if not wanted.follow or entry.written < time.time() - GROWING_SECONDS:
        reading.close(entry.file)
        entry.file = None


@dataclass(frozen=True, slots=True)
class Topic:
    """Runs to the events topic; the store says which are there."""

    publisher: Publisher
    store: ThreadStore
    tenant: str | None

    async def stored(self, thread: str) -> Mapping[str, int]:
        """Return the number of stored events of each run of a thread."""
        return await run_events(self.store, self._key(thread))

    async def answered(self, thread: str) -> Sequence[int]:
        """Return when responses began in runs that came from the program itself, epoch ms."""
        return await answered_live(self.store, self._key(thread))

    def run(self, opened: RunOpened, dialect: str, first_seq: int) -> Output:
        """Begin a run, or go on with it."""
        names: dict[str, Any] = {"thread_id": opened.thread, "run_id": opened.run, "agent_id": opened.agent}
        options: dict[str, Any] = {"tenant": self.tenant, "info": opened.info, "first_seq": first_seq}
        return self.publisher.run(**names, dialect=dialect, **options)

    def _key(self, thread: str) -> ThreadKey:
        return ThreadKey.of(thread_uuid(thread, self.tenant)[0], self.tenant)


class Printed:
    """Runs as documents. All of them are held: what a session was forked into belongs to its thread."""

    def __init__(self) -> None:
        self._threads: dict[str, list[TurnRecord]] = defaultdict(list)

    async def stored(self, thread: str) -> Mapping[str, int]:
        """Return nothing: all is printed."""
        return {}

    async def answered(self, thread: str) -> Sequence[int]:
        """Return nothing, likewise."""
        return ()

    def run(self, opened: RunOpened, dialect: str, first_seq: int) -> Output:
        """Begin a run."""
        thread, external_id = thread_uuid(opened.thread)
        info = opened.info if external_id is None else {**opened.info, "external_id": external_id}
        names = {"thread_id": thread, "run_id": opened.run, "agent_id": opened.agent, "dialect": dialect}
        return Collected({"v": VERSION, **names, "seq": first_seq, "run": info}, self._threads[thread])

    def documents(self) -> Iterator[Fields]:
        """Yield the threads."""
        for thread, records in self._threads.items():
            yield thread_document(thread, records)


@dataclass(slots=True, eq=False)
class Collected:
    """A run whose turns go to `records` in the end."""

    head: Fields
    records: list[TurnRecord]
    events: list[tuple[Fields, int]] = field(default_factory=list)

    async def send(self, event: Fields, *, at: int | None = None) -> None:
        """Take an event."""
        self.events.append((event, at or 0))

    async def end(self, end: str = "complete", *, at: int | None = None) -> None:
        """Assemble the run."""
        self._assemble({"end": end})

    def leave(self) -> None:
        """Assemble the run as far as it came."""
        self._assemble({})

    def _assemble(self, more: Fields) -> None:
        started = self.events[0][1] if self.events else 0
        events, dt = [event for event, _ in self.events], [at - started for _, at in self.events]
        envelope = {**self.head, "ts": started, "events": events, "dt": dt, **more}
        self.records += assemble(DIALECTS[self.head["dialect"]], [envelope])[0]

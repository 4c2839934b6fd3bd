"""`turnmill demo`: publishes recorded runs on a fresh broker, and proves that nothing was lost."""

import asyncio
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import Progress
from rich.rule import Rule
from rich.table import Column, Table
from rich.text import Text

from pipeline.cli.dev.broker import Child, download_kafka, spawn
from pipeline.cli.dev.stage import lags
from pipeline.cli.files.publish import Summary, publish_all, repeated
from pipeline.cli.files.recordings import Recording, files_of, read
from pipeline.cli.output import UNKNOWN, dollars, progress, wide_console
from pipeline.cli.stored.thread_view import plain, view
from pipeline.cli.stored.threads import thread_table
from pipeline.devbroker import local
from pipeline.devbroker.file_lock import locked
from pipeline.devbroker.ports import free_ports
from pipeline.devbroker.processes import watchdog
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings, load
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads.reading import count_rows, find_threads, read_thread
from pipeline.stores.threads.summaries import ThreadPage
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.worker.repair.ledger import Ledger, take_stock
from turnmill.errors import BrokerError, CallerError
from turnmill.publish.publisher import Publisher
from turnmill.settings import PREFIX

IN_WHEEL: Final = Path(__file__).with_name("examples")
EXAMPLES: Final = IN_WHEEL if IN_WHEEL.is_dir() else Path(__file__).parents[3] / "examples"
RECORDINGS: Final = EXAMPLES / "fleet"  # agents with the wires of the AI SDK and of Pydantic AI
OF_WIRES: Final = EXAMPLES / "wires"  # one agent for each other wire
BROKEN: Final = EXAMPLES / "broken"  # what becomes dead letters
SHOWN_THREAD: Final = "trip-lisbon"
SHOWN_THREADS: Final = 12
FLEET_SIZE: Final = 60  # threads that run at the same time
BATCH_EVENTS: Final = 12  # events in a record
STORE_TIMEOUT: Final = 60.0  # seconds after the last record was published; 2 are usual


@dataclass(frozen=True, slots=True)
class Outcome:
    """The demo's figures. `seconds`: from the first record published to the last turn stored."""

    published: Summary
    seconds: float
    ledger: Ledger
    open_turns: int

    @property
    def balances(self) -> bool:
        """True if every published run is stored, dead or open."""
        known = self.ledger.stored + self.ledger.dead + self.open_turns
        return self.published.runs == self.ledger.runs == known


@click.command(short_help="See the whole pipeline at work on recorded runs.")
@click.option("--runs", type=click.IntRange(1), default=300, show_default=True, help="Runs to publish.")
@click.option("--keep", is_flag=True, help="Leave broker and worker running, so that you can look around.")
def demo(runs: int, *, keep: bool) -> None:
    """Start a broker and a worker, publish recorded runs of several agents, and show what is stored.

    It uses free ports and a folder of its own, so existing brokers and stores are not touched. Exits with 1 if a run is
    neither stored, nor a dead letter, nor open.
    """
    base = load()
    settings = settings_of_demo(base)
    recordings = _recordings(runs)
    began = time.monotonic()
    steps = Console(stderr=True, highlight=False)

    def say(text: str) -> None:
        steps.print(f"[dim]{time.monotonic() - began:5.1f} s[/] {text}", soft_wrap=True)

    download_kafka(settings.cache_folder, settings.maven_repository, steps, say)
    with _stage(settings, say, keep=keep) as start_worker:
        asyncio.run(apply_topics(settings))
        say(f"starting a worker, with metrics on http://127.0.0.1:{settings.port}/metrics")
        worker = start_worker()
        say(f"publishing {len(recordings):,} runs of {len({r.thread_id for r in recordings}):,} threads")
        with progress(steps) as bar:
            outcome = asyncio.run(_run(settings, recordings, worker, bar))
        say(f"all is stored; until the next demo, data and logs are in {settings.home}")
        asyncio.run(_report(settings, outcome))
        if keep:
            _what_next(settings, worker)
    if not outcome.balances:
        sys.exit(1)


def _recordings(runs: int) -> list[Recording]:
    """Return recordings of so many runs: first what becomes dead letters, once."""
    recordings, broken = recorded(OF_WIRES, RECORDINGS), recorded(BROKEN)
    times = math.ceil(runs / len(recordings))
    return list(islice(chain(broken, repeated(recordings, times, same_thread=False)), runs))


def recorded(*folders: Path) -> list[Recording]:
    """Return all recordings of some folders."""
    return [recording for file in files_of(folders) for recording in read(file, None, {}).recordings]


async def _run(settings: Settings, recordings: Sequence[Recording], worker: Child, bar: Progress) -> Outcome:
    """Publish, wait until all runs are stored, and count them."""
    sending = bar.add_task("publishing events", total=sum(recording.size for recording in recordings))
    storing = bar.add_task("storing runs", total=len(recordings))
    began = time.monotonic()
    async with await ThreadStore.open(settings.store_url) as store:
        publisher, advance = Publisher(settings, spool=False), partial(bar.advance, sending)
        publishing = asyncio.create_task(publish_all(publisher, recordings, None, FLEET_SIZE, BATCH_EVENTS, advance))
        try:
            while not publishing.done():
                await asyncio.wait([publishing], timeout=0.3)
                bar.update(storing, completed=(await count_rows(store)).runs)
        finally:
            while not publishing.done():  # a library's clean-up may swallow one cancellation
                publishing.cancel()
                await asyncio.wait([publishing], timeout=0.5)
        published = publishing.result()
        deadline = time.monotonic() + STORE_TIMEOUT
        while not await _all_read(settings) or await asyncio.to_thread(worker.open_turns) > 0:
            if time.monotonic() > deadline:
                raise BrokerError(f"not all is stored after {STORE_TIMEOUT:.0f} s: see {worker.log}")
            bar.update(storing, completed=(await count_rows(store)).runs)
            await asyncio.sleep(0.2)
        seconds = time.monotonic() - began
        bar.update(storing, completed=len(recordings))
        ledger = await take_stock(settings, store)
    return Outcome(published, seconds, ledger, await asyncio.to_thread(worker.open_turns))


async def _all_read(settings: Settings) -> bool:
    # Assemble comes first: the results of the records that it has committed are on the other roles' topics by then.
    return not any(row.lag for row in await lags(settings))


async def _report(settings: Settings, outcome: Outcome) -> None:
    console = wide_console()
    async with await ThreadStore.open(settings.store_url) as store:
        counts = await count_rows(store)
        page = await list_threads(store, 1000)
        shown = page.threads[:: max(1, len(page.threads) // SHOWN_THREADS)][:SHOWN_THREADS]
        _section(console, f"{counts.threads:,} threads, among them")
        console.print(thread_table(ThreadPage(shown, None)))
        keys = await find_threads(store, SHOWN_THREAD)
        document = await read_thread(store, keys[0]) if keys else None
        if document is not None:
            _section(console, "one of them")
            for piece in view(document):
                console.print(piece)
        _section(console, "tokens by model")
        console.print(await _usage_table(store))
    published, ledger = outcome.published, outcome.ledger
    _section(console, "throughput")
    console.print(
        f"{published.events:,} events in {published.records:,} records: published at "
        f"{published.events_per_second:,.0f} events/s, stored after {outcome.seconds:.1f} s "
        f"({published.events / outcome.seconds:,.0f} events/s from the publisher to the store)"
    )
    console.print(f"{counts.turns:,} turns, {counts.interrupted:,} of them interrupted")
    _section(console, "balance")
    parts = f"stored {ledger.stored:,} + dead letters {ledger.dead:,} + open {outcome.open_turns:,}"
    console.print(f"runs {published.runs:,} = {parts}", style="bold green" if outcome.balances else "bold red")
    if not outcome.balances:
        lost = ", ".join(f"{run} of thread {thread}" for _, thread, run in list(ledger.open_runs)[:5])
        console.print(f"that does not balance: {ledger.runs:,} runs are on the topic; missing: {plain(lost) or 'none'}")


async def _usage_table(store: ThreadStore) -> Table:
    numbers = (Column(name, justify="right") for name in ("responses", "input", "output", "total", "cost"))
    table = Table("model", "provider", *numbers, box=None, pad_edge=False)
    for row in (await usage_report(store, UsageQuery(("model", "provider")))).rows:
        used = row.figures
        table.add_row(
            *(Text(plain(row.group[name] or UNKNOWN)) for name in ("model", "provider")),
            *(f"{number:,}" for number in (used.requests, used.input_tokens, used.output_tokens, used.total_tokens)),
            dollars(used.cost_usd),
        )
    return table


def _section(console: Console, title: str) -> None:
    console.print()
    console.print(Rule(Text(title, style="bold"), align="left", style="dim"))


def _what_next(settings: Settings, worker: Child) -> None:
    command = _near(Path(sys.executable).with_name("turnmill"))
    lines = [f"export {name}={value}" for name, value in variables(settings).items()]
    wants = ["threads list", f"threads show {SHOWN_THREAD}", "dlq list", "doctor"]
    wants.append(f"publish {_near(EXAMPLES / 'weather.sse')} --thread my-own")
    click.echo("\n".join(["\nStill running. To look around:\n", *lines, *(f"{command} {want}" for want in wants)]))
    click.echo(f"\nTo stop it: kill {worker.process.pid}; {command} down")


def _near(path: Path) -> Path:
    """Return the path, relative to the working directory if it is below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


# ---- its own broker and worker


def settings_of_demo(base: Settings) -> Settings:
    """Return settings with free ports and a folder of its own, so that the demo touches no other broker or store.

    Without TURNMILL_HOME the folder is in the cache, since nobody expects a new one in the working directory.
    """
    broker, port = free_ports(2)
    cache = base.cache_folder
    home = (base.home if "home" in base.model_fields_set else cache).absolute() / "demo"
    mirror = base.model_dump(include={"maven_repository"}, exclude_unset=True)
    return Settings(home=home, cache=cache, brokers=f"127.0.0.1:{broker}", port=port, **mirror)


@contextmanager
def _stage(settings: Settings, say: Callable[[str], None], *, keep: bool) -> Iterator[Callable[[], Child]]:
    """Start a broker in a fresh folder; yield a function that starts the worker.

    Both are stopped after the block; with `keep`, only if the block fails. Without `keep`, a watchdog stops them even
    if this process is killed.
    """
    with ExitStack() as stack:
        elsewhere = f"set {PREFIX}HOME to another folder"
        try:
            stack.enter_context(locked(settings.home.with_name("demo.lock"), wait=False))
        except BlockingIOError:
            raise CallerError(f"another demo is running in {settings.home}: wait for it, or {elsewhere}") from None
        _make_room(settings)
        group = None
        if keep:
            local.start(settings, 1, progress=say)
            stack.callback(local.stop, settings)
        else:
            stack.enter_context(local.running(settings, 1, progress=say))
            group = stack.enter_context(watchdog())

        def start_worker() -> Child:
            log = settings.home / "worker.log"
            others = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
            environment = others | variables(settings)
            arguments = ["worker", "--processes", "1"]
            worker = spawn("worker", arguments, environment, port=settings.port, log=log, group=group)
            stack.callback(worker.stop)
            worker.wait_until_ready()
            return worker

        yield start_worker
        if keep:
            stack.pop_all()


def _make_room(settings: Settings) -> None:
    if any(local.status(settings).values()):
        stop = f"{PREFIX}HOME={settings.home} turnmill down stops its broker"
        raise CallerError(f"a demo that was kept is still running: {stop}")
    if settings.home.exists():
        if not (settings.home / "kafka").is_dir():
            raise CallerError(f"{settings.home} is not of a demo: move it away, or set {PREFIX}HOME to another folder")
        shutil.rmtree(settings.home)


def variables(settings: Settings) -> dict[str, str]:
    """Return the environment variables for these settings, without those at their defaults."""
    names = [name for name in Settings.model_fields if name in settings.model_fields_set]
    return {PREFIX + name.upper(): str(getattr(settings, name)) for name in names}

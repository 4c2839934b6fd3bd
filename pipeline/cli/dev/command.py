"""`turnmill dev`: the whole pipeline on this machine, with the dashboard, in the foreground."""

import asyncio
import random
import select
import signal
import sys
import termios
import threading
import time
import tty
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import click
from rich.console import Console
from rich.markup import escape

from pipeline.cli.dev.broker import download_kafka
from pipeline.cli.dev.demo import OF_WIRES, RECORDINGS, recorded
from pipeline.cli.dev.stage import Kills, Say, Stage, check_local, stage
from pipeline.cli.files.publish import publish_all
from pipeline.cli.files.recordings import Recording
from pipeline.cli.histories.session_files import SOURCES, files_of
from pipeline.cli.histories.sessions import Destination, Wanted, destination_of, publish_sessions
from pipeline.settings import load
from turnmill.errors import CallerError, TurnmillError
from turnmill.publish.publisher import Publisher

FLEET_SIZE: Final = 8  # of the fleet that talk at the same time
BATCH_EVENTS: Final = 8  # events in a record
POLL_INTERVAL: Final = 0.2  # seconds


@click.command(short_help="Run everything on this machine, with the dashboard.")
@click.option("--fleet", is_flag=True, help="Have recorded agents talk, so that the dashboard has something to show.")
@click.option("--mine", is_flag=True, help="Import the sessions of your coding agents, and follow them.")
@click.option("--open", "browser", is_flag=True, help="Open the dashboard in a browser.")
def dev(*, fleet: bool, mine: bool, browser: bool) -> None:
    """Start a broker, the topics, a worker and the gateway with its dashboard; Ctrl-C stops them all.

    Everything stays in TURNMILL_HOME, so the next time it goes on from where it was. It is for this machine alone:
    nobody has to sign in, and nothing listens on other addresses. `--mine` shows your own sessions of Claude Code,
    Codex, Gemini CLI, opencode and Copilot CLI, and goes on with them as they grow: nothing leaves this machine.
    """
    settings = load()
    check_local(settings)
    console = Console(stderr=True, highlight=False)
    mirror, dim = settings.maven_repository, partial(console.print, style="dim", soft_wrap=True)
    download_kafka(settings.cache_folder, mirror, console, dim)

    def say(what: str, more: str) -> None:
        console.print(f"  [green]✓[/] {what:<9} {more}", soft_wrap=True)

    with stage(settings, say) as running:
        if fleet:
            threading.Thread(target=_talk, args=[partial(Publisher, settings, spool=False)], daemon=True).start()
            say("fleet", f"{FLEET_SIZE} recorded agents at a time")
        if mine:
            threading.Thread(target=_import, args=[destination_of(settings), say], daemon=True).start()
        _welcome(console, running)
        if browser:
            webbrowser.open(running.url)
        kills = Kills(running, lambda words: console.print(f"  {words}", soft_wrap=True))
        _watch(running, kills)
        kills.stop()
        console.print("  stopping; the data stays", soft_wrap=True)


def _welcome(console: Console, running: Stage) -> None:
    base = f"{running.url}proxy"
    console.print(
        f"""
  [bold]Dashboard  {running.url}[/]

  In another terminal, your own agents:
    turnmill run -- python agent.py                          a program, unchanged; so are node, claude, codex, …
    turnmill import --from claude-code                       the sessions that it keeps here (codex, gemini-cli, …)
    export OPENAI_BASE_URL={base}/openai/v1       or its provider's address
    export ANTHROPIC_BASE_URL={base}/anthropic

  [dim]{"k kills the worker, and shows how it recovers; " if sys.stdin.isatty() else ""}Ctrl-C stops everything[/]
""",
        soft_wrap=True,
    )


def _watch(running: Stage, kills: Kills) -> None:
    """Return at Ctrl-C or SIGTERM. Raises BrokerError where the gateway ends, or a worker that nobody has killed."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    signal.signal(signal.SIGUSR1, lambda *_: kills.kill())  # the dashboard's button
    with _keys() as terminal:
        while not stopping.is_set():
            running.gateway.check()
            if not kills.under_way:
                running.worker.check()
            if not terminal:
                stopping.wait(POLL_INTERVAL)
            elif select.select([sys.stdin], [], [], POLL_INTERVAL)[0] and sys.stdin.read(1) == "k":
                kills.kill()


@contextmanager
def _keys() -> Iterator[bool]:
    """Have single keys come without Enter. Yield False where there is no terminal."""
    if not sys.stdin.isatty():
        yield False
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _import(destination: Destination, say: Say) -> None:
    """Import the sessions of all programs that have any here, and follow them until the process ends."""

    async def follow() -> None:
        sources = [source for source in SOURCES.values() if source.folder().exists()]
        if away := destination.elsewhere:
            raise CallerError(f"sessions would leave this machine, for {away[0]}: `turnmill import` can be told to")
        if sources:
            folders = " and ".join(escape(str(source.folder())) for source in sources)
            say("mine", f"reading {folders}: nothing leaves this machine")
        else:
            say("mine", "there are no sessions of " + ", ".join(source.title for source in SOURCES.values()))
        async with asyncio.TaskGroup() as group:
            for source in sources:
                wanted, files = Wanted(source, follow=True), files_of(source, ())
                group.create_task(publish_sessions(destination, wanted, files, lambda text: say("mine", escape(text))))

    try:
        asyncio.run(follow())
    except* (TurnmillError, OSError) as errors:
        say("mine", f"[red]stopped[/]: {escape(str(errors.exceptions[0]))}")


def _talk(publisher: Callable[[], Publisher]) -> None:
    """Publish the demo's recordings at the pace of a model, each time under new ids, until the process ends."""
    while True:
        again = conversations(time.strftime("%m%d-%H%M%S"))
        asyncio.run(publish_all(publisher(), again, 1.0, FLEET_SIZE, BATCH_EVENTS, lambda _: None))


def conversations(name: str) -> list[Recording]:
    """Return the demo's recordings in any order, with this name in their ids."""
    again = [recording.copy(name, same_thread=False) for recording in recorded(OF_WIRES, RECORDINGS)]
    random.shuffle(again)
    return again

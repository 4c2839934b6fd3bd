"""`threadmill worker`: run roles of the pipeline until a signal stops them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Sequence

import click
import uvloop

from pipeline.observability.logs import set_up
from pipeline.settings import Settings, load
from pipeline.worker import process_memory
from pipeline.worker.roles import ROLES, Role, default_roles, roles_named
from pipeline.worker.worker import Worker

STOP_DEADLINE = 20.0


@click.command()
@click.option(
    "--roles",
    help=f"Roles to run in this process, separated by commas, of {', '.join(ROLES)}; by default all, archive where "
    "THREADMILL_ARCHIVE is set.",
)
def worker(roles: str | None) -> None:
    """Assemble turns, count telemetry, store and archive. SIGTERM or Ctrl-C makes a last checkpoint and stops.

    A stop takes at most 20 seconds: where the broker is away, the worker then ends with status 75, and nothing is lost.
    """
    settings = load()
    set_up(settings)
    process_memory.one_heap()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(settings, default_roles(settings) if roles is None else roles_named(_listed(roles))))


def _listed(roles: str) -> list[str]:
    return [role.strip() for role in roles.split(",") if role.strip()]


async def run(settings: Settings, roles: Sequence[Role]) -> None:
    """Run these roles until a signal comes or one of them fails; then stop them."""
    running = Worker(settings, roles)
    stop_asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop_soon, stop_asked)
    giving_back = asyncio.ensure_future(process_memory.give_back())
    try:
        starting = asyncio.ensure_future(_serve(running))
        stopping = asyncio.ensure_future(stop_asked.wait())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        else:
            starting.cancel()
    finally:
        giving_back.cancel()
        await running.stop()


async def _serve(running: Worker) -> None:
    await running.start()
    process_memory.relax_collector()
    names = ", ".join(role.name for role in running.roles)
    click.echo(f"threadmill: {names}; http://{running.settings.host}:{running.port}", err=True)
    await running.wait()


def _stop_soon(stop_asked: asyncio.Event) -> None:
    """Ask for a stop, and exit with status 75 after STOP_DEADLINE: a dead broker would hold up a stop for ever.

    The unclean exit is safe, since records that are not committed are read again.
    """
    deadline = threading.Timer(STOP_DEADLINE, os._exit, [75])
    deadline.daemon = True
    deadline.start()
    stop_asked.set()


commands = [worker]

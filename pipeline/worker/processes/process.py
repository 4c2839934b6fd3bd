"""One process of a worker: its signals, its memory, and its front for health and metrics."""

import asyncio
import os
import signal
import threading
from functools import partial

import click
import uvloop

from pipeline.worker.host.worker import Worker
from pipeline.worker.processes import memory as process_memory
from pipeline.worker.processes.child import Child
from pipeline.worker.processes.health import HealthServer


def run(worker: Worker, stop_within: float, *, child: bool = False) -> None:
    """Run a worker's roles until a signal comes or one of them fails; then stop them.

    A child leaves health and metrics to its parent, and stops when the parent is dead.

    A stop that takes longer than `stop_within` seconds ends the process with status 75.
    """
    process_memory.share_heap()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(worker, stop_within, child=child))


async def _run(worker: Worker, stop_within: float, *, child: bool) -> None:
    stop_asked = asyncio.Event()
    stop = partial(_stop_soon, stop_asked, stop_within)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    health = HealthServer(worker.settings.host, worker.settings.port, worker)
    front = Child(worker, worker.metrics.registry, orphaned=stop) if child else health
    giving_back = asyncio.ensure_future(process_memory.give_back())
    try:
        starting = asyncio.ensure_future(_serve(worker, front))
        stopping = asyncio.ensure_future(stop_asked.wait())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        else:
            starting.cancel()
    finally:
        giving_back.cancel()
        await worker.stop()
        await front.stop()


async def _serve(worker: Worker, front: Child | HealthServer) -> None:
    port = await front.start()
    await worker.start()
    process_memory.relax_collector()
    if isinstance(front, Child):
        front.started()
    else:
        names = ", ".join(role.name for role in worker.roles)
        click.echo(f"turnmill: {names}; http://{worker.settings.host}:{port}", err=True)
    await worker.wait()


def _stop_soon(stop_asked: asyncio.Event, within: float) -> None:
    """Request a stop, and exit with status 75 if it takes too long: a dead broker would delay it for ever.

    The unclean exit is safe, since records that are not committed are read again.
    """
    if not stop_asked.is_set():  # a child gets Ctrl-C twice: from the terminal, and from its parent
        deadline = threading.Timer(within, os._exit, [75])
        deadline.daemon = True
        deadline.start()
        stop_asked.set()

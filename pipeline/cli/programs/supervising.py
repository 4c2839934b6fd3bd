"""Runs a program with its calls of models going through a proxy; passes on signals and the exit status."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from pipeline.cli.programs.addresses import VARIABLES, agent_of, arguments, environment
from pipeline.cli.programs.proxy import ProgramProxy
from pipeline.cli.programs.tee import tee
from turnmill.capture.program import environment as of_python
from turnmill.capture.providers import Providers
from turnmill.capture.runtime import Runtime
from turnmill.environment import load_settings
from turnmill.errors import CallerError
from turnmill.publish.publisher import Publisher

# A terminal sends the first two to the program itself, too.
OF_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)
PASSED: Final = (*OF_TERMINAL, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def supervise(program: str, command: Sequence[str], *, tees: bool = False) -> None:
    """Run the program at this path to its end, and exit with its status. Raises CallerError if it can't be started.

    `tees`: publish what it prints; its calls are not captured then.
    """
    settings = load_settings()
    agent = settings.capture_agent or agent_of(command)
    if tees:
        follow = partial(tee, publisher=Publisher(settings), agent=agent)
        _exit(asyncio.run(_child(program, command, dict(os.environ), follow)))
    runtime = Runtime(settings.model_copy(update={"capture_agent": agent}))
    runtime.prepare()
    hosts = settings.captured_hosts
    proxy = ProgramProxy(runtime.capture, Providers(hosts))
    try:
        status = asyncio.run(_run(program, command, proxy, hosts))
    finally:
        runtime.stop()
    if not proxy.calls:
        sys.stderr.write(
            f"turnmill: no call of {command[0]} to a model was seen: seen are those of Node's `fetch`, of Python, and "
            f"of programs that read {', '.join(VARIABLES)} (docs/capture.md)\n"
        )
    _exit(status)


def _exit(status: int) -> None:
    if status < 0:  # ended by a signal: end ourselves by the same one
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


async def _run(program: str, command: Sequence[str], proxy: ProgramProxy, hosts: dict[str, str]) -> int:
    async with proxy.serving() as address:
        variables = environment(of_python(os.environ), address, hosts)
        return await _child(program, arguments(command, os.environ, address), variables)


async def _child(
    program: str,
    command: Sequence[str],
    variables: dict[str, str],
    follow: Callable[[Process], Awaitable[None]] | None = None,
) -> int:
    """Run the program; return its status. `follow`: reads what it prints to the end."""
    loop = asyncio.get_running_loop()
    heard = asyncio.Queue[signal.Signals]()
    for number in PASSED:  # before the start: a signal may come during it
        loop.add_signal_handler(number, heard.put_nowait, number)
    try:
        child = await asyncio.create_subprocess_exec(
            *command, executable=program, env=variables, stdout=None if follow is None else PIPE
        )
    except OSError as error:
        raise CallerError(f"{command[0]} can't be started: {error.strerror}") from None
    passing = asyncio.create_task(_pass(heard, child))
    try:
        if follow is not None:
            await follow(child)
        return await child.wait()
    finally:
        passing.cancel()


async def _pass(heard: asyncio.Queue[signal.Signals], child: Process) -> None:
    while True:
        number = await heard.get()
        if number not in OF_TERMINAL or not _is_in_foreground():
            with suppress(ProcessLookupError):
                child.send_signal(number)


def _is_in_foreground() -> bool:
    """Return True if the terminal's signals reach the program, too, which is in our process group."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False

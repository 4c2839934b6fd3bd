"""Starts `turnmill` commands without an interpreter's start and all its imports for each: a process that has imported
what commands import waits for their arguments, and forks.

What it starts is what `python -m pipeline ARGUMENTS` would be: a process with arguments, variables, folder, files and
an end of its own. A test that must see how an interpreter starts, or another checkout's code, starts that itself. Where
variables differ that an interpreter may read at its start, or coverage is measured, `start` starts an interpreter, too.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from tests.support.places import ROOT
from turnmill.settings import PREFIX

NOT_IMPORTED: Final = {"bench", "demo", "dev", "down", "up"}  # commands that no test runs by this way
IMPORTED_LATE: Final = (  # what commands and roles import when they run
    *(
        f"pipeline.worker.{name}"
        for name in ("processes.process", "host.worker", "assemble.role", "sinks.metrics", "sinks.role")
    ),
    *(
        "pipeline.stores.database.migrations",
        "alembic.command",
        "aiosqlite",
        "asyncpg",
        "genai_prices",
        "turnmill.publish.delivery",
    ),
    *("faust.app", "faust.agents", "faust.tables.manager", "faust.web.drivers.aiohttp", "faust.worker"),
    *("faust.app.router", "faust.assignor", "faust.topics", "alembic.config"),
)
LARGEST: Final = 1 << 17  # bytes of a command with its variables
FILES: Final = 3


class Forked:
    """A process that the server has forked, with what tests use of subprocess.Popen."""

    def __init__(self, pid: int, ending: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ending = ending  # the end of a pipe through which its exit status comes

    def poll(self) -> int | None:
        return self._looked(0)

    def wait(self, timeout: float | None = None) -> int:
        found = self._looked(timeout)
        if found is None:
            raise subprocess.TimeoutExpired(["turnmill"], timeout or 0.0)
        return found

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _looked(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ending], [], [], timeout)[0]:
            self.returncode = int(os.read(self._ending, 16))
            os.close(self._ending)
        return self.returncode


Started = subprocess.Popen[bytes] | Forked


class _Server:
    """The server of this process, started when it is first asked for anything; it ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def fork(self, command: Mapping[str, Any], files: Sequence[int]) -> Forked:
        ours, theirs = os.pipe()
        try:
            with self._lock:
                if self._socket is None:
                    self._socket = _started()
                socket.send_fds(self._socket, [json.dumps(command).encode()], [*files, theirs])
                pid = int(self._socket.recv(16))
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return Forked(pid, ours)


def _started() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


_server: Final = _Server()


def start(
    arguments: Sequence[str], variables: Mapping[str, str], stdin: IO[bytes] | int, stdout: IO[bytes], stderr: IO[bytes]
) -> Started:
    """Start `turnmill ARGUMENTS` with these variables and files."""
    if _fit(variables):
        command = {"arguments": list(arguments), "variables": dict(variables), "folder": str(Path.cwd())}
        with Path(os.devnull).open("rb") as nothing:
            source = nothing if isinstance(stdin, int) else stdin
            return _server.fork(command, [source.fileno(), stdout.fileno(), stderr.fileno()])
    program = [sys.executable, "-m", "pipeline", *arguments]
    return subprocess.Popen(program, env=dict(variables), stdin=stdin, stdout=stdout, stderr=stderr)


def _fit(variables: Mapping[str, str]) -> bool:
    """Whether a process that differs from this one in these variables needs no interpreter of its own."""
    measured = any(name.startswith("COVERAGE_") for name in os.environ)
    differing = {name for name, _ in {*variables.items()} ^ {*os.environ.items()}}
    return not measured and all(name.startswith((PREFIX, "OPENAI_")) for name in differing)


# ---- in the server


class Command(NamedTuple):
    """What a forked process is to be."""

    arguments: list[str]
    variables: dict[str, str]
    folder: str
    files: list[int]


def serve(inbox: socket.socket) -> Command:
    """Fork a process for each command that comes. Returns in that process; in the server it never does."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests; they end, and this with them
    endings: dict[int, int] = {}
    while True:
        ready = select.select([inbox, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            _tell(endings)
        if inbox in ready:
            message, files, _, _ = socket.recv_fds(inbox, LARGEST, FILES + 1)
            if not message:
                sys.exit()
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                return Command(**json.loads(message), files=files[:FILES])
            endings[pid] = files.pop()
            for file in files:
                os.close(file)
            inbox.send(b"%d" % pid)


def _tell(endings: dict[int, int]) -> None:
    """Pass on the exit statuses of all that have ended."""
    while endings:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        ending = endings.pop(pid)
        with suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(ending, b"%d" % os.waitstatus_to_exitcode(status))
        os.close(ending)


def become(command: Command) -> None:
    """Be what an interpreter would be that was started with it."""
    for number, file in enumerate(command.files):
        os.dup2(file, number)
    os.closerange(FILES, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(command.folder)
    os.environ.clear()
    os.environ.update(command.variables)
    sys.orig_argv[:] = [sys.executable, "-m", "pipeline", *command.arguments]
    sys.modules["__main__"].__package__ = "pipeline"  # by which the command line names itself
    sys.argv[:] = [str(ROOT / "pipeline" / "__main__.py"), *command.arguments]


def import_all() -> None:
    from pipeline.__main__ import MODULES
    from turnmill.command_line import COMMANDS

    for name in sorted(COMMANDS.keys() - NOT_IMPORTED):
        import_module(MODULES[name].partition(":")[0])
    for name in IMPORTED_LATE:
        import_module(name)
    assert threading.active_count() == 1, "a process with threads can't fork"
    gc.collect()
    gc.freeze()  # else the first collection in each fork copies all pages


if __name__ == "__main__":
    import_all()
    become(serve(socket.socket(fileno=int(sys.argv[1]))))
    from pipeline.__main__ import main

    main()

"""The `turnmill` command: the table of all commands, and `run`, which needs only the client.

All other commands belong to turnmill-server, and work if that is installed. No other module of this package refers to
the server's modules, so a program without the server may have another module named `pipeline`.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from turnmill.errors import CallerError, TurnmillError
from turnmill.extras import CLIENT, install

SERVER: Final = "turnmill-server"
GROUP: Final = "turnmill.server"  # the group of the entry point for the server's command line
RUN: Final = """\
Usage: turnmill run [--proxy | --tee-stdout] [--] COMMAND [ARGUMENT]...

  Run COMMAND, and publish its calls to providers of models:
  `turnmill run -- python my_agent.py`, `turnmill run -- node agent.mjs`.

  A Python program publishes by itself. The calls of any other program go through a proxy on this machine, for that
  program alone. Signals are passed on to it, and its exit status is that of this command.

  --proxy        Use the proxy for a Python program, too, to capture its child processes.
  --tee-stdout   Publish what it prints, such as `codex exec --json`, and not its calls.
"""
USAGE: Final = """\
Usage: turnmill [OPTIONS] COMMAND [ARGS]...

  Turn the streams of AI agents into complete, canonical conversations.

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
"""


PROGRAMS: Final = "turnmill.programs"  # the group of the entry point by which the server runs programs not in Python
# Commands that start Python, besides Python itself and scripts that it runs.
PYTHONS: Final = frozenset({"conda", "hatch", "pdm", "pipenv", "poetry", "uv"})


class Command(NamedTuple):
    """The extra that installs a command (`pipeline/extras.py`), and its description in the list of commands."""

    extra: str
    does: str


COMMANDS: Final[dict[str, Command]] = {
    "alerts": Command("gateway", "List alerts, and which of them are on."),
    "answer": Command("gateway", "Answer a question that a thread waits for."),
    "archive": Command("archive", "Maintain the tables that TURNMILL_ARCHIVE=iceberg+… names."),
    "assemble": Command("tools", "Assemble recorded streams, without a broker."),
    "audit": Command("worker", "Show who changed or exported something."),
    "bench": Command("all", "Measure throughput, latency and memory on a local Kafka."),
    "budgets": Command("gateway", "List budgets, and how much of each is used."),
    "convert": Command("tools", "Convert documents between versions of ThreadProtocol."),
    "datasets": Command("worker", "List and change data sets: turns chosen under a name."),
    "demo": Command("demo", "See the whole pipeline at work on recorded runs."),
    "dev": Command("demo", "Run everything on this machine, with the dashboard."),
    "dlq": Command("worker", "List, show and redrive dead letters."),
    "doctor": Command("worker", "Check everything, and say what to do about problems."),
    "down": Command("demo", "Stop the development broker of TURNMILL_HOME, and keep its data."),
    "export": Command("worker", "Print threads, one JSON object a line."),
    "feedback": Command("gateway", "Show feedback on a thread, or the newest."),
    "gateway": Command("gateway", "Serve HTTP: ingest, threads, live streams, usage, dashboard."),
    "hash": Command("tools", "Print the canonical hash of each turn of a document."),
    "import": Command("tools", "Read histories of an SDK, or sessions of coding agents."),
    "mcp": Command("mcp", "Serve conversations and usage to agents, as MCP tools."),
    "mock": Command("worker", "Serve a stored run as the provider that answered it."),
    "publish": Command("tools", "Publish recorded runs to the events topic."),
    "replay": Command("worker", "Assemble a time range of the events topic again."),
    "rerun": Command("worker", "Send the request of an answer again, with changes."),
    "run": Command(CLIENT, "Run a program, and publish its calls of models."),
    "runs": Command("worker", "List open runs, or threads that wait for an answer."),
    "schema": Command("tools", "Print the JSON Schema of a thread document, or of a topic's records."),
    "search": Command("worker", "Search in conversations."),
    "settings": Command("tools", "Show every TURNMILL_* variable and its value."),
    "steer": Command("gateway", "Send a message to an open run."),
    "stop": Command("gateway", "Stop a run, or all open runs of a thread."),
    "store": Command("worker", "Maintain the thread store that TURNMILL_STORE names."),
    "tenants": Command("worker", "Erase a tenant, and look for remaining data."),
    "threads": Command("worker", "List, show and delete stored threads."),
    "tokens": Command("gateway", "Make, list, rotate and revoke tokens for gateways."),
    "topics": Command("worker", "List, create and describe the topics."),
    "up": Command("demo", "Start the development broker, a real Apache Kafka."),
    "usage": Command("worker", "Sum up tokens, cost, turns, errors and times."),
    "validate": Command("tools", "Check thread documents of ThreadProtocol 0.0.4 or 0.0.3."),
    "webhooks": Command("gateway", "List webhooks, and how many events wait for each."),
    "worker": Command("worker", "Assemble turns, count telemetry, store and archive."),
}


def main() -> None:
    """Run the server's command line if it is installed, else the client's.

    `run` is always the client's, so that a program doesn't wait for imports that it doesn't need.
    """
    try:
        server = None if sys.argv[1:2] == ["run"] else server_command()
        if server is not None:
            server.load()()
        else:
            client(sys.argv[1:])
    except TurnmillError as error:
        sys.stderr.write(f"turnmill: {error}\n")
        sys.exit(error.exit_code)


def server_command() -> EntryPoint | None:
    """Return the server's command line; None if the server is not installed.

    Raises CallerError if another module named `pipeline` comes before ours in `sys.path`.
    """
    command = next(iter(entry_points(group=GROUP)), None)
    if command is None:
        return None
    spec = find_spec("pipeline")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    if folder is None or not (folder.parent / "topics" / "catalog.py").exists():
        raise CallerError(
            f"the module `pipeline` is {folder}, not that of {SERVER}: keep the two in environments apart"
        )
    return command


def client(arguments: Sequence[str]) -> None:
    """Run a command of the client. Raises CallerError, which names what to install, for a command of the server."""
    match arguments:
        case [] | ["-h" | "--help", *_]:
            sys.stdout.write(USAGE + "".join(f"  {name:<10}{_line(command)}\n" for name, command in COMMANDS.items()))
        case ["--version", *_]:
            sys.stdout.write(f"turnmill, version {version('turnmill')}, client\n")
        case ["run"] | ["run", "--" | "--proxy" | "--tee-stdout"] | ["run", "-h" | "--help", *_]:
            sys.stdout.write(RUN)
        case ["run", "--proxy", "--", *command] | ["run", "--proxy", *command]:
            run(command, by_proxy=True)
        case ["run", "--tee-stdout", "--", *command] | ["run", "--tee-stdout", *command]:
            run(command, tees=True)
        case ["run", "--", *command] | ["run", *command]:
            run(command)
        case [name, *_] if name in COMMANDS:
            raise CallerError(f"`turnmill {name}` needs an extra of this package: {install(COMMANDS[name].extra)}")
        case [name, *_]:
            from difflib import get_close_matches  # noqa: PLC0415  # `run` needs none of it

            alike = get_close_matches(name, COMMANDS, 1)
            hint = f"is {alike[0]!r} meant?" if alike else "`turnmill --help` lists them"
            raise CallerError(f"there is no command {name!r}: {hint}")


def _line(command: Command) -> str:
    return f"(needs turnmill[{command.extra}])" if command.extra != CLIENT else command.does


def run(command: Sequence[str], *, by_proxy: bool = False, tees: bool = False) -> None:
    """Run a program and publish its model calls, or what it prints. Raises CallerError.

    A Python program replaces this process, unless its calls go through the proxy, or its output is published.
    """
    from turnmill.capture.program import environment, is_python  # noqa: PLC0415  # the list of commands needs none of it
    from turnmill.environment import load_settings  # noqa: PLC0415

    load_settings()  # report wrong settings here, once
    program = shutil.which(command[0])
    if program is None:
        raise CallerError(f"there is no program {command[0]!r}: give a command as you would type it, after `--`")
    if by_proxy or tees or not (Path(program).name in PYTHONS or is_python(Path(program))):
        supervise = next(iter(entry_points(group=PROGRAMS)), None) if server_command() is not None else None
        if supervise is not None and find_spec("aiohttp") is not None:
            supervise.load()(program, command, tees=tees)
        if tees:
            raise CallerError(f"`--tee-stdout` needs an extra of this package: {install('worker')}")
        sys.stderr.write(
            f"turnmill: what {command[0]} says to models is not seen: what is no Python needs {install('worker')}\n"
        )
    os.execve(program, list(command), environment(os.environ))  # noqa: S606  # that is what the command is for

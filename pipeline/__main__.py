"""The `turnmill` command."""

from __future__ import annotations

import gc
import logging
import sys
from importlib import import_module
from typing import Final, NamedTuple

import click

from pipeline.errors import TurnmillError
from pipeline.extras import CLIENT, missing, need
from topics import CORE


class Entry(NamedTuple):
    """A command: the module of pipeline.cli that holds it, loaded when it is called; the extra of the package that it
    needs (pipeline/extras.py); what it does, as `--help` says it without loading it.
    """

    module: str
    extra: str
    does: str


COMMANDS: Final[dict[str, Entry]] = {
    "archive": Entry("archive", "archive", "The tables that TURNMILL_ARCHIVE=iceberg+… names."),
    "assemble": Entry("assemble", CLIENT, "Assemble recorded streams, without a broker."),
    "bench": Entry("bench", "all", "Measure throughput, latency and memory on a local Kafka."),
    "convert": Entry("documents", CLIENT, "Convert documents between versions of ThreadProtocol."),
    "demo": Entry("demo", "demo", "See the whole pipeline at work on recorded runs."),
    "dev": Entry("dev", "demo", "Run everything on this machine, with the dashboard."),
    "dlq": Entry("dlq", "worker", "List, show and redrive dead letters."),
    "doctor": Entry("doctor", "worker", "See whether all is well, and what to do if not."),
    "down": Entry("broker", "demo", "Stop the development broker of TURNMILL_HOME; its data stays."),
    "export": Entry("threads", "worker", "Print threads, one JSON object a line."),
    "gateway": Entry("gateway", "gateway", "Serve HTTP: ingest, threads, live streams, usage, dashboard."),
    "hash": Entry("documents", CLIENT, "Print the canonical hash of each turn of a document."),
    "import": Entry("history", CLIENT, "Read histories of an SDK as threads."),
    "publish": Entry("publish", CLIENT, "Publish recorded runs to the events topic."),
    "replay": Entry("replay", "worker", "Assemble a stretch of the events topic again."),
    "run": Entry("run", CLIENT, "Run a program, and publish what it says to models."),
    "runs": Entry("runs", "worker", "List open runs, or threads that wait for an answer."),
    "schema": Entry("validate", CLIENT, "Print the JSON Schema of a thread document, or of a topic's records."),
    "search": Entry("search", "worker", "Search in what was said."),
    "settings": Entry("settings", CLIENT, "Show every TURNMILL_* variable and its value."),
    "store": Entry("store", "worker", "The thread store that TURNMILL_STORE names."),
    "tenants": Entry("tenants", "worker", "Erase a tenant, and look for what is left of it."),
    "threads": Entry("threads", "worker", "List, show and delete stored threads."),
    "topics": Entry("topics", "worker", "List, create and describe the topics."),
    "up": Entry("broker", "demo", "Start the development broker, a real Apache Kafka."),
    "usage": Entry("usage", "worker", "Sum up tokens, cost, turns, errors and times."),
    "validate": Entry("validate", CLIENT, "Check thread documents of ThreadProtocol 0.0.4 or 0.0.3."),
    "worker": Entry("worker", "worker", "Assemble turns, count telemetry, store and archive."),
}


class Commands(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """-> the commands' names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """-> the command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        entry = COMMANDS[cmd_name]
        if missing(entry.extra):
            return _absent(cmd_name, entry.extra)
        gc.disable()  # what is imported stays: to look for garbage in it, now or later, would be a fifth of the start
        try:
            module = import_module(f"pipeline.cli.{entry.module}")
        finally:
            gc.freeze()
            gc.enable()
        return next((command for command in module.commands if command.name == cmd_name), None)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them, which takes seconds."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, f"(needs turnmill[{one.extra}])" if missing(one.extra) else one.does)
                    for name, one in sorted(COMMANDS.items())
                ]
            )


def _absent(name: str, extra: str) -> click.Command:
    """Stands in for a command whose extra is not installed: however it is called, it says so."""
    return click.Command(
        name,
        callback=lambda: need(extra, f"`turnmill {name}`"),
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turnmill", message=f"%(prog)s, version %(version)s, core {CORE}")
def cli() -> None:
    """Turn the streams of AI agents into complete, canonical conversations.

    Settings come from TURNMILL_* variables: `turnmill settings` lists them.
    """


def main() -> None:
    """Run the command line; errors are one line, and the exit status says whose fault it is."""
    # Where a command sets up no log, its error says what a client library would have said in ten lines.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    try:
        cli(standalone_mode=False)
    except TurnmillError as error:
        click.echo(f"turnmill: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("turnmill: stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.filename is None:
            raise
        click.echo(f"turnmill: {error.filename}: {error.strerror}; is the path right, may it be written?", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

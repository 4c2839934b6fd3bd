"""The command line of the server: all commands of `turnmill.command_line`, each loaded when it is called."""

import gc
import logging
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Final

import click

from pipeline.cli.groups import Group
from pipeline.extras import missing, need
from topics import CORE
from turnmill.command_line import COMMANDS
from turnmill.errors import CallerError, TurnmillError

# Where each command is; `bench` is of a checkout alone.
MODULES: Final = {
    "alerts": "pipeline.cli.stored.listed:alerts",
    "answer": "pipeline.cli.open_runs.commands:answer",
    "archive": "pipeline.cli.stored.store:archive",
    "assemble": "pipeline.cli.files.assemble:assemble",
    "audit": "pipeline.cli.stored.audit:audit",
    "bench": "tests.bench.command:bench",
    "budgets": "pipeline.cli.stored.listed:budgets",
    "convert": "pipeline.cli.files.documents:convert",
    "datasets": "pipeline.cli.stored.datasets:datasets",
    "demo": "pipeline.cli.dev.demo:demo",
    "dev": "pipeline.cli.dev.command:dev",
    "dlq": "pipeline.cli.kafka.dlq:dlq",
    "doctor": "pipeline.cli.services.doctor:doctor",
    "down": "pipeline.cli.dev.broker:down",
    "export": "pipeline.cli.stored.export:export",
    "feedback": "pipeline.cli.stored.listed:feedback",
    "gateway": "pipeline.cli.services.gateway:gateway",
    "hash": "pipeline.cli.files.documents:hash_",
    "import": "pipeline.cli.histories.messages:import_",
    "mcp": "pipeline.cli.services.mcp:mcp",
    "mock": "pipeline.cli.mock.command:mock",
    "publish": "pipeline.cli.files.publish:publish",
    "replay": "pipeline.cli.kafka.replay:replay",
    "rerun": "pipeline.cli.rerun.command:rerun",
    "run": "pipeline.cli.programs.run:run",
    "runs": "pipeline.cli.open_runs.runs:runs",
    "schema": "pipeline.cli.files.documents:schema",
    "search": "pipeline.cli.stored.threads:search",
    "settings": "pipeline.cli.settings:settings",
    "steer": "pipeline.cli.open_runs.commands:steer",
    "stop": "pipeline.cli.open_runs.commands:stop",
    "store": "pipeline.cli.stored.store:store",
    "tenants": "pipeline.cli.stored.tenants:tenants",
    "threads": "pipeline.cli.stored.threads:threads",
    "tokens": "pipeline.cli.stored.tokens:tokens",
    "topics": "pipeline.cli.kafka.topics:topics",
    "up": "pipeline.cli.dev.broker:up",
    "usage": "pipeline.cli.stored.usage:usage",
    "validate": "pipeline.cli.files.documents:validate",
    "webhooks": "pipeline.cli.stored.listed:webhooks",
    "worker": "pipeline.cli.services.worker:worker",
}


class Commands(Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        if missing(extra := COMMANDS[cmd_name].extra):
            return _absent(cmd_name, lambda: need(extra, f"`turnmill {cmd_name}`"))
        gc.disable()  # what is imported stays: to look for garbage in it, now or later, would be a fifth of the start
        try:
            module, _, name = MODULES[cmd_name].partition(":")
            command: click.Command = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("tests"):
                raise
            return _absent(cmd_name, _only_in_a_checkout)
        finally:
            gc.freeze()
            gc.enable()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them, which takes seconds."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, f"(needs turnmill[{command.extra}])" if missing(command.extra) else command.does)
                    for name, command in sorted(COMMANDS.items())
                ]
            )


def _absent(name: str, say: Callable[[], None]) -> click.Command:
    """Stand in for a command that is not there: however it is called, it says why."""
    return click.Command(
        name,
        callback=say,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


def _only_in_a_checkout() -> None:
    raise CallerError("the benchmark is in no package: call it in a checkout of Turnmill, by `make bench`")


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

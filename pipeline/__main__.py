"""The `threadmill` command."""

from __future__ import annotations

import gc
import logging
import sys
from importlib import import_module
from typing import Final

import click

from pipeline.errors import ThreadmillError
from pipeline.extras import CLIENT, missing, need
from topics import CORE

# Command -> the module of pipeline.cli that holds it, loaded when it is asked for; and the extra of the package that it
# needs (pipeline/extras.py).
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "archive": ("archive", "archive"),
    "assemble": ("assemble", CLIENT),
    "bench": ("bench", "all"),
    "convert": ("documents", CLIENT),
    "demo": ("demo", "demo"),
    "dlq": ("dlq", "worker"),
    "doctor": ("doctor", "worker"),
    "down": ("broker", "demo"),
    "export": ("threads", "worker"),
    "gateway": ("gateway", "gateway"),
    "hash": ("documents", CLIENT),
    "import": ("history", CLIENT),
    "publish": ("publish", CLIENT),
    "replay": ("replay", "worker"),
    "run": ("run", CLIENT),
    "runs": ("runs", "worker"),
    "schema": ("validate", CLIENT),
    "search": ("search", "worker"),
    "settings": ("settings", CLIENT),
    "store": ("store", "worker"),
    "tenants": ("tenants", "worker"),
    "threads": ("threads", "worker"),
    "topics": ("topics", "worker"),
    "up": ("broker", "demo"),
    "usage": ("usage", "worker"),
    "validate": ("validate", CLIENT),
    "worker": ("worker", "worker"),
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
        module_name, extra = COMMANDS[cmd_name]
        if missing(extra):
            return _absent(cmd_name, extra)
        gc.disable()  # what is imported stays: to look for garbage in it, now or later, would be a fifth of the start
        try:
            module = import_module(f"pipeline.cli.{module_name}")
        finally:
            gc.freeze()
            gc.enable()
        return next((command for command in module.commands if command.name == cmd_name), None)


def _absent(name: str, extra: str) -> click.Command:
    """Stands in for a command whose extra is not installed: it is listed, and however it is called, it says so."""
    return click.Command(
        name,
        callback=lambda: need(extra, f"`threadmill {name}`"),
        short_help=f"(needs threadmill[{extra}])",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="threadmill", message=f"%(prog)s, version %(version)s, core {CORE}")
def cli() -> None:
    """Turn the streams of AI agents into complete, canonical conversations.

    Settings come from THREADMILL_* variables: `threadmill settings` lists them.
    """


def main() -> None:
    """Run the command line; errors are one line, and the exit status says whose fault it is."""
    # Where a command sets up no log, its error says what a client library would have said in ten lines.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    try:
        cli(standalone_mode=False)
    except ThreadmillError as error:
        click.echo(f"threadmill: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("threadmill: stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.filename is None:
            raise
        click.echo(f"threadmill: {error.filename}: {error.strerror}; is the path right, may it be written?", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

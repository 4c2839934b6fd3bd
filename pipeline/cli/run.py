"""`turnmill run`: a program whose model calls are published, with no line of it changed."""

from __future__ import annotations

import click

from turnmill import command_line


@click.command(
    short_help="Run a program, and publish what it says to models.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...]) -> None:
    """Run COMMAND, and publish what its Python programs say to the providers of their models.

        turnmill run -- python my_agent.py

    COMMAND takes the place of this process: signals reach it, and its exit status is the one of this command.
    """
    command_line.run(command)


commands = [run]

"""`turnmill run`: a program whose model calls are published, with no line of it changed."""

from __future__ import annotations

import os
import shutil

import click

from pipeline.errors import CallerError
from turnmill.capture.program import environment
from turnmill.environment import load_settings


@click.command(
    short_help="Run a program, and publish what it says to models.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...]) -> None:
    """Run COMMAND, whose Python programs publish what they say to the providers of their models:
    `turnmill run -- python my_agent.py`.

    COMMAND takes the place of this process: signals reach it, and its exit status is the one of this command.
    """
    load_settings()  # what is wrong with them is said here, once
    program = shutil.which(command[0])
    if program is None:
        raise CallerError(f"there is no program {command[0]!r}: give a command as you would type it, after `--`")
    os.execve(program, list(command), environment(os.environ))  # noqa: S606  # that is what the command is for


commands = [run]

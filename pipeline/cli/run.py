"""`turnmill run`: a program whose model calls are published, with no line of it changed."""

from __future__ import annotations

import click

from turnmill import command_line


@click.command(
    short_help="Run a program, and publish what it says to models.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--proxy", is_flag=True, help="Take the proxy for a Python program, too: what it starts is heard then.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], *, proxy: bool) -> None:
    r"""Run COMMAND, and publish what it says to the providers of its models.

    \b
        turnmill run -- python my_agent.py
        turnmill run -- node agent.mjs

    A Python program publishes by itself. What any other program says goes through a proxy on this machine, for that
    program alone. Signals reach it, and its exit status is the one of this command.
    """
    command_line.run(command, by_proxy=proxy)


commands = [run]

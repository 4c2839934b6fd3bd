"""`turnmill run`: runs an unchanged program, and publishes its calls of models."""

import click

from turnmill import command_line


@click.command(
    short_help="Run a program, and publish its calls of models.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--proxy", is_flag=True, help="Use the proxy for a Python program, too, to capture its child processes.")
@click.option(
    "--tee-stdout", is_flag=True, help="Publish what it prints, such as `codex exec --json`, and not its calls."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], *, proxy: bool, tee_stdout: bool) -> None:
    """Run COMMAND, and publish its calls to providers of models.

    \b
        turnmill run -- python my_agent.py
        turnmill run -- node agent.mjs

    A Python program publishes by itself. The calls of any other program go through a proxy on this machine, for that
    program alone. Signals are passed on to it, and its exit status is that of this command.
    """  # noqa: D301  # click's mark of a block that is not wrapped
    command_line.run(command, by_proxy=proxy, tees=tee_stdout)

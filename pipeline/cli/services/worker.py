"""`turnmill worker`: run roles of the pipeline until a signal stops them."""

import asyncio
import sys

import click

from pipeline.cli.options import Moment
from pipeline.observability.logs import set_up
from pipeline.settings import load
from pipeline.worker.host.roles import ROLES, default_roles, roles_named
from pipeline.worker.processes.parts import parts, usual_processes

STOP_TIMEOUT = 20.0
OVERDUE = 2.0  # additional seconds for a child process that misses its own deadline


@click.command()
@click.option(
    "--roles",
    help=f"Roles to run, separated by commas, of {', '.join(ROLES)}; by default all, archive if TURNMILL_ARCHIVE "
    "is set. They share one process unless --processes is given.",
)
@click.option(
    "--processes",
    metavar="N",
    type=click.IntRange(1),
    help="Number of processes for the roles; by default TURNMILL_PROCESSES, or two on two cores.",
)
@click.option(
    "--from",
    "since",
    type=Moment(),
    help="Send webhooks the events since this time, the first time that they run; by default from now on.",
)
@click.option("--child", hidden=True, help="Name of this process, set by the worker of several that started it.")
def worker(roles: str | None, processes: int | None, since: int | None, child: str | None) -> None:
    """Assemble turns, count telemetry, store and archive. SIGTERM or Ctrl-C stops it after a last checkpoint.

    A stop takes at most 20 seconds. If the broker is away, the worker then ends with status 75; nothing is lost.
    """
    settings = load()
    set_up(settings.log_level, settings.log_format, child)
    given = [role.strip() for role in (roles or "").split(",") if role.strip()]
    chosen = default_roles(settings) if roles is None else roles_named(given)
    if since is not None:
        from pipeline.worker.host.worker import begin  # noqa: PLC0415  # as below

        asyncio.run(begin(settings, chosen, since))
    if child is None:
        count = processes or settings.processes or (usual_processes() if roles is None else 1)
        several = parts(settings.store_url, chosen, count)
        if len(several) > 1:
            from pipeline.worker.processes import parent  # noqa: PLC0415  # one process needs none of it

            sys.exit(asyncio.run(parent.run(settings.host, settings.port, several, STOP_TIMEOUT + OVERDUE)))
    from pipeline.worker.host.worker import Worker  # noqa: PLC0415  # it loads Faust, which the parent of several does without
    from pipeline.worker.processes import process  # noqa: PLC0415  # as above

    process.run(Worker(settings, chosen), STOP_TIMEOUT, child=child is not None)

"""`turnmill gateway`: takes runs over HTTP; serves threads, live streams, usage and the dashboard."""

import asyncio
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Final, cast

import click
import uvloop

from pipeline.cli.groups import Group
from pipeline.gateway.access.principal import SCOPES, Scope
from pipeline.gateway.access.token_table import VARIABLE, new_token
from pipeline.gateway.serving.app import create_app
from pipeline.gateway.serving.server import STOP_TIMEOUT, Server, listen, url_of
from pipeline.kafka.admin import MissingTopics, check_topics
from pipeline.observability.logs import set_up
from pipeline.settings import Settings, load
from pipeline.worker.processes import memory as process_memory
from turnmill.errors import BrokerError

log = logging.getLogger(__name__)

SWITCH_AFTER: Final = 0.001  # seconds for which a computing thread may delay the event loop
# A collection of 50,000 objects takes 13 ms, at times 65, in which no reader gets anything.
YOUNG: Final = 5_000
MIDDLE: Final = 200
STOP_DEADLINE: Final = STOP_TIMEOUT + 15.0  # seconds; records not confirmed by then are in the publisher's spool


@click.group(
    cls=Group, invoke_without_command=True, short_help="Serve HTTP: ingest, threads, live streams, usage, dashboard."
)
@click.option(
    "--dev", hidden=True, type=click.Path(path_type=Path), help="The folder of `turnmill dev`, which sets this."
)
@click.pass_context
def gateway(context: click.Context, dev: Path | None) -> None:
    """Serve HTTP on TURNMILL_GATEWAY_HOST and TURNMILL_GATEWAY_PORT; `/docs` describes it.

    Without tokens, it serves this machine only. SIGTERM or Ctrl-C ends live streams, which resume elsewhere, and gives
    uploads ten seconds to finish.
    """
    if context.invoked_subcommand is None:
        settings = load()
        set_up(settings.log_level, settings.log_format)
        logging.getLogger("uvicorn").setLevel(logging.WARNING)  # it logs each step of its start and stop at INFO
        process_memory.share_heap()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings, dev))


@gateway.command(short_help="Make a token, and its line for the token file.")
@click.argument("name")
@click.option(
    "--scope", "scopes", multiple=True, type=click.Choice(SCOPES), default=("publish", "read"), show_default=True
)
@click.option("--tenant", help="Its tenant; without one, it may access all.")
def token(name: str, scopes: tuple[str, ...], tenant: str | None) -> None:
    """Make a token for NAME.

    It is printed once, to standard error; the line with its hash goes to standard output:

        turnmill gateway token acme-worker --scope publish --tenant acme >> tokens.jsonl
    """
    secret, line = new_token(name, tuple(cast("Scope", scope) for scope in dict.fromkeys(scopes)), tenant)
    click.echo(f"token: {secret}", err=True)
    click.echo(f"it is not kept anywhere; the gateway lets it in by this line in {VARIABLE}:", err=True)
    click.echo(line.model_dump_json(exclude_none=True))


async def serve(settings: Settings, dev: Path | None = None) -> None:
    """Serve until a signal; wait for a broker that is away.

    Raises CallerError if the broker refuses us, MissingTopics if it lacks topics, as under a wrong prefix.
    """
    app = create_app(settings, dev)
    try:
        await check_topics(settings)
    except MissingTopics:
        raise
    except BrokerError as error:
        log.warning("%s", error)
    listening = listen(settings.gateway_host, settings.gateway_port)

    def stopping() -> None:
        deadline = threading.Timer(STOP_DEADLINE, os._exit, [75])
        deadline.daemon = True
        deadline.start()

    process_memory.relax_collector(YOUNG, MIDDLE)
    sys.setswitchinterval(SWITCH_AFTER)  # queries run in threads, while live readers wait for the loop
    click.echo(f"turnmill: gateway; {url_of(listening)}", err=True)
    giving_back = asyncio.create_task(process_memory.give_back())
    try:
        await Server(app, stopping).serve(sockets=[listening])
    finally:
        giving_back.cancel()

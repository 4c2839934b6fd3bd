"""`threadmill up` and `threadmill down`: the development broker."""

from __future__ import annotations

import time

import click
from rich.console import Console

from pipeline.devbroker import local
from pipeline.errors import CallerError
from pipeline.settings import load


@click.command("up", short_help="Start the development broker, a real Apache Kafka.")
@click.option(
    "--brokers", type=click.Choice(["1", "3"]), help="Number of brokers; by default as last time, at first 1."
)
def up(brokers: str | None) -> None:
    """Start the development broker: Apache Kafka on the first address of THREADMILL_BROKERS.

    It runs until `threadmill down`; data and logs are in THREADMILL_HOME. The first time, Maven downloads Kafka's
    jars into THREADMILL_CACHE, unless KAFKA_HOME is set.
    """
    settings = load()
    if settings.security_protocol != "PLAINTEXT":
        raise CallerError(
            "the development broker has neither TLS nor logins: unset "
            f"THREADMILL_SECURITY_PROTOCOL={settings.security_protocol}"
        )
    console = Console(highlight=False)
    began = time.monotonic()
    with console.status("starting") as status:
        cluster = local.start(settings, int(brokers) if brokers else None, progress=status.update)
    many = "1 broker" if len(cluster.nodes) == 1 else f"{len(cluster.nodes)} brokers"
    if cluster.started:
        console.print(f"Kafka is ready on {cluster.bootstrap} ({many}, {time.monotonic() - began:.1f} s)")
    else:
        console.print(f"Kafka runs already on {cluster.bootstrap} ({many})")
    console.print(f"Data and logs: {settings.home / 'kafka'}; `threadmill down` stops it.", soft_wrap=True)


@click.command("down")
def down() -> None:
    """Stop the development broker of THREADMILL_HOME; its data stays."""
    settings = load()
    console = Console(highlight=False)
    with console.status("stopping"):
        stopped = local.stop(settings)
    console.print("Kafka is stopped." if stopped else "No development broker was running.")


commands = [up, down]

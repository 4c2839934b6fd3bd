"""`turnmill up` and `turnmill down`: the development broker."""

from __future__ import annotations

import time
from pathlib import Path

import click
from rich.console import Console

from pipeline.cli.progress import transfer
from pipeline.devbroker import local
from pipeline.devbroker.jars import Progress, jars
from pipeline.devbroker.java import java
from pipeline.settings import load
from turnmill.errors import CallerError


@click.command("up", short_help="Start the development broker, a real Apache Kafka.")
@click.option(
    "--brokers", type=click.Choice(["1", "3"]), help="Number of brokers; by default as last time, initially 1."
)
def up(brokers: str | None) -> None:
    """Start the development broker: Apache Kafka on the first address of TURNMILL_BROKERS.

    It runs until `turnmill down`; data and logs are in TURNMILL_HOME. The first time, Kafka's jars are downloaded
    into TURNMILL_CACHE, unless KAFKA_HOME is set.
    """
    settings = load()
    if settings.security_protocol != "PLAINTEXT":
        raise CallerError(
            "the development broker has neither TLS nor logins: unset "
            f"TURNMILL_SECURITY_PROTOCOL={settings.security_protocol}"
        )
    console = Console(highlight=False)
    download_kafka(settings.cache_folder, settings.maven_repository, console, console.print)
    began = time.monotonic()
    with console.status("starting") as status:
        cluster = local.start(settings, int(brokers) if brokers else None, progress=status.update)
    many = "1 broker" if len(cluster.nodes) == 1 else f"{len(cluster.nodes)} brokers"
    if cluster.started:
        console.print(f"Kafka is ready on {cluster.bootstrap} ({many}, {time.monotonic() - began:.1f} s)")
    else:
        console.print(f"Kafka runs already on {cluster.bootstrap} ({many})")
    console.print(f"Data and logs: {settings.home / 'kafka'}; `turnmill down` stops it.", soft_wrap=True)


def download_kafka(cache: Path, mirror: str | None, console: Console, say: Progress) -> None:
    """Download missing jars of Kafka, with a progress bar. Raises CallerError, also without Java."""
    java()
    with transfer(console) as bar:
        task = bar.add_task("downloading Kafka", total=None, visible=False)

        def received(have: int, total: int) -> None:
            bar.update(task, completed=have, total=total, visible=True)

        jars(cache, mirror, say, received)


@click.command("down")
def down() -> None:
    """Stop the development broker of TURNMILL_HOME, and keep its data."""
    settings = load()
    console = Console(highlight=False)
    with console.status("stopping"):
        stopped = local.stop(settings)
    console.print("Kafka is stopped." if stopped else "No development broker was running.")

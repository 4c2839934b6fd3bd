"""`turnmill up` and `turnmill down`: the development broker; and the processes that `demo` and `dev` start.

These log to files, and are ready when they answer.
"""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from pipeline.cli.output import many, transfer
from pipeline.devbroker import local
from pipeline.devbroker.jars import Progress, jars
from pipeline.devbroker.java import java
from pipeline.devbroker.processes import last_lines
from pipeline.settings import load
from turnmill.errors import BrokerError, CallerError

READY_TIMEOUT: Final = 60.0  # seconds; 3 are usual
STOP_TIMEOUT: Final = 25.0  # seconds; a worker's own limit is 20


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
    brokers_there = many(len(cluster.nodes), "broker")
    if cluster.started:
        console.print(f"Kafka is ready on {cluster.bootstrap} ({brokers_there}, {time.monotonic() - began:.1f} s)")
    else:
        console.print(f"Kafka runs already on {cluster.bootstrap} ({brokers_there})")
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


@dataclass(frozen=True, slots=True)
class Child:
    """A worker or a gateway in a process of its own. `port`: where it answers `/readyz` and `/metrics`."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def check(self) -> None:
        """Raise BrokerError with the last lines of its log if the process has ended."""
        code = self.process.poll()
        if code is not None:
            raise BrokerError(f"the {self.name} ended with exit status {code}:\n{last_lines(self.log)}")

    def ready(self) -> str | None:
        """Return None if /readyz answers 200, else the reason. Raises BrokerError if the process has ended."""
        self.check()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2):
                return None
        except urllib.error.HTTPError as error:
            return "; ".join(json.loads(error.read())["reasons"])
        except OSError:
            return "no answer"

    def wait_until_ready(self) -> None:
        """Wait until it is ready. Raises BrokerError if the process ends, or after READY_TIMEOUT."""
        deadline = time.monotonic() + READY_TIMEOUT
        while (reasons := self.ready()) is not None:
            if time.monotonic() > deadline:
                after = f"after {READY_TIMEOUT:.0f} s ({reasons})"
                raise BrokerError(f"the {self.name} is not ready {after}:\n{last_lines(self.log)}")
            time.sleep(0.1)

    def open_turns(self) -> int:
        """Return the number of turns that a worker is assembling, from its metrics."""
        self.check()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            samples = [sample for family in families for sample in family.samples]
        return int(sum(sample.value for sample in samples if sample.name == "turnmill_open_turns"))

    def stop(self) -> None:
        """Stop it in an orderly way; kill it if it does not end within STOP_TIMEOUT."""
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def spawn(
    name: str, arguments: Sequence[str], environment: Mapping[str, str], *, port: int, log: Path, group: int | None
) -> Child:
    """Start `turnmill ARGUMENTS`. `group`: the process group of a watchdog, None for a session of its own."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "pipeline", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            process_group=group,
            start_new_session=group is None,
        )
    return Child(name, process, port, log)

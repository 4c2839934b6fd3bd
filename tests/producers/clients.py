"""Real clients of Kafka: installed by their pins into .cache, each writes records that it is given to a topic.

Node's are pinned by node/package-lock.json, Go's by go/go.sum, Rust's by rust/Cargo.lock, Python's in
tests/sdks/python_sdks.py; Java's is of the jars of the development broker.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from pipeline.devbroker.file_lock import locked
from pipeline.devbroker.jars import jars
from tests.sdks.python_sdks import environment
from tests.support import npm
from tests.support.places import CACHE, ROOT
from topics.catalog import Topic
from turnmill.settings import BrokerSettings

HERE: Final = Path(__file__).parent
HOME: Final = ROOT / ".cache" / "producers"
WITHIN: Final = 300  # seconds

Record = tuple[str | None, str]  # key, value


@cache
def node(program: str) -> list[str]:
    """Return the command that runs a program of the folder `node`."""
    return ["node", str(npm.installed(HERE / "node", "producers/node") / program)]


@cache
def go() -> list[str]:
    """Return the command of the program in Go; built where its sources have changed."""
    program = shutil.which("go")
    assert program is not None, "Go 1.26 or newer is needed: https://go.dev/doc/install"
    shared = ROOT / ".cache" / "go"
    told = {**os.environ, "GOMODCACHE": str(shared / "mod"), "GOCACHE": str(shared / "build"), "GOFLAGS": "-modcacherw"}
    HOME.mkdir(parents=True, exist_ok=True)
    with locked(HOME / "go.lock"):
        subprocess.run([program, "build", "-o", HOME / "producers", "."], cwd=HERE / "go", env=told, check=True)
    return [str(HOME / "producers")]


@cache
def rust() -> list[str]:
    """Return the command of the program in Rust; built where its sources have changed, librdkafka with it."""
    program = shutil.which("cargo")
    assert program is not None, "cargo 1.74 or newer is needed: https://rustup.rs"
    told = {**os.environ, "CARGO_TARGET_DIR": str(HOME / "rust")}
    HOME.mkdir(parents=True, exist_ok=True)
    with locked(HOME / "rust.lock"):
        command = [program, "build", "--quiet", "--locked"]
        subprocess.run(command, cwd=HERE / "rust", env=told, check=True)
    return [str(HOME / "rust" / "debug" / "producers")]


@cache
def java(program: str) -> list[str]:
    """Return the command that runs a program of the folder `java`."""
    libs = jars(CACHE, None, lambda _: None)
    return ["java", "-cp", f"{libs}/*", str(HERE / "java" / f"{program}.java")]


@cache
def python(program: str, needs: str) -> list[str]:
    """Return the command that runs a program of this folder in the environment `needs` of SDKS."""
    return [str(environment(needs)), str(HERE / program)]


def run(command: Sequence[str], *arguments: str) -> str:
    """Run a command to its end, and return what it prints."""
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=WITHIN)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write(client: str, settings: BrokerSettings, topic: Topic, records: Sequence[Record], folder: Path) -> None:
    """Write records to a topic, in their order, with a client of CLIENTS."""
    made = CLIENTS[client]
    file = folder / f"{client}.records"
    if made.tabbed:
        file.write_text("".join(f"{key or ''}\t{value}\n" for key, value in records))
    else:
        file.write_text("".join(json.dumps({"key": key, "value": value}) + "\n" for key, value in records))
    place = (settings.brokers, topic.full_name(settings.topic_prefix), str(file))
    run([*made.command(), *made.before, *place, *made.options])


@dataclass(frozen=True, slots=True)
class Client:
    """How a client is run: its command, then `before`, the brokers, the topic, a file of records, and `options`."""

    command: Callable[[], list[str]]
    before: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    tabbed: bool = False  # Java has no JSON


def _javas(*options: str) -> Client:
    return Client(partial(java, "Produce"), options=options, tabbed=True)


def _librdkafka(*options: str) -> Client:
    return Client(partial(python, "librdkafka.py", "confluent-kafka"), options=options)


def _rusts(*options: str) -> Client:
    return Client(rust, options=options)


def _nodes(name: str) -> Client:
    return Client(partial(node, "produce.mjs"), (name,))


def _gos(name: str) -> Client:
    return Client(go, (name,))


# By the name of the client, and of what was set where it is not as it comes.
CLIENTS: Final[Mapping[str, Client]] = {
    "java": _javas(),
    "librdkafka": _librdkafka(),
    "librdkafka-murmur2": _librdkafka("partitioner=murmur2_random"),
    "rdkafka": _rusts(),
    "rdkafka-murmur2": _rusts("partitioner=murmur2_random"),
    **{name: _nodes(name) for name in ("kafkajs", "kafkajs-gzip", "platformatic", "platformatic-compatible")},
    **{
        name: _gos(name)
        for name in (
            *("sarama", "sarama-java", "franz-go"),
            *("kafka-go", "kafka-go-murmur2", "kafka-go-hash", "kafka-go-crc32"),
        )
    },
}

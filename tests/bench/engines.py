"""The raw read and other engines with the same job: programs of their own, which print their figures as JSON."""

import asyncio
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

import orjson

from tests.bench import kafka_streams
from tests.bench.load_topics import Site
from tests.bench.result import Measured
from tests.bench.worker import environment
from topics import catalog
from turnmill.errors import BrokerError

PROGRAM_WITHIN = 180.0  # seconds
FAUST_RECORDS: Final = 40_000  # a share of the load is enough to measure its rate
QUIX_RECORDS: Final = 400_000


async def raw(site: Site) -> Measured:
    """The raw read, from the first fetch to the last record."""
    return await _python("raw_reader", site, site.load.events)


async def stock_faust(site: Site) -> Measured:
    """Stock Faust, from the first record to the last of its share."""
    events = min(site.load.events, FAUST_RECORDS * site.load.per_record)
    folder = site.settings.home / "stock-faust"
    return await _python("stock_faust", site, await _output(site, "faust"), folder, site.settings.partitions, events)


async def quix(site: Site) -> Measured:
    """Quix Streams, from the first record to the last of its share."""
    events = min(site.load.events, QUIX_RECORDS * site.load.per_record)
    return await _python("quix_state", site, await _output(site, "quix"), site.settings.home / "quix", events)


async def streams(site: Site) -> Measured:
    """Kafka Streams, from the first record to the last. This includes the JVM's warm-up, as after each start."""
    command = await asyncio.to_thread(kafka_streams.command, site.settings)
    output, folder = await _output(site, "streams"), site.settings.home / "kafka-streams"
    arguments = (site.settings.brokers, site.topic(catalog.EVENTS), output, folder, site.load.events)
    return await _run("Kafka Streams", site, [*command, *map(str, arguments)])


def quix_missing() -> str | None:
    """How to install Quix Streams; None where it is installed."""
    return None if find_spec("quixstreams") else "`pip install quixstreams` (here: `uv sync --group peers`)"


async def _output(site: Site, engine: str) -> str:
    name = f"{site.topic(catalog.EVENTS)}-{engine}-turns"
    await site.create(name)
    return name


async def _python(name: str, site: Site, *arguments: object) -> Measured:
    """Run tests.bench.NAME, with brokers and topic before `arguments`."""
    where = (site.settings.brokers, site.topic(catalog.EVENTS))
    return await _run(name, site, [sys.executable, "-m", f"tests.bench.{name}", *where, *map(str, arguments)])


async def _run(name: str, site: Site, command: Sequence[str]) -> Measured:
    process = await asyncio.create_subprocess_exec(
        *command, env=environment(site.settings), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), PROGRAM_WITHIN)
    except TimeoutError:
        raise BrokerError(f"{name} did not read {site.load.events} events in {PROGRAM_WITHIN:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise BrokerError(f"{name} failed:\n{errors.decode()[-3000:]}")
    return Measured(**orjson.loads(output.splitlines()[-1]))

"""The gateway under load: uploads of whole runs; then many live readers, with queries at the same time.

A worker with all roles assembles and stores the uploads, as behind every gateway.
"""

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import orjson
from aiokafka import AIOKafkaProducer

from pipeline.devbroker.ports import free_ports
from pipeline.observability import metrics as m
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from tests.bench.load_topics import until
from tests.bench.streams import STREAMS
from tests.bench.worker import Worker, gateway, worker
from topics import catalog
from turnmill.clock import now_ms
from turnmill.errors import BrokerError
from turnmill.kafka.client import client_options
from turnmill.wire.envelope import VERSION, encode

RUNS: Final = 2_000
UPLOADS: Final = 32  # at the same time
DELTAS: Final = 144  # text deltas of one run, of 150 events
STORED_WITHIN: Final = 120.0  # seconds

READERS: Final = 500  # each of a thread of its own
PACE: Final = 10  # events/s of each thread
SECONDS: Final = 20
WARM_UP: Final = 3  # seconds; not counted
READ_WITHIN: Final = 60.0  # seconds after the last event
PAUSE: Final = 0.1  # seconds between two queries of a kind
QUERIES: Final = {
    "list of 50 threads": "/v1/threads?limit=50",
    "one thread": "/v1/threads/run-7",
    "usage by model and minute": "/v1/usage?group_by=model&bucket=minute",
}

SENT: Final = re.compile(rb'"delta":"(\d+\.\d+)"')
END: Final = b"event: end\n"


@dataclass(frozen=True, slots=True)
class Ingest:
    """`runs` with `events` altogether in `seconds`; the gateway's `cpu` seconds, and its resident bytes at the end."""

    runs: int
    events: int
    seconds: float
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class Live:
    """`ms`: from producer to reader of each event, ascending; `cpu`: share of a core; `memory`: resident bytes.

    `connections`: the gateway's to the broker; None where the system does not tell them.
    """

    readers: int
    ms: list[float]
    cpu: float
    memory: float
    connections: int | None


@dataclass(frozen=True, slots=True)
class GatewayLoad:
    """All figures. `idle`: the gateway's resident bytes before; `queries`: name -> ms of each query, ascending."""

    idle: float
    ingest: Ingest
    live: Live
    queries: dict[str, list[float]]


async def measure(settings: Settings) -> GatewayLoad:
    """Measure on topics that exist and are empty. Raises BrokerError where an event is lost or a request refused."""
    (port,) = free_ports(1)
    store = f"sqlite:///{settings.home / settings.topic_prefix}.db"
    settings = settings.model_copy(update={"store": store, "gateway_port": port, "gateway_rate": 0.0})
    await (await ThreadStore.open(store, migrate=True)).close()
    async with worker(settings, "assemble,metrics,store") as stored, gateway(settings) as running:
        idle = await running.memory()
        ingest = await _ingest(running)

        async def all_stored() -> bool:
            return await stored.metric(m.STORE_ROWS.name) >= RUNS

        await until(all_stored, STORED_WITHIN, f"{RUNS:,} uploaded runs were stored")
        queries: dict[str, list[float]] = {name: [] for name in QUERIES}
        async with _asking(running, queries):
            live = await _live(settings, running)
        return GatewayLoad(idle, ingest, live, {name: sorted(ms) for name, ms in queries.items()})


async def _ingest(running: Worker) -> Ingest:
    """Upload RUNS whole runs, UPLOADS at a time, as fast as the gateway takes them."""
    events = STREAMS["vercel-ai"]([f" word{number}" for number in range(DELTAS)])
    body = b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events)
    numbers = iter(range(RUNS))

    async def upload(http: aiohttp.ClientSession) -> None:
        for number in numbers:
            where = f"{running.url}/v1/threads/run-{number}/runs/r/stream?dialect=vercel-ai"
            async with http.post(where, data=body) as response:
                report = await response.json()
                if report.get("events") != len(events):
                    raise BrokerError(f"the gateway answered an upload with {response.status}: {report}")

    before, began = await running.cpu(), time.monotonic()
    async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as tasks:
        for _ in range(UPLOADS):
            tasks.create_task(upload(http))
    seconds = time.monotonic() - began
    cpu = await running.cpu() - before
    return Ingest(RUNS, RUNS * len(events), seconds, cpu, await running.memory())


async def _live(settings: Settings, running: Worker) -> Live:
    """Follow READERS live streams, one a thread. Raises BrokerError where a reader does not get each event once."""
    threads = [str(uuid.UUID(int=number, version=4)) for number in range(READERS)]
    expected = SECONDS * PACE
    ready, begun = asyncio.Semaphore(0), float("inf")
    took: list[float] = []

    async def follow(http: aiohttp.ClientSession, thread_id: str) -> None:
        seen = 0
        async with http.get(f"{running.url}/v1/threads/{thread_id}/live?wait=true") as response:
            ready.release()
            left = b""
            async for chunk in response.content.iter_any():
                now = time.monotonic()
                whole, mark, left = (left + chunk).rpartition(b"\n\n")
                sent = [float(found) for found in SENT.findall(whole + mark)]
                seen += len(sent)
                took.extend((now - at) * 1000 for at in sent if at > begun + WARM_UP)
                if END in whole:
                    break
        if seen != expected:
            raise BrokerError(f"a live stream gave {seen} of {expected} events")

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=SECONDS + READ_WITHIN + READERS)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http, asyncio.TaskGroup() as tasks:
        for thread_id in threads:
            tasks.create_task(follow(http, thread_id))
            await ready.acquire()
        before, begun = await running.cpu(), time.monotonic()
        await _publish(settings, threads)
        cpu = (await running.cpu() - before) / (time.monotonic() - begun)
        memory, connections = await running.memory(), running.connections(int(settings.brokers.rpartition(":")[2]))
    return Live(READERS, sorted(took), cpu, memory, connections)


async def _publish(settings: Settings, threads: list[str]) -> None:
    """Publish a run in each thread, PACE events a second, an event a record; its text is the time of sending."""
    topic = catalog.EVENTS.full_name(settings.topic_prefix)
    shared = {"v": VERSION, "run_id": "live", "agent_id": "bench", "dialect": "vercel-ai"}
    async with AIOKafkaProducer(**client_options(settings), acks="all", linger_ms=5) as producer:

        async def send(thread_id: str, seq: int, events: list[dict[str, Any]], **more: str) -> None:
            at = now_ms()
            envelope = {**shared, "thread_id": thread_id, "seq": seq, "ts": at, "events": events, **more}
            await producer.send(topic, key=thread_id.encode(), value=encode(envelope))

        for thread_id in threads:
            await send(thread_id, 0, [{"type": "start"}, {"type": "text-start", "id": "t"}])
        began = time.monotonic()
        for number in range(SECONDS * PACE):
            for place, thread_id in enumerate(threads):
                if place % 25 == 0:
                    due = began + (number + place / len(threads)) / PACE
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                delta = {"type": "text-delta", "id": "t", "delta": f"{time.monotonic():.6f}"}
                await send(thread_id, 2 + number, [delta])
        for thread_id in threads:
            closing = [{"type": "text-end", "id": "t"}, {"type": "finish"}]
            await send(thread_id, 2 + SECONDS * PACE, closing, end="complete")
        await producer.flush()


@asynccontextmanager
async def _asking(running: Worker, took: dict[str, list[float]]) -> AsyncIterator[None]:
    """Send queries during the block, one of each kind at a time; `took` gets the ms of each."""

    async def ask(http: aiohttp.ClientSession, name: str) -> None:
        while True:
            began = time.monotonic()
            async with http.get(running.url + QUERIES[name]) as response:
                await response.read()
                if response.status != 200:
                    raise BrokerError(f"the gateway answered {QUERIES[name]} with {response.status}")
            took[name].append((time.monotonic() - began) * 1000)
            await asyncio.sleep(PAUSE)

    async with aiohttp.ClientSession() as http:
        asking = [asyncio.create_task(ask(http, name)) for name in QUERIES]
        try:
            yield
        finally:
            for task in asking:
                task.cancel()
            failed = [
                one for one in await asyncio.gather(*asking, return_exceptions=True) if isinstance(one, Exception)
            ]
    if failed:
        raise failed[0]

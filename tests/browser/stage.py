"""What the browser looks at: a broker, a worker and a gateway of their own, and runs to fill them with."""

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from pipeline.cli.files.publish import publish_all
from pipeline.cli.files.recordings import Recording, Stream, files_of, read
from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.gateway.serving.app import create_app
from pipeline.gateway.serving.server import Server, listen, url_of
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.support.places import CACHE, ROOT
from tests.support.workers import WorkerProcess
from turnmill.publish.publisher import Publisher

FLEET = ROOT / "examples" / "fleet"
WIRES = ROOT / "examples" / "wires"
TROUBLE = FLEET / "trouble"  # runs that broke off or failed
BROKEN = ROOT / "examples" / "broken"  # records that are refused

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything runs; `url` is the gateway's."""

    settings: Settings
    url: str


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """A gateway in a thread of this process -> its address."""
    app = create_app(settings)
    listening = listen(settings.gateway_host, settings.gateway_port)
    server = Server(app)
    thread = threading.Thread(target=asyncio.run, args=[server._serve([listening])], daemon=True)
    thread.start()
    try:
        yield url_of(listening)
    finally:
        server.stop()
        thread.join(30)


@contextmanager
def stage(home: Path, **options: object) -> Iterator[Stage]:
    """A broker, a worker and a gateway, in `home`; all of it ends with the block."""
    broker, port = free_ports(2)
    settings = Settings(
        home=home,
        cache=CACHE,
        brokers=f"127.0.0.1:{broker}",
        port=port,
        gateway_port=0,
        partitions=4,
        **options,  # type: ignore[arg-type]
    )
    with local.running(settings):
        in_a_thread(apply_topics(settings))
        worker = WorkerProcess(settings, roles="assemble,metrics,store,feedback").start()
        try:
            in_a_thread(worker.url(within=180))
            with serving(settings) as url:
                yield Stage(settings, url)
        finally:
            worker.end()


def recordings(*folders: Path) -> list[Recording]:
    found: list[Recording] = []
    for file in files_of(list(folders)):
        found += read(file, None, {}).recordings
    return found


def settled(on: Stage, within: float = 180) -> None:
    """Wait until all that was published is stored: no group has anything left to read."""
    deadline = time.monotonic() + within
    with httpx.Client(base_url=on.url, trust_env=False, timeout=within) as http:
        while True:
            time.sleep(2.5)  # the gateway uses an answer again for 2 s
            roles = http.get("/v1/status").json()["roles"]
            if roles and all(role["lag"] == 0 for role in roles):
                return
            assert time.monotonic() < deadline, f"{roles} after {within} s"


@contextmanager
def streaming(settings: Settings, stream: Stream) -> Iterator[float]:
    """A run that is open within the block: all but its last three events come before -> `time.monotonic()` of then."""
    sent: Future[float] = Future()
    done = threading.Event()

    async def work() -> None:
        async with (
            Publisher(settings, spool=False) as publisher,
            publisher.run(
                thread_id=stream.thread_id,
                agent_id=stream.agent_id,
                dialect=stream.dialect,
                run_id=stream.run_id,
                tenant=stream.tenant,
                info=stream.info,
            ) as run,
        ):
            for event in stream.events[:-3]:
                await run.send(event)
            sent.set_result(time.monotonic())
            await asyncio.to_thread(done.wait)
            for event in stream.events[-3:]:
                await run.send(event)
            await run.end(stream.end)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, work())
        try:
            yield sent.result(60)
        finally:
            done.set()
            running.result()


def in_a_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end: the browser's own event loop may be running in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def publish(settings: Settings, runs: list[Recording], speed: float | None = None, concurrency: int = 50) -> None:
    """Publish recorded runs; `speed` 1 is a model's own pace, None at once."""
    in_a_thread(publish_all(Publisher(settings, spool=False), runs, speed, concurrency, 12, lambda _: None))

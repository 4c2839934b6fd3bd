"""What processes listen on, by the kernel's own list: no web page of another host is answered there."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.support.gateways import running
from tests.support.waiting import until
from tests.support.workers import WorkerProcess

LISTEN = "0A"


def listening(process: int) -> Iterator[str]:
    """Yield the addresses that a process and its children accept connections on."""
    family = [process]
    for parent in family:
        children = Path(f"/proc/{parent}/task/{parent}/children")
        family += map(int, children.read_text().split()) if children.exists() else []
    sockets = set()
    for each in family:
        for descriptor in Path(f"/proc/{each}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                sockets.add(str(descriptor.readlink()))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == LISTEN and f"socket:[{fields[9]}]" in sockets:
            yield f"http://127.0.0.1:{int(fields[1].partition(':')[2], 16)}"


PAGES = [{"host": "pages.example"}, {"host": "127.0.0.1.pages.example:80"}, {"origin": "http://pages.example"}]


async def refuses_pages(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as http:
        for path in ("/", "/metrics", "/readyz", "/v1/threads"):
            for headers in PAGES:
                assert (await http.get(path, headers=headers)).status_code == 403, (url, path, headers)
        assert (await http.get("/")).status_code == 200


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_worker_on_loopback(applied_settings: Settings, processes: int) -> None:
    settings = applied_settings.model_copy(update={"host": "127.0.0.1", "port": free_ports(1)[0]})
    worker = WorkerProcess(settings, processes=processes, forked=False).start()
    try:
        assert worker.process is not None
        number = worker.process.pid

        async def is_there() -> bool:
            return f"http://127.0.0.1:{settings.port}" in set(listening(number))

        await until(is_there, worker.text)
        for url in set(listening(number)):
            await refuses_pages(url)

        async def is_ready() -> bool:
            async with httpx.AsyncClient() as http:
                return (await http.get(f"http://127.0.0.1:{settings.port}/readyz")).status_code == 200

        await until(is_ready, worker.text)  # to end in the middle of a start may take longer than a worker waits
        assert worker.stop() == 0
    finally:
        worker.end()


async def test_a_gateway_without_tokens(applied_settings: Settings) -> None:
    async with running(applied_settings.model_copy(update={"gateway_port": 0})) as gateway:
        assert gateway.url in set(listening(os.getpid()))
        await refuses_pages(gateway.url)

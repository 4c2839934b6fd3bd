"""The health server, over real HTTP on a free port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.worker.processes.health import HealthServer, Probe
from turnmill.errors import CallerError


async def well() -> list[str]:
    return []


@dataclass
class Shown:
    """A `Watched` of a test."""

    stalled: Probe = well
    waiting: Probe = well
    metrics: Metrics = field(default_factory=Metrics)

    async def registry(self) -> CollectorRegistry:
        return self.metrics.registry


@asynccontextmanager
async def serving(
    live: Probe = well, ready: Probe = well, metrics: Metrics | None = None
) -> AsyncIterator[tuple[aiohttp.ClientSession, int]]:
    server = HealthServer("127.0.0.1", 0, Shown(live, ready, metrics or Metrics()))
    port = await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            yield client, port
    finally:
        await server.stop()


async def test_all_is_well() -> None:
    async with serving() as (client, _):
        for path in ("/livez", "/readyz"):
            async with client.get(path) as answer:
                assert (answer.status, await answer.json()) == (200, {"status": "ok", "reasons": []})
                assert answer.headers["Cache-Control"] == "no-store"


async def test_reasons_are_told_and_each_probe_is_its_own() -> None:
    reasons: list[str] = []

    async def told() -> list[str]:
        return reasons

    async with serving(ready=told) as (client, _):
        reasons.append("the store does not answer")
        async with client.get("/readyz") as answer:
            assert answer.status == 503
            assert await answer.json() == {"status": "failing", "reasons": ["the store does not answer"]}
        async with client.get("/livez") as answer:
            assert answer.status == 200
        reasons.clear()
        async with client.head("/readyz") as answer:
            assert answer.status == 200


async def test_a_probe_that_raises_is_a_reason() -> None:
    async def broken() -> list[str]:
        raise RuntimeError("no consumer")

    async with serving(live=broken) as (client, _), client.get("/livez") as answer:
        assert answer.status == 503
        assert (await answer.json())["reasons"] == ["the probe itself failed: RuntimeError: no consumer"]


async def test_metrics_in_the_format_that_is_asked_for() -> None:
    metrics = Metrics()
    metrics.add(m.COMMITS, 3)
    async with serving(metrics=metrics) as (client, _):
        async with client.get("/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = await answer.text()
            assert "turnmill_commits_total 3.0" in text
            assert "process_resident_memory_bytes" in text
        async with client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            assert (await answer.text()).endswith("# EOF\n")


async def test_the_index_lists_what_there_is() -> None:
    async with serving() as (client, _):
        async with client.get("/") as answer:
            endpoints = (await answer.json())["endpoints"]
        assert set(endpoints) == {"/livez", "/readyz", "/metrics"}
        for path in endpoints:
            async with client.get(path) as answer:
                assert answer.status == 200
        async with client.get("/nothing") as answer:
            assert answer.status == 404


async def test_a_taken_port_names_the_setting_to_change() -> None:
    async with serving() as (_, port):
        second = HealthServer("127.0.0.1", port, Shown())
        with pytest.raises(CallerError, match=f"127.0.0.1:{port} is in use .* TURNMILL_PORT"):
            await second.start()


async def test_an_address_of_another_machine_names_the_setting_to_change() -> None:
    server = HealthServer("192.0.2.1", 0, Shown())
    with pytest.raises(CallerError, match="TURNMILL_HOST"):
        await server.start()


async def test_the_port_is_free_again_after_stop() -> None:
    async with serving() as (_, port):
        pass
    again = HealthServer("127.0.0.1", port, Shown())
    assert await again.start() == port
    await again.stop()
    await again.stop()

"""A worker's health and metrics over HTTP, for Kubernetes, Prometheus and people; of several processes as of one."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipeline.observability.logs import why_not_listening
from pipeline.policies.local_callers import LOOPBACK, refusal
from turnmill.errors import CallerError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Probe = Callable[[], Coroutine[Any, Any, list[str]]]
"""Returns the reasons of a failure, one sentence each; empty if all is well."""


class Watched(Protocol):
    """The interface of what is checked over HTTP: a worker, or the processes of one."""

    async def stalled(self) -> list[str]:
        """Return reasons for which a restart would help."""

    async def waiting(self) -> list[str]:
        """Return reasons why it does not do its work now."""

    async def registry(self) -> CollectorRegistry:
        """Return its metrics."""


ENDPOINTS: Final = {
    "/livez": "200 while the worker gets on; 503 with the reasons where a restart would help",
    "/readyz": "200 while the worker does its work; 503 with the reasons where it waits for something",
    "/metrics": "metrics, in the text formats of Prometheus and OpenMetrics",
}


Page = Sequence[Sequence[Any]]
"""The metrics of a process in JSON: [name, help, kind, [[sample, labels, value], …]] each."""

PROCESS: Final = "process"  # the label that each series of several processes has, so that none are summed


def page(registry: CollectorRegistry) -> Page:
    """Return the registry's present values."""
    return [
        [metric.name, metric.documentation, metric.type, [[row.name, row.labels, row.value] for row in metric.samples]]
        for metric in registry.collect()
    ]


class Merged(Collector):
    """Pages by the names of their processes."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages

    def collect(self) -> Iterable[Metric]:
        """Yield each metric once, with the samples of all processes."""
        merged: dict[str, Metric] = {}
        for process, metrics in self._pages.items():
            for name, text, kind, samples in metrics:
                metric = merged.setdefault(name, Metric(name, text, kind))
                for sample, labels, value in samples:
                    metric.add_sample(sample, {PROCESS: process, **labels}, value)
        return merged.values()


class HealthServer:
    """Serves /livez, /readyz and /metrics; port 0 takes a free one."""

    def __init__(self, host: str, port: int, watched: Watched) -> None:
        self._host = host
        self._port = port
        self._watched = watched
        app = web.Application(middlewares=[_for_this_machine] if host in LOOPBACK else [])
        app.router.add_get("/", self._index)
        app.router.add_get("/livez", _answering(watched.stalled))
        app.router.add_get("/readyz", _answering(watched.waiting))
        app.router.add_get("/metrics", self._exposition)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    async def start(self) -> int:
        """Listen, and return the port. Raises CallerError that names the setting to change, if that is not possible."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise CallerError(why_not_listening(self._host, self._port, error)) from None
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Close the port and its connections; may be called repeatedly, and without a start."""
        await self._runner.cleanup()

    async def _index(self, _: web.Request) -> web.Response:
        return web.json_response({"service": "turnmill worker", "endpoints": ENDPOINTS})

    async def _exposition(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(", ".join(request.headers.getall("Accept", [])))
        # In a thread: with thousands of series it would block the event loop for too long.
        body = await asyncio.to_thread(encode, await self._watched.registry())
        return web.Response(body=body, headers={"Content-Type": content_type})


@web.middleware
async def _for_this_machine(request: web.Request, handler: Handler) -> web.StreamResponse:
    if (why := refusal(request.headers)) is not None:
        return web.json_response({"detail": why}, status=403)
    return await handler(request)


def _answering(probe: Probe) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        try:
            reasons = await probe()
        except Exception as error:  # a broken probe is a reason, too
            reasons = [f"the probe itself failed: {type(error).__name__}: {error}"]
        body = {"status": "failing" if reasons else "ok", "reasons": reasons}
        return web.json_response(body, status=503 if reasons else 200, headers={"Cache-Control": "no-store"})

    return answer

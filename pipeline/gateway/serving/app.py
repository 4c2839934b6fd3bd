"""The gateway as an ASGI app: the routes of its parts; around them admission, headers, metrics, answers to failures."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.gateway import problems
from pipeline.gateway.access.audit import refused
from pipeline.gateway.access.limits import AT_END, BEFORE_ANSWER
from pipeline.gateway.access.security import Admission
from pipeline.gateway.intake.facts import HEADERS
from pipeline.gateway.problems import Problem
from pipeline.gateway.serving.parts import PARTS, named
from pipeline.gateway.state import Gateway
from pipeline.observability import metrics as m
from pipeline.settings import Settings

log = logging.getLogger(__name__)

LOOP_SHARE: Final = 0.01  # seconds in which requests begin before the event loop turns to what else there is
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Defaults; routes that serve pages set another Content-Security-Policy.
STRICT: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Guard:
    """The outermost layer of the app."""

    def __init__(
        self, app: ASGIApp, metrics: m.Metrics, header_bytes: int, guard: Callable[[Mapping[str, str]], None]
    ) -> None:
        """`guard` takes a request's headers, and raises Problem for one that is refused on every path."""
        self._app = app
        self._guard = guard
        self._metrics = metrics
        self._header_bytes = header_bytes
        self._first = 0.0  # when the first request began in this round of the event loop; 0 where none has

    async def _wait_for_share(self) -> None:
        """Wait while requests have had their share of this round: a thousand that come at once hold up no other."""
        while self._first and time.perf_counter() - self._first > LOOP_SHARE:  # noqa: ASYNC110 # asyncio has no event for it
            await asyncio.sleep(0)
        if not self._first:
            self._first = time.perf_counter()
            asyncio.get_running_loop().call_soon(setattr, self, "_first", 0.0)  # when the next round begins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def strict(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if BEFORE_ANSWER in scope:
                    await scope[BEFORE_ANSWER]()
                headers = MutableHeaders(scope=message)
                for name, value in STRICT.items():
                    headers.setdefault(name, value)
            await send(message)

        async def whole() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):  # now it is decoded
                await self._wait_for_share()
            return message

        try:
            await self._wait_for_share()
            size = len(scope["raw_path"]) + len(scope["query_string"])
            size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
            if size > self._header_bytes:
                detail = f"the request line and headers have {size:,} bytes, and may have {self._header_bytes:,}"
                problem = Problem("headers-too-large", detail, headers={"Connection": "close"})
                await problem.response()(scope, receive, strict)
                return
            self._guard(Headers(scope=scope))
            await self._app(scope, whole, strict)
        except Problem as problem:
            await problem.response()(scope, receive, strict)
        except Exception:  # the answer to any unexpected error has a reference that is also in the log
            reference = uuid4().hex[:12]
            log.exception("fault %s: %s %s", reference, scope["method"], scope["path"])
            if status:
                raise
            await Problem("internal", f"see the gateway's log for {reference}").response()(scope, receive, strict)
        finally:
            for done in scope.get(AT_END, ()):
                done()
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in METHODS else m.OTHER
            self._metrics.add(m.REQUESTS, method=method, route=route, status=str(status))
            self._metrics.observe(m.REQUEST_SECONDS, time.perf_counter() - began, route=route)


class App(FastAPI):
    """FastAPI, whose OpenAPI document describes errors as problems (RFC 9457)."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            self.openapi_schema = problems.only_problems(super().openapi())
        return self.openapi_schema


def create_app(settings: Settings, dev: Path | None = None) -> FastAPI:
    """Return the app; it connects to broker and store when they are first needed. Raises CallerError for bad settings.

    `dev`: the folder of `turnmill dev`; set only in the gateway that this command starts.
    """
    gateway = Gateway(settings, dev)
    parts = [part for part in PARTS if part.exists(gateway)]

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        gateway.start()
        try:
            yield
        finally:
            await gateway.close()

    app = App(
        title="Turnmill gateway",
        version=version("turnmill"),
        summary="Runs of agents in; threads, live streams and usage out.",
        lifespan=lifespan,
        openapi_url=None,  # `docs_page` has it
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.gateway = gateway
    problems.add_handlers(app, refused)
    for part in parts:
        for router in part.add_to(gateway):
            # All gateways of a process share these routes. `include_router` would build each route again at the first
            # request, in the event loop, while all other requests wait.
            app.router.routes.extend(router.routes)
    if settings.gateway_origin_list:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.gateway_origin_list,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID", "If-None-Match", *HEADERS],
            expose_headers=["ETag", "Retry-After", "WWW-Authenticate", "x-vercel-ai-ui-message-stream"],
        )
    app.add_middleware(
        Guard,
        metrics=gateway.metrics,
        header_bytes=settings.gateway_header_bytes,
        guard=gateway.service(Admission).authenticator.guard,
    )
    for part in parts:
        if part.layer:
            app.add_middleware(named(part.layer))
    return app

"""The gateway as an ASGI app: the routes of its parts, middleware and error handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from pipeline.gateway import problems
from pipeline.gateway.access.auditing import refused
from pipeline.gateway.access.security import Admission
from pipeline.gateway.intake.facts import HEADERS
from pipeline.gateway.serving.headers import Guard
from pipeline.gateway.serving.parts import PARTS, named
from pipeline.gateway.state import Gateway
from pipeline.settings import Settings


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
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=problems.documented(
            "unauthorized", "forbidden", "invalid-parameters", "rate-limited", "headers-too-large", "unavailable"
        ),
    )
    app.state.gateway = gateway
    problems.add_handlers(app, refused)
    for part in parts:
        for router in part.add_to(gateway):
            app.include_router(router)
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

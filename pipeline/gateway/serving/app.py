"""The gateway as an ASGI app: its routes, middleware and error handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware

from pipeline.gateway import problems
from pipeline.gateway.access import audit, tokens
from pipeline.gateway.access.auditing import refused
from pipeline.gateway.budgets import routes as budgets
from pipeline.gateway.dashboard import dead_letters, ledger, live_figures, page, turn_usage, views
from pipeline.gateway.intake import ingest, records
from pipeline.gateway.intake.facts import HEADERS
from pipeline.gateway.live import routes as live
from pipeline.gateway.proxy.path_token import PathToken
from pipeline.gateway.reading import feedback, holds, requests, runs, search, threads, usage, webhooks
from pipeline.gateway.serving import docs_page, status
from pipeline.gateway.serving.headers import Guard
from pipeline.gateway.state import Gateway
from pipeline.policies.budgets import COMMANDS
from pipeline.settings import Settings
from turnmill.errors import CallerError

ROUTERS: Final[tuple[APIRouter, ...]] = (
    ingest.router,
    records.router,
    threads.router,
    runs.router,
    holds.router,
    search.router,
    requests.router,
    webhooks.router,
    tokens.router,
    audit.router,
    budgets.router,
    live.router,
    usage.router,
    views.router,
    status.router,
    docs_page.router,
    turn_usage.router,
    live_figures.router,
    ledger.router,
    dead_letters.router,
    page.router,
)


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
    gateway = Gateway(settings)
    proxy = commands = None
    if settings.control:
        from pipeline.gateway.control.commands import Commands  # noqa: PLC0415  # who does without it does not load it

        commands = Commands(
            settings, gateway.follower, gateway.control_publisher, gateway.notify, gateway.budgets.answers
        )
    if settings.gateway_proxy:
        from pipeline.gateway.proxy.passing import Proxy  # noqa: PLC0415  # who has no proxy does not load it

        proxy = Proxy(gateway, commands)

    stops = None
    if any(one.enforce in COMMANDS for one in settings.budget_list):
        if commands is None:
            raise CallerError("a budget stops runs, or asks (`enforce`), which TURNMILL_CONTROL must allow")
        from pipeline.gateway.budgets.stops import BudgetStops  # noqa: PLC0415  # where none stops, not loaded

        stops = BudgetStops(gateway, commands)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        gateway.loop_watch.start()
        gateway.budgets.start()
        if gateway.trail is not None:
            gateway.trail.start()
        if stops is not None:
            stops.start()
        if proxy is not None:
            proxy.start()
        try:
            yield
        finally:
            if stops is not None:
                await stops.stop()
            if proxy is not None:
                await proxy.close()
            if commands is not None:
                await commands.close()
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
    app.state.proxy = proxy
    app.state.dev = dev is not None
    problems.add_handlers(app, refused)
    for router in ROUTERS:
        app.include_router(router)
    if settings.feedback:
        app.include_router(feedback.router)
    if settings.gateway_rerun:
        from pipeline.gateway.rerun.routes import routes as rerun  # noqa: PLC0415  # where it is off, not loaded

        app.include_router(rerun())
    app.state.commands = commands
    if commands is not None:
        from pipeline.gateway.control.routes import router as control  # noqa: PLC0415  # as above

        app.include_router(control)
    if gateway.authenticator.people is not None:
        from pipeline.gateway.access.sign_in import routes as people  # noqa: PLC0415  # where nobody signs in, not loaded

        app.include_router(people(settings, gateway.authenticator.people))
    if dev is not None:
        from pipeline.gateway.serving.dev import routes  # noqa: PLC0415  # of `turnmill dev` alone

        app.include_router(routes(dev))
    if proxy is not None:
        app.router.routes.append(proxy.route)
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
        guard=gateway.authenticator.guard,
    )
    if proxy is not None:
        app.add_middleware(PathToken)
    return app

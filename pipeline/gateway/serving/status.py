"""The state of the gateway and of the pipeline behind it, probes, and metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from pipeline.gateway.access.security import Reader
from pipeline.gateway.broker_status import RoleLag
from pipeline.gateway.problems import documented
from pipeline.gateway.state import TheGateway
from pipeline.stores.threads.summaries import Counts
from turnmill.clock import now_ms
from turnmill.errors import TurnmillError

router = APIRouter(tags=["status"])


class Pipe(BaseModel):
    """The pipeline behind the gateway. A value that can't be read now is null; `problems` says why.

    `store` is also null while the first count of a large store takes long. It is counted rarely, for all callers.
    """

    time: int
    roles: list[RoleLag] | None
    dead_letters: int | None
    store: Counts | None
    problems: list[str]
    dev: bool = Field(False, description="The gateway belongs to `turnmill dev`; its worker may be killed.")


class Health(BaseModel):
    """`status` is `ok` or `failing`, for `reasons`."""

    status: str
    reasons: list[str]


@router.get("/v1/status", summary="Lag, dead letters, and counts of the store", responses=documented())
async def status(request: Request, gateway: TheGateway, principal: Reader) -> Pipe:
    """Return the state of the pipeline for all tenants together. Tokens with a tenant get null for all values."""
    answer = Pipe(time=now_ms(), roles=None, dead_letters=None, store=None, problems=[], dev=request.app.state.dev)
    if principal.tenant is not None:
        return answer
    try:
        answer.roles, answer.dead_letters = await gateway.broker_status.get(gateway.settings)
    except TurnmillError as error:
        answer.problems.append(str(error))
    try:
        answer.store = await gateway.store_counts.get()
    except TurnmillError as error:
        answer.problems.append(str(error))
    return answer


@router.get("/livez", summary="Does the process answer?")
async def livez() -> Health:
    """Answer a liveness probe: always 200. Broker and store are not checked: a restart would not mend them."""
    return Health(status="ok", reasons=[])


@router.get(
    "/readyz",
    summary="Can it do its work now?",
    responses={503: {"description": "It can't; `reasons` says why", "model": Health}},
)
async def readyz(gateway: TheGateway) -> JSONResponse:
    """Answer a readiness probe: 200 while broker and store are reachable, else 503 with the reasons."""
    reasons = []
    for connect in (gateway.publisher, gateway.store):
        try:
            await connect()
        except TurnmillError as error:
            reasons.append(str(error))
    health = Health(status="failing" if reasons else "ok", reasons=reasons)
    return JSONResponse(health.model_dump(), 503 if reasons else 200)


@router.get("/metrics", summary="Metrics", response_class=Response)
async def metrics(gateway: TheGateway, request: Request) -> Response:
    """Return metrics in Prometheus or OpenMetrics text. They name routes and statuses, no tenants or threads."""
    gateway.run_watch.count()
    encode, content_type = choose_encoder(", ".join(request.headers.getlist("accept")))
    data = await asyncio.to_thread(encode, gateway.metrics.registry)
    return Response(data, headers={"Content-Type": content_type})

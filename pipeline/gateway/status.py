"""The state of the gateway and of the pipeline behind it, probes, and metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from pipeline.gateway.broker_status import RoleLag
from pipeline.gateway.connections import TheGateway
from pipeline.gateway.problems import documented
from pipeline.gateway.security import Reader
from pipeline.stores.summaries import Counts
from turnmill.clock import now_ms
from turnmill.errors import TurnmillError

router = APIRouter(tags=["status"])


class Pipe(BaseModel):
    """The pipeline behind the gateway. What can't be asked now is null, and `problems` says why."""

    time: int
    roles: list[RoleLag] | None
    dead_letters: int | None
    store: Counts | None
    problems: list[str]
    dev: bool = Field(False, description="The gateway is that of `turnmill dev`, whose worker may be killed for a try.")


class Health(BaseModel):
    """`status` is `ok` or `failing`, for `reasons`."""

    status: str
    reasons: list[str]


@router.get("/v1/status", summary="Lag, dead letters, and what the store holds", responses=documented())
async def status(request: Request, gateway: TheGateway, principal: Reader) -> Pipe:
    """For all tenants together, and so only for tokens without a tenant: others see that it answers."""
    answer = Pipe(time=now_ms(), roles=None, dead_letters=None, store=None, problems=[], dev=request.app.state.dev)
    if principal.tenant is not None:
        return answer
    try:
        answer.roles, answer.dead_letters = await gateway.broker_status.get(gateway.settings)
    except TurnmillError as error:
        answer.problems.append(str(error))
    try:
        answer.store = await (await gateway.store()).counts()
    except TurnmillError as error:
        answer.problems.append(str(error))
    return answer


@router.get("/livez", summary="Does the process answer?")
async def livez() -> Health:
    """For a liveness probe. Always 200: nothing that a restart would mend is looked at."""
    return Health(status="ok", reasons=[])


@router.get(
    "/readyz",
    summary="Can it do its work now?",
    responses={503: {"description": "It can't; `reasons` says why", "model": Health}},
)
async def readyz(gateway: TheGateway) -> JSONResponse:
    """For a readiness probe: 200 while broker and store are there, else 503 with the reasons."""
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
    """In the text formats of Prometheus and OpenMetrics. They name routes and statuses, no tenants and no threads."""
    gateway.run_watch.count()
    encode, content_type = choose_encoder(", ".join(request.headers.getlist("accept")))
    data = await asyncio.to_thread(encode, gateway.metrics.registry)
    return Response(data, headers={"Content-Type": content_type})

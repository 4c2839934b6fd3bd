"""What models were asked, over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from pipeline.gateway.access.security import Reader
from pipeline.gateway.parameters import PRIVATE, Tenant
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.state import TheGateway
from pipeline.stores.threads.agents_and_requests import request_bodies

router = APIRouter(prefix="/v1/requests", tags=["threads"])


@router.get("/{sha256}", summary="What a model was asked", responses=documented("unknown-request"))
async def read_request(
    gateway: TheGateway,
    principal: Reader,
    response: Response,
    sha256: Annotated[str, Path(max_length=64, description="As `meta:request` of a response has it.")],
    tenant: Tenant = None,
) -> dict[str, Any]:
    """Return the body of a request in the form of the provider's API, without its messages."""
    bodies = await request_bodies(await gateway.store(), [sha256], principal.bounded(tenant))
    if sha256 not in bodies:
        raise Problem("unknown-request", f"no turn in the store names the request {sha256}")
    response.headers.update(PRIVATE)
    return bodies[sha256]

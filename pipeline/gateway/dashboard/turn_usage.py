"""The usage and the cost of each turn of a thread."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from pipeline.gateway.access.security import Reader
from pipeline.gateway.parameters import Tenant, ThreadId
from pipeline.gateway.problems import documented
from pipeline.gateway.route_facts import facts
from pipeline.gateway.state import TheGateway
from pipeline.stores.threads.summaries import TurnUsage
from pipeline.stores.usage.turns import turn_usage

router = APIRouter(prefix="/v1/threads", tags=["usage"])


class ThreadUsage(BaseModel):
    """`turns`: usage by `meta:turn_id`, of the turns that used anything."""

    thread_id: str
    turns: dict[str, TurnUsage]


@router.get(
    "/{thread_id}/usage",
    summary="Tokens and cost of each turn",
    responses=documented("unknown-thread", "conflict", "forbidden"),
)
@facts("own")
async def thread_usage(
    gateway: TheGateway, principal: Reader, thread_id: ThreadId, tenant: Tenant = None
) -> ThreadUsage:
    """Return the usage of the stored turns; `cost_usd` is null where no price is known."""
    found = await gateway.find(thread_id, principal.bounded(tenant))
    turns = await turn_usage(await gateway.store(), found)
    return ThreadUsage(thread_id=found.thread_id, turns=turns)

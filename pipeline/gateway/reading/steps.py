"""Steps of turns over HTTP: a thread's calls of models and tools as time, and which tools fail in the newest turns."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from pipeline.gateway.access.security import Reader
from pipeline.gateway.problems import OF_STORED, documented
from pipeline.gateway.reading.threads import ThreadFilters
from pipeline.gateway.routing import Tenant, ThreadId, facts
from pipeline.gateway.state import TheGateway, TheSlots
from pipeline.stores.threads import steps as stored_steps

router = APIRouter(prefix="/v1", tags=["threads"])


@router.get("/threads/{thread_id}/steps", summary="Where the time of each turn went", responses=OF_STORED)
@facts("own")
async def thread_steps(
    gateway: TheGateway, slots: TheSlots, principal: Reader, thread_id: ThreadId, tenant: Tenant = None
) -> dict[str, list[dict[str, Any]]]:
    """Return by `meta:turn_id` the calls of models and tools of each agent's turn, as far as events tell their times.

    Times are milliseconds since 1970; a sub-agent's steps are below the call that began it. `request` of a model's step
    names what it was asked, with the tools that it could call: `GET /v1/requests/ID`.
    """
    bounded = principal.bounded(tenant)
    async with slots.reads.taken(bounded):
        return await stored_steps.thread_steps(await gateway.store(), await gateway.find(thread_id, bounded))


@router.get("/tools", summary="Which tools are called, and fail", responses=documented("bad-request"))
@facts("own")
async def read_tools(
    gateway: TheGateway, slots: TheSlots, principal: Reader, query: Annotated[ThreadFilters, Query()]
) -> stored_steps.ToolsUsed:
    """Count the calls of each tool in the newest 10,000 turns of agents, since a time, of the chosen threads.

    Those with most failures are first, 1,000 at most; `turns` is how many turns were read, fewer where they are large.
    """
    bounded = principal.bounded(query.tenant)
    async with slots.searches.taken(bounded):
        return await stored_steps.tools_called(await gateway.store(), query.wanted(bounded))

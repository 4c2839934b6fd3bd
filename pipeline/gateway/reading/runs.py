"""Runs that are under way, and threads that wait for somebody's answer."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.responses import Response

from pipeline.gateway.access.security import Reader
from pipeline.gateway.budgets.memory import TheBudgets
from pipeline.gateway.live.erased import TheErased
from pipeline.gateway.live.run_watch import TheRunWatch
from pipeline.gateway.parameters import JSON
from pipeline.gateway.problems import documented
from pipeline.gateway.state import TheGateway
from pipeline.stores.threads.waiting import Waiting, WaitingWanted, waiting_threads
from pipeline.worker.assemble.limits import limits_of
from pipeline.worker.repair.open_runs import OpenRunRow, Wanted, rows
from topics import json_text
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid

PRIVATE: Final = {"Cache-Control": "private, no-store", "Vary": "Authorization"}

router = APIRouter(prefix="/v1/runs", tags=["runs"])


class OpenRuns(BaseModel):
    """The open runs, longest silence first."""

    runs: list[OpenRunRow]


class WaitingRuns(BaseModel):
    """The runs after which a thread waits for an answer, the last updated thread first."""

    runs: list[Waiting]


@router.get(
    "",
    summary="Open runs, and those that wait for an answer",
    response_class=Response,
    responses={200: {"model": OpenRuns | WaitingRuns}, **documented("forbidden")},
)
async def list_runs(
    gateway: TheGateway,
    watch: TheRunWatch,
    erased: TheErased,
    budgets: TheBudgets,
    principal: Reader,
    status: Annotated[
        Literal["open", "waiting"],
        Query(description="`open`: under way. `waiting`: over, and the thread waits for an approval or a result."),
    ] = "open",
    tenant: Annotated[
        str | None, Query(max_length=200, description="Only this tenant; for tokens without a tenant. Empty: none.")
    ] = None,
    agent: Annotated[str | None, Query(max_length=500, description="Only this agent, by id.")] = None,
    thread: Annotated[str | None, Query(max_length=1000, description="Only of this thread or conversation.")] = None,
    silent: Annotated[bool, Query(description="Of open runs, those silent for longer than usual.")] = False,  # noqa: FBT002  # FastAPI passes it by name
    limit: Annotated[int, Query(ge=1, le=1000, description="Number of runs.")] = 100,
) -> Response:
    """List open or waiting runs. Times are milliseconds since 1970. Runs of deleted threads are left out.

    Until the gateway has read the events of the open runs, it answers 503.
    """
    bounded = principal.bounded(tenant)
    found: list[Any]
    if status == "open":
        runs = await watch.open_runs()
        now = now_ms()
        listed = rows(runs, limits_of(gateway.settings), Wanted(bounded, agent, thread, silent), now, limit)
        gone = await erased.among([row.thread for row in listed])
        found = [row for row in listed if row.thread not in gone]
    else:
        named = None if thread is None else (thread_uuid(thread, bounded)[0], thread)
        asked = WaitingWanted(bounded, agent, named)
        stored = await waiting_threads(await gateway.store(), asked, limit)
        found = [*budgets.waiting(asked), *stored][:limit]
    return Response(json_text.dumps({"runs": found}), headers=PRIVATE, media_type=JSON)

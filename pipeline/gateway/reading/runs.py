"""Routes that list open runs, and the threads whose runs wait for an answer of a person or a program."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from pipeline.gateway.access.security import Reader
from pipeline.gateway.budgets.memory import TheBudgets
from pipeline.gateway.live.erased import TheErased
from pipeline.gateway.live.run_watch import RunWatch
from pipeline.gateway.routing import JSON
from pipeline.gateway.state import TheGateway, provided
from pipeline.stores.threads.reading import Waiting, WaitingWanted, waiting_threads
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


class RunsQuery(BaseModel):
    """The query of the list of runs."""

    status: Literal["open", "waiting"] = Field(
        "open", description="`open`: under way. `waiting`: over, and the thread waits for an approval or a result."
    )
    tenant: str | None = Field(
        None, max_length=200, description="Only this tenant; for tokens without a tenant. Empty: none."
    )
    agent: str | None = Field(None, max_length=500, description="Only this agent, by id.")
    thread: str | None = Field(None, max_length=1000, description="Only of this thread or conversation.")
    silent: bool = Field(False, description="Of open runs, those silent for longer than usual.")
    limit: int = Field(100, ge=1, le=1000, description="Number of runs.")


@router.get(
    "",
    summary="Open runs, and those that wait for an answer",
    response_class=Response,
    responses={200: {"model": OpenRuns | WaitingRuns}},
)
async def list_runs(
    gateway: TheGateway,
    watch: Annotated[RunWatch, provided(RunWatch)],
    erased: TheErased,
    budgets: TheBudgets,
    principal: Reader,
    query: Annotated[RunsQuery, Query()],
) -> Response:
    """List open or waiting runs. Times are milliseconds since 1970. Runs of deleted threads are left out.

    Until the gateway has read the events of the open runs, it answers 503.
    """
    bounded = principal.bounded(query.tenant)
    shown: Sequence[OpenRunRow | Waiting]
    if query.status == "open":
        wanted = Wanted(bounded, query.agent, query.thread, query.silent)
        listed = rows(await watch.open_runs(), limits_of(gateway.settings), wanted, now_ms(), query.limit)
        gone = await erased.among([row.thread for row in listed])
        shown = [row for row in listed if row.thread not in gone]
    else:
        named = None if query.thread is None else (thread_uuid(query.thread, bounded)[0], query.thread)
        asked = WaitingWanted(bounded, query.agent, named)
        stored = await waiting_threads(await gateway.store(), asked, query.limit)
        shown = [*budgets.waiting(asked), *stored][: query.limit]
    return Response(json_text.dumps({"runs": shown}), headers=PRIVATE, media_type=JSON)

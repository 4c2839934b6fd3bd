"""Data sets over HTTP: turns that people choose under a name. `?dataset=` of threads lists and exports them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from pipeline.gateway.access.security import Editor, Reader
from pipeline.gateway.problems import OF_STORED, Problem, documented
from pipeline.gateway.routing import Tenant, ThreadId
from pipeline.gateway.state import TheGateway
from pipeline.observability.audit import about, audit, of
from pipeline.stores.threads import datasets as stored
from turnmill.clock import now_ms
from turnmill.errors import CallerError

MAX_PAGE = 1000

router = APIRouter(prefix="/v1", tags=["threads"])

NAMED = "Letters, digits, `_`, `-`, `.` and spaces."
Name = Annotated[str, Path(pattern=stored.NAME_PATTERN, max_length=stored.NAME_CHARACTERS, description=NAMED)]
Turn = Annotated[str | None, Query(max_length=500, description="`meta:turn_id`; without it, all turns of the thread.")]


class DatasetList(BaseModel):
    """Data sets with the number of their turns, and when the newest was added (epoch ms)."""

    datasets: list[stored.Dataset]


class DatasetPage(BaseModel):
    """Turns in the order in which they were added; pass `next` as `after` for the next page, null on the last."""

    turns: list[stored.ChosenTurn]
    next: int | None


class Changed(BaseModel):
    """The number of turns that the request added to a data set, or took out of it."""

    dataset: str
    tenant: str | None
    turns: Annotated[int, Field(description="Without those that were there, or not there, already.")]


@router.get("/datasets", summary="Data sets")
async def list_datasets(gateway: TheGateway, principal: Reader, tenant: Tenant = None) -> DatasetList:
    """List data sets by name."""
    return DatasetList(datasets=await stored.datasets_of(await gateway.store(), principal.bounded(tenant)))


@router.get("/datasets/{dataset}", summary="The turns of a data set", responses=documented("not-found"))
async def read_dataset(
    gateway: TheGateway,
    principal: Reader,
    dataset: Name,
    after: Annotated[int, Query(ge=0, le=2**31, description="`next` of the page before.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Turns on a page.")] = 100,
    tenant: Tenant = None,
) -> DatasetPage:
    """Return a page of the turns' ids. Without a tenant, of threads without a tenant."""
    owner = principal.bounded(tenant) or ""
    turns = await stored.turns_of(await gateway.store(), owner, dataset, after, limit + 1)
    if not turns and not after:
        raise _unknown(dataset)
    page = turns[:limit]
    return DatasetPage(turns=page, next=page[-1].number if len(turns) > limit else None)


@router.delete("/datasets/{dataset}", summary="Delete a data set", responses=documented("not-found"))
async def delete_dataset(gateway: TheGateway, principal: Editor, dataset: Name, tenant: Tenant = None) -> Changed:
    """Delete a data set; its turns stay in their threads."""
    owner = principal.bounded(tenant) or ""
    gone = await stored.drop_dataset(await gateway.store(), owner, dataset)
    if not gone:
        raise _unknown(dataset)
    audit.info("deleted data set %r, by %s", dataset, principal.text, extra=of("dataset.delete", dataset, owner))
    return Changed(dataset=dataset, tenant=owner or None, turns=gone)


@router.delete("/threads/{thread_id}/datasets/{dataset}", summary="Take turns out of a data set", responses=OF_STORED)
async def take_out_turns(
    gateway: TheGateway, principal: Editor, thread_id: ThreadId, dataset: Name, turn: Turn = None, tenant: Tenant = None
) -> Changed:
    """Take a turn, or all turns of a thread, out of a data set. A set that has no turns left is deleted."""
    key = await gateway.find(thread_id, principal.bounded(tenant))
    gone = await stored.take_out(await gateway.store(), key, dataset, turn)
    if not gone:
        raise Problem("not-found", f"no such turn of this thread is in a data set {dataset!r}: GET /v1/datasets")
    audit.info("took %d turns out of %r, by %s", gone, dataset, principal.text, extra=about(key, "dataset.remove"))
    return Changed(dataset=dataset, tenant=key.tenant, turns=gone)


@router.put("/threads/{thread_id}/datasets/{dataset}", summary="Add turns to a data set", responses=OF_STORED)
async def add_turns(
    gateway: TheGateway, principal: Editor, thread_id: ThreadId, dataset: Name, turn: Turn = None, tenant: Tenant = None
) -> Changed:
    """Add a turn, or all turns that a thread has now, to a data set of the thread's tenant; the first makes the set."""
    key = await gateway.find(thread_id, principal.bounded(tenant))
    try:
        new = await stored.add_turns(await gateway.store(), key, dataset, turn, now_ms())
    except CallerError as error:
        raise Problem("conflict", str(error)) from None
    audit.info("added %d turns to data set %r, by %s", new, dataset, principal.text, extra=about(key, "dataset.add"))
    return Changed(dataset=dataset, tenant=key.tenant, turns=new)


def _unknown(dataset: str) -> Problem:
    return Problem("not-found", f"there is no data set {dataset!r}: GET /v1/datasets lists those that there are")

"""`GET /v1/ledger`: the loss ledger, which counts every run on the topic as stored, dead or open."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import BaseModel, Field

from pipeline.gateway.access.security import Admin
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.route_facts import facts
from pipeline.gateway.state import TheGateway
from pipeline.kafka.offsets import record_count
from pipeline.worker.repair.ledger import take_stock
from topics.catalog import EVENTS
from turnmill.clock import now_ms

MAX_RECORDS: Final = 200_000  # on the events topic; beyond that, use `turnmill doctor --ledger`

router = APIRouter(prefix="/v1/ledger", tags=["status"])
one_at_a_time = asyncio.Semaphore(1)


class Ledger(BaseModel):
    """The runs on the events topic by state: runs = stored + dead + open."""

    runs: int
    stored: int
    dead: Annotated[int, Field(description="Runs that were refused, and of which nothing is stored.")]
    open: Annotated[int, Field(description="Not stored yet.")]
    oldest_open_ms: Annotated[int | None, Field(description="The longest silence of an open run.")]


@router.get("", summary="Take stock of all runs", responses=documented("conflict"))
@facts("refused")
async def ledger(gateway: TheGateway, principal: Admin) -> Ledger:
    """Count all runs. This reads the whole events topic, which takes a moment. For tokens without a tenant."""
    if principal.tenant is not None:
        raise Problem("forbidden", "the ledger is of all tenants: use a token without one")
    settings = gateway.settings
    records = await record_count(settings, EVENTS)
    if records > MAX_RECORDS:
        raise Problem("conflict", f"{records:,} records are too many to read here: use `turnmill doctor --ledger`")
    async with one_at_a_time:
        taken = await take_stock(settings, await gateway.store())
    now = now_ms()
    oldest = max((now - at for at in taken.open_runs.values()), default=None)
    return Ledger(runs=taken.runs, stored=taken.stored, dead=taken.dead, open=taken.open, oldest_open_ms=oldest)

"""`GET /v1/ledger`: the loss ledger, in which every run on the topic is stored, a dead letter, or open."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import BaseModel, Field

from pipeline.gateway.connections import TheGateway
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.security import Admin
from pipeline.kafka.offsets import record_count
from pipeline.worker.ledger import take_stock
from topics.catalog import EVENTS
from turnmill.clock import now_ms

RECORDS: Final = 200_000  # on the events topic; of more, `turnmill doctor --ledger` takes stock

router = APIRouter(prefix="/v1/ledger", tags=["status"])
one_at_a_time = asyncio.Semaphore(1)


class Ledger(BaseModel):
    """Runs on the events topic, and what became of them: runs = stored + dead + open."""

    runs: int
    stored: int
    dead: Annotated[int, Field(description="Refused, and nothing of them stored.")]
    open: Annotated[int, Field(description="Not stored yet.")]
    oldest_open_ms: Annotated[int | None, Field(description="Silence of the open run that is silent for longest.")]


@router.get("", summary="Take stock of all runs", responses=documented("forbidden", "conflict"))
async def ledger(gateway: TheGateway, principal: Admin) -> Ledger:
    """Read the events topic whole, and so take a moment. For tokens without a tenant."""
    if principal.tenant is not None:
        raise Problem("forbidden", "the ledger is of all tenants: use a token without one")
    settings = gateway.settings
    records = await record_count(settings, EVENTS)
    if records > RECORDS:
        raise Problem("conflict", f"{records:,} records are too many to read here: use `turnmill doctor --ledger`")
    async with one_at_a_time:
        taken = await take_stock(settings, await gateway.store())
    now = now_ms()
    oldest = max((now - at for at in taken.open_runs.values()), default=None)
    return Ledger(runs=taken.runs, stored=taken.stored, dead=taken.dead, open=taken.open, oldest_open_ms=oldest)

"""The audit log over HTTP: who changed or exported something."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from pipeline.gateway.access.security import Admin, TheAdmission
from pipeline.gateway.parameters import PRIVATE, Moment, Tenant
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.state import TheGateway
from pipeline.stores.accounts.audit import AuditQuery, audit_page
from turnmill.errors import CallerError

MAX_PAGE: Final = 500

router = APIRouter(prefix="/v1/audit", tags=["tokens"])


class Recorded(BaseModel):
    """An action: ids and names, never contents."""

    at: int = Field(description="Epoch milliseconds.")
    who: str = Field(description="Name of the token or person; empty if unknown.")
    token: str = Field(description="Id of the token or session; empty for a token of the settings.")
    address: str = Field(description="Where the request came from.")
    action: str
    subject: str = Field(description="Id of the object that was changed or read.")
    tenant: str | None = Field(description="The object's tenant; null if it belongs to all tenants.")
    outcome: str = Field(description="`done`, `failed` or `refused`.")


class Page(BaseModel):
    """Entries, newest first; pass `next` as `cursor` for the next page."""

    records: list[Recorded]
    next: str | None


@router.get("", summary="Who did what", responses=documented("bad-cursor", "bad-request", "forbidden", "conflict"))
async def read_audit(
    gateway: TheGateway,
    admission: TheAdmission,
    principal: Admin,
    response: Response,
    tenant: Tenant = None,
    who: Annotated[str | None, Query(max_length=500, description="Only actions of this name.")] = None,
    what: Annotated[str | None, Query(max_length=100, description="This action; `token`: all on tokens.")] = None,
    since: Annotated[Moment | None, Query(description="At or after this time.")] = None,
    until: Annotated[Moment | None, Query(description="Before this time.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Entries on a page.")] = 100,
    cursor: Annotated[str | None, Query(max_length=200, description="`next` of the previous page.")] = None,
) -> Page:
    """Return what people and tokens changed or exported, newest first. Actions appear here within seconds."""
    if admission.trail is None:
        raise Problem("conflict", "TURNMILL_AUDIT_RETENTION is 0: only the log has who did what")
    wanted = AuditQuery(principal.bounded(tenant), who, what, since, until)
    try:
        found, more = await audit_page(await gateway.store(), wanted, limit, cursor)
    except CallerError as error:
        raise Problem("bad-cursor", str(error)) from None
    response.headers.update(PRIVATE)
    return Page(records=[Recorded(**asdict(one)) for one in found], next=more)

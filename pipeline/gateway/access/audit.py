"""The audit log over HTTP, and its entries of refused requests and of exports; routes write those of changes.

Both are logged once a minute for the same caller and place, and only if the store keeps entries.
"""

from dataclasses import asdict
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from pipeline.gateway.access.security import Admin, Admission, TheAdmission, admission_of
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.routing import PRIVATE, Moment, Tenant
from pipeline.gateway.state import TheGateway
from pipeline.observability.audit import REFUSED, Actor, acting, audit, of
from pipeline.stores.accounts.audit import AuditQuery, audit_page
from turnmill.clock import now_ms
from turnmill.errors import CallerError

MAX_PAGE: Final = 500
CREDENTIALS: Final = ("authorization", "turnmill-token")  # headers

router = APIRouter(prefix="/v1/audit", tags=["tokens"])


class AuditEntry(BaseModel):
    """An action: ids and names, never contents."""

    at: int = Field(description="Epoch milliseconds.")
    who: str = Field(description="Name of the token or person; empty if unknown.")
    token: str = Field(description="Id of the token or session; empty for a token of the settings.")
    address: str = Field(description="Where the request came from.")
    action: str
    subject: str = Field(description="Id of the object that was changed or read.")
    tenant: str | None = Field(description="The object's tenant; null if it belongs to all tenants.")
    outcome: str = Field(description="`done`, `failed` or `refused`.")


class AuditPage(BaseModel):
    """Entries, newest first; pass `next` as `cursor` for the next page."""

    records: list[AuditEntry]
    next: str | None


class AuditParameters(BaseModel):
    """The query of the audit log."""

    tenant: Tenant = None
    who: str | None = Field(None, max_length=500, description="Only actions of this name.")
    what: str | None = Field(None, max_length=100, description="This action; `token`: all on tokens.")
    since: Moment | None = Field(None, description="At or after this time.")
    until: Moment | None = Field(None, description="Before this time.")
    limit: int = Field(100, ge=1, le=MAX_PAGE, description="Entries on a page.")
    cursor: str | None = Field(None, max_length=200, description="`next` of the previous page.")


@router.get("", summary="Who did what", responses=documented("bad-cursor", "bad-request", "conflict"))
async def read_audit(
    gateway: TheGateway,
    admission: TheAdmission,
    principal: Admin,
    response: Response,
    asked: Annotated[AuditParameters, Query()],
) -> AuditPage:
    """Return what people and tokens changed or exported, newest first. Actions appear here within seconds."""
    if admission.trail is None:
        raise Problem("conflict", "TURNMILL_AUDIT_RETENTION is 0: only the log has who did what")
    query = AuditQuery(principal.bounded(asked.tenant), asked.who, asked.what, asked.since, asked.until)
    try:
        entries, more = await audit_page(await gateway.store(), query, asked.limit, asked.cursor)
    except CallerError as error:
        raise Problem("bad-cursor", str(error)) from None
    response.headers.update(PRIVATE)
    return AuditPage(records=[AuditEntry(**asdict(entry)) for entry in entries], next=more)


def refused(request: Request) -> None:
    """Log a refused request. One without credentials is not logged: each page load begins with such a request."""
    admission = admission_of(request)
    actor, people = acting.get(), admission.authenticator.people
    named = any(name in request.headers for name in CREDENTIALS)
    named = named or (people is not None and people.cookie in request.cookies)
    if admission.trail is None or (actor is None and not named):
        return
    actor = actor or admission.act(request.scope)
    what = f"{request.method} {getattr(request.scope.get('route'), 'path', request.url.path)}"
    if admission.trail.is_new(now_ms(), _whose(actor), ("line", *_who(actor), what)):
        audit.warning(
            "%s refused, to %r at %s", what, actor.name, actor.address, extra=of("refused", what, actor.tenant, REFUSED)
        )


def _whose(actor: Actor) -> str | None:
    """Return the tenant of a caller, "" for none; None for a caller that nobody knows."""
    return (actor.tenant or "") if actor.name else None


def _who(actor: Actor) -> tuple[str, str, str]:
    return actor.name, actor.token, actor.address


def read_out(admission: Admission, action: str, subject: str, tenant: str | None) -> None:
    """Log that the caller exported data from the gateway."""
    actor = acting.get()
    if admission.trail is None or actor is None:
        return
    if admission.trail.is_new(now_ms(), _whose(actor), (*_who(actor), action, subject)):
        audit.info("%s of %r, by %r", action, subject, actor.name, extra=of(action, subject, tenant))

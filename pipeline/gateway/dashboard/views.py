"""Saved views over HTTP: addresses of the dashboard with their filters, private or shared within the tenant."""

from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from pipeline.gateway.access.principal import Principal
from pipeline.gateway.access.security import Editor, Reader, TheAdmission
from pipeline.gateway.access.token_table import Name
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.state import Gateway, TheGateway
from pipeline.stores.accounts.views import View, add_view, drop_view, views_of
from turnmill.clock import now_ms
from turnmill.limits import VIEWS

router = APIRouter(prefix="/v1/views", tags=["threads"])


class ViewRequest(BaseModel, extra="forbid"):
    """The wanted view."""

    name: Name
    address: str = Field(
        max_length=2000, pattern=r"^#/(threads|search)?(\?[!-~]*)?$", description="`#/threads?status=…`"
    )
    shared: bool = Field(False, description="Share with all of the same tenant; on an open gateway, always.")


class SavedView(BaseModel):
    """A view; `own`: the caller may delete it."""

    id: str
    name: str
    address: str
    shared: bool
    owner: str
    own: bool


class ViewList(BaseModel):
    """The views that the caller sees."""

    views: list[SavedView]


@router.get("", summary="Saved views")
async def list_views(gateway: TheGateway, principal: Reader) -> ViewList:
    """Return the caller's views of the dashboard, and those shared within the tenant."""
    return ViewList(views=[_shown(principal, view) for view in await _all(gateway, principal)])


@router.post("", status_code=201, summary="Save a view", responses=documented("conflict"))
async def save_view(gateway: TheGateway, admission: TheAdmission, principal: Editor, wanted: ViewRequest) -> SavedView:
    """Save an address of the dashboard with its filters."""
    shared = wanted.shared or admission.authenticator.open
    who = principal.name, principal.tenant
    made = View(uuid4().hex, *who, wanted.name, wanted.address, shared, now_ms(), principal.identity)
    if not await add_view(await gateway.store(), made, VIEWS):
        raise Problem("conflict", f"there are {VIEWS:,} views already: delete one")
    return _shown(principal, made)


@router.delete("/{view_id}", status_code=204, summary="Delete a view", responses=documented("not-found"))
async def delete_view(gateway: TheGateway, principal: Editor, view_id: Annotated[str, Path(max_length=100)]) -> None:
    """Delete a view of the caller; with the scope `admin`, any shared one of the tenant."""
    view = next((view for view in await _all(gateway, principal) if view.id == view_id), None)
    if view is None:
        raise Problem("not-found", f"there is no view {view_id!r:.200}: GET /v1/views lists those that there are")
    if not _shown(principal, view).own:
        raise Problem("forbidden", f"this view is {view.owner!r:.100}'s")
    await drop_view(await gateway.store(), view_id)


async def _all(gateway: Gateway, principal: Principal) -> list[View]:
    return await views_of(await gateway.store(), principal.identity, principal.tenant)


def _shown(principal: Principal, view: View) -> SavedView:
    is_own = view.identity == principal.identity or "admin" in principal.scopes
    return SavedView(id=view.id, name=view.name, address=view.address, shared=view.shared, owner=view.owner, own=is_own)

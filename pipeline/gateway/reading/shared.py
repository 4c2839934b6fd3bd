"""Links to threads over HTTP. Callers make and end links; people read a thread by its link, without a token."""

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from pipeline.dialects import FORMATS
from pipeline.gateway.access.security import Editor, Linked, TheAdmission
from pipeline.gateway.access.token_table import made_token, new_secret
from pipeline.gateway.problems import OF_STORED, Problem, documented
from pipeline.gateway.reading.long_threads import page_of
from pipeline.gateway.routing import JSON, Tenant, ThreadId
from pipeline.gateway.state import TheGateway, TheSlots
from pipeline.observability.audit import about, audit
from pipeline.stores.keeping.links import add_link, end_links_of
from pipeline.stores.threads.pages import MAX_PAGE, PAGE, PageWanted
from topics import json_text
from turnmill.clock import now_ms
from turnmill.errors import CallerError

router = APIRouter(prefix="/v1", tags=["threads"])

Seconds = Annotated[int | None, Query(ge=1, le=2**31, description="Its life, if shorter than it may be.")]
Turn = Annotated[str | None, Query(max_length=500)]


class MadeLink(BaseModel):
    """A link, whose secret is shown only once."""

    id: str
    token: str
    address: Annotated[str, Field(description="Of the page, on this gateway; the secret is in the fragment.")]
    expires_at: Annotated[int, Field(description="Epoch milliseconds.")]


class EndedLinks(BaseModel):
    """The number of links to a thread that the request ended."""

    ended: int


@router.post(
    "/threads/{thread_id}/share",
    status_code=201,
    summary="Make a link to a thread",
    responses=OF_STORED | documented("bad-request"),
)
async def share_thread(
    gateway: TheGateway,
    admission: TheAdmission,
    principal: Editor,
    thread_id: ThreadId,
    seconds: Seconds = None,
    tenant: Tenant = None,
) -> MadeLink:
    """Make a link by which anybody reads the thread, and nothing else, for TURNMILL_GATEWAY_SHARE_SECONDS at most.

    It ends no later than the caller's token or session, with the thread, and when that token is revoked.
    """
    if admission.authenticator.open:
        raise Problem("conflict", "without tokens, who reaches this gateway reads all: send the thread's address")
    if "read" not in principal.scopes:
        raise Problem("forbidden", f"the token {principal.name!r:.100} can't share what it may not read")
    key = await gateway.find(thread_id, principal.bounded(tenant))
    longest = gateway.settings.gateway_share_seconds
    until = now_ms() + 1000 * min(longest, seconds or longest)
    secret = new_secret()
    made = made_token(
        secret,
        f"link of {principal.name}",
        (),
        key.tenant,
        by=principal.name,
        expires_at=min(until, principal.ends or until),
        rate=principal.rate,
        addresses=principal.addresses,
    )
    try:
        await add_link(await gateway.store(), key, replace(made, thread=key.text, maker=principal.maker))
    except CallerError as error:
        raise Problem("conflict", str(error)) from None
    admission.authenticator.made.renew()
    audit.info("link %s to thread %s, by %s", made.id, key.text, principal.text, extra=about(key, "thread.share"))
    return MadeLink(id=made.id, token=secret, address=f"/#/shared/{secret}", expires_at=made.expires_at or until)


@router.delete("/threads/{thread_id}/share", summary="End all links to a thread", responses=OF_STORED)
async def end_shares(
    gateway: TheGateway, admission: TheAdmission, principal: Editor, thread_id: ThreadId, tenant: Tenant = None
) -> EndedLinks:
    """End all links to a thread, whoever made them. Each gateway refuses them at the latest a second later."""
    key = await gateway.find(thread_id, principal.bounded(tenant))
    ended = await end_links_of(await gateway.store(), key)
    admission.authenticator.made.renew()
    audit.info("ended %d links to %s, by %s", ended, key.text, principal.text, extra=about(key, "thread.unshare"))
    return EndedLinks(ended=ended)


@router.get("/shared", summary="Read a shared thread", response_class=Response)
async def read_shared(
    gateway: TheGateway,
    slots: TheSlots,
    key: Linked,
    last: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Turns on the page.")] = PAGE,
    before: Turn = None,
    after: Turn = None,
    branch: Turn = None,
) -> Response:
    """Return a page of the thread that the link is for, as `GET /v1/threads/ID?last=` does."""
    form = FORMATS["thread"]
    async with slots.reads.taken(key.tenant or ""):
        document, ends = await page_of(gateway, key, PageWanted(last, before or None, after, branch), form)
        data = await asyncio.to_thread(lambda: json_text.to_bytes({**form.printed(document), **ends}))
    return Response(data, media_type=JSON)

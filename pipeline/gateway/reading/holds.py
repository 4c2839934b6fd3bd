"""Holding threads over HTTP: a held thread is neither deleted nor does it expire."""

from fastapi import APIRouter
from pydantic import BaseModel

from pipeline.gateway.access.principal import Principal
from pipeline.gateway.access.security import Admin
from pipeline.gateway.problems import OF_STORED, Problem
from pipeline.gateway.routing import Tenant, ThreadId
from pipeline.gateway.state import TheGateway
from pipeline.observability.audit import about, audit
from pipeline.stores.keeping import holding as stored_holding
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError

router = APIRouter(prefix="/v1/threads", tags=["threads"])


class Hold(BaseModel):
    """The state of a thread's hold; `changed`: this request changed it."""

    thread_id: str
    held: bool
    changed: bool


@router.put("/{thread_id}/hold", summary="Hold a thread", responses=OF_STORED)
async def hold_thread(gateway: TheGateway, principal: Admin, thread_id: ThreadId, tenant: Tenant = None) -> Hold:
    """Hold a thread: until it is released, it can't be deleted, and does not expire, whatever the retention.

    Each hold is a line in the audit log.
    """
    key = await gateway.find(thread_id, principal.bounded(tenant))
    store = await gateway.store()
    try:
        changed = await stored_holding.hold_thread(store, key)
    except CallerError as error:
        raise Problem("conflict", str(error)) from None
    return _held(principal, key, held=True, changed=changed)


@router.delete("/{thread_id}/hold", summary="Release a held thread", responses=OF_STORED)
async def release_thread(gateway: TheGateway, principal: Admin, thread_id: ThreadId, tenant: Tenant = None) -> Hold:
    """Release a thread: it can be deleted again, and expires by its age."""
    key = await gateway.find(thread_id, principal.bounded(tenant))
    changed = await stored_holding.release_thread(await gateway.store(), key)
    return _held(principal, key, held=False, changed=changed)


def _held(principal: Principal, key: ThreadKey, *, held: bool, changed: bool) -> Hold:
    done, action = ("held", "thread.hold") if held else ("released", "thread.release")
    audit.info("%s thread %s, by %s", done, key.text, principal.text, extra=about(key, action))
    return Hold(thread_id=key.thread_id, held=held, changed=changed)

"""Stored threads over HTTP: list, read in any format, the tree of sub-agents, delete."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, Field

from pipeline.assembly.format import WrongOption
from pipeline.dialects import FORMATS
from pipeline.gateway.access.audit import read_out
from pipeline.gateway.access.security import Admin, Reader, TheAdmission
from pipeline.gateway.parameters import JSON, PRIVATE, Moment, Tenant, ThreadId
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.reading.slots import TheSlots
from pipeline.gateway.route_facts import facts
from pipeline.gateway.state import Gateway, TheGateway, unknown_thread
from pipeline.stores.database.errors import HeldThread, StoreError
from pipeline.stores.keeping.erasure import erase
from pipeline.stores.search import threads as stored_threads
from pipeline.stores.threads import reading as stored_reading
from pipeline.stores.threads.feedback import feedback_of
from pipeline.stores.threads.list_statements import SORTS, UPDATED, ListQuery
from pipeline.stores.threads.reading import spawned_threads, thread_summary
from pipeline.stores.threads.requests import request_bodies
from pipeline.stores.threads.summaries import ThreadPage, ThreadSummary
from pipeline.turns.branches import UnknownBranch
from pipeline.turns.requests import named_in, with_bodies
from pipeline.turns.thread_document import UnknownTurn, last_turns
from topics import json_text
from topics.feedback import shown as shown_feedback
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.limits import TREE_THREADS

MAX_DEPTH: Final = 20  # levels of a tree

router = APIRouter(prefix="/v1/threads", tags=["threads"])

FORMAT_NAMES: Final = tuple(FORMATS)
SORT_NAMES: Final = tuple(SORTS)
MAX_USD: Final = 1e9
OFF: Final = "searches are turned off here: TURNMILL_SEARCH"


class ThreadTree(BaseModel):
    """A thread and the threads that it spawned, oldest first. `more`: some are left out."""

    thread: ThreadSummary
    spawned: list[ThreadTree]
    more: bool = False


class Deleted(BaseModel):
    """The result of a deletion."""

    thread_id: str
    objects: Annotated[int, Field(description="Number of large values deleted from the content store.")]
    segments: Annotated[int, Field(description="Number of archive segments that had rows of it.")]
    sub_agents: Annotated[list[str], Field(description="Threads deleted with it: only its sub-agents used them.")]
    held: Annotated[list[str], Field(description="Sub-agents' threads that were not deleted, since they are held.")]


@router.get("", summary="List threads", responses=documented("bad-cursor", "forbidden"))
@facts("own")
async def list_threads(
    gateway: TheGateway,
    slots: TheSlots,
    principal: Reader,
    limit: Annotated[int, Query(ge=1, le=1000, description="Threads on a page.")] = 50,
    cursor: Annotated[str | None, Query(max_length=500, description="`cursor` of the previous page.")] = None,
    agent: Annotated[str | None, Query(max_length=500, description="Only with an agent of this id or name.")] = None,
    tenant: Tenant = None,
    model: Annotated[str | None, Query(max_length=500, description="Only with this model's response last.")] = None,
    tool: Annotated[
        str | None,
        Query(max_length=500, description="Only threads that called this tool, in the newest 10,000 turns that did."),
    ] = None,
    min_cost: Annotated[
        float | None, Query(ge=0, le=MAX_USD, description="Only threads that cost at least this, in US dollars.")
    ] = None,
    status: Annotated[Literal["complete", "interrupted"] | None, Query(description="Status of the last turn.")] = None,
    since: Annotated[Moment | None, Query(description="Updated at or after this time.")] = None,
    until: Annotated[Moment | None, Query(description="Updated before this time.")] = None,
    begun_before: Annotated[
        Moment | None, Query(description="Begun before this time; with `since`: the threads active in between.")
    ] = None,
    external_id: Annotated[str | None, Query(max_length=1000, description="Only with this conversation id.")] = None,
    search: Annotated[str | None, Query(max_length=200, description="In title, first prompt, ids; any case.")] = None,
    sort: Annotated[Literal[SORT_NAMES], Query(description="Sort by this, greatest first.")] = UPDATED,  # type: ignore[valid-type]  # the names of a registry
) -> ThreadPage:
    """List threads, the last updated first. Pass `cursor` of the response for the next page; null on the last one.

    Times are milliseconds since 1970. Sorted by anything but the update, the list covers only the threads that were
    updated last; `sorted_among` is their number.
    """
    if tool is not None and gateway.settings.search == "off":
        raise Problem("conflict", f"tools are found by the words of turns, and {OFF}")
    bounded = principal.bounded(tenant)
    store = await gateway.store()
    try:
        # In a slot: if few threads match, all threads of the tenant are scanned.
        async with slots.searches.taken(bounded):
            wanted = ListQuery(
                agent=agent,
                tenant=bounded,
                search=search,
                external_id=external_id,
                status=status,
                since=since,
                until=until,
                begun_before=begun_before,
                model=model,
                tool=tool,
                min_cost=min_cost,
                sort=sort,
            )
            return await stored_threads.list_threads(store, limit, cursor, wanted)
    except CallerError as error:
        raise Problem("bad-cursor", str(error)) from None


@router.get(
    "/{thread_id}",
    summary="Read a thread",
    response_class=Response,
    responses={
        200: {"description": "The thread, or its messages", "content": {JSON: {"schema": {"type": "object"}}}},
        304: {"description": "Not changed since `If-None-Match`"},
        **documented("bad-request", "unknown-thread", "unknown-branch", "unknown-turn", "conflict", "forbidden"),
    },
)
@facts("own")
async def read_thread(
    gateway: TheGateway,
    slots: TheSlots,
    admission: TheAdmission,
    principal: Reader,
    thread_id: ThreadId,
    format_name: Annotated[
        Literal[FORMAT_NAMES],  # type: ignore[valid-type]  # the names of a registry
        Query(alias="format", description="ThreadProtocol, or the messages of an SDK."),
    ] = FORMAT_NAMES[0],
    inline: Annotated[  # noqa: FBT002  # FastAPI passes it by name
        bool, Query(description="Include large values from the content store; messages always do.")
    ] = False,
    for_version: Annotated[str | None, Query(max_length=50, description="Release of pydantic-ai, as 1.20.")] = None,
    viewing_agent: Annotated[str | None, Query(max_length=500, description="pydantic-ai: whose history it is.")] = None,
    repeat_prompt: Annotated[  # noqa: FBT002  # FastAPI passes it by name
        bool, Query(alias="repeat_user_prompt", description="thread: begin agent turns with the user's words.")
    ] = False,
    partial: Annotated[  # noqa: FBT002  # FastAPI passes it by name
        bool, Query(description="Include, marked, what interrupted turns had shown, but do not keep.")
    ] = False,
    branch: Annotated[
        str | None,
        Query(
            max_length=500,
            description="Id of a run or turn: return only its branch of a thread that forks. Empty: the newest.",
        ),
    ] = None,
    requests: Annotated[  # noqa: FBT002  # FastAPI passes it by name
        bool, Query(description="thread: include the requests to models, as `meta:requests`.")
    ] = False,
    feedback: Annotated[  # noqa: FBT002  # FastAPI passes it by name
        bool, Query(description="thread: include feedback, as `meta:feedback`.")
    ] = False,
    turns: Annotated[int | None, Query(ge=1, description="thread: only this number of last turns.")] = None,
    since_turn: Annotated[
        str | None, Query(max_length=500, description="thread: at least the turns from this `meta:turn_id` on.")
    ] = None,
    tenant: Tenant = None,
    if_none_match: Annotated[str | None, Header(max_length=2000)] = None,
) -> Response:
    """Return a thread: as `thread`, a ThreadProtocol 0.0.4 document; in other formats, `{"thread_id", "messages"}`.

    Of a thread that forks, `thread` has all branches, other formats the newest one, unless `branch` names one. The
    document's `meta:earlier` counts the turns that `turns` and `since_turn` leave out.
    """
    form = FORMATS[format_name]
    given = {"for_version": for_version, "viewing_agent": viewing_agent, "repeat_user_prompt": repeat_prompt}
    try:
        options = form.checked(given)
    except WrongOption as error:
        raise Problem("bad-request", str(error)) from None
    if not form.is_document and (turns is not None or since_turn is not None or requests or feedback):
        raise Problem(
            "bad-request", f"turns, since_turn, requests, feedback: the format {format_name} has no such options"
        )
    bounded, bodies = principal.bounded(tenant), dict[str, dict[str, Any]]()
    judged: list[dict[str, object]] | None = None

    def printed(document: dict[str, Any]) -> tuple[bytes, str]:
        made = form.printed(document, branch=branch, partial=partial, **options)
        shown = last_turns(made, turns, since_turn)
        if judged is not None:
            shown = {**shown, "meta:feedback": judged}
        data = json_text.dumps(with_bodies(shown, bodies) if requests else shown).encode()
        return data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'

    try:
        # In a slot until it is text: as Python values, a long conversation takes ten times as much memory.
        async with slots.reads.taken(bounded):
            found, document = await _document(gateway, bounded, thread_id, inline=inline or not form.is_document)
            if feedback and gateway.settings.feedback:
                judged = [shown_feedback(one) for one in (await feedback_of(await gateway.store(), [found]))[found]]
            if requests:
                bodies = await request_bodies(await gateway.store(), named_in(document), bounded)
            data, tag = await asyncio.to_thread(printed, document)
            del document
    except UnknownBranch as error:
        raise Problem("unknown-branch", str(error)) from None
    except UnknownTurn as error:
        raise Problem("unknown-turn", str(error)) from None
    headers = {**PRIVATE, "ETag": tag}
    if _matches(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    if not form.is_document:
        read_out(admission, "thread.export", found.thread_id, found.tenant or "")
    return Response(data, headers=headers, media_type=JSON)


@router.get(
    "/{thread_id}/tree",
    summary="A thread and its sub-agents' threads",
    responses=documented("unknown-thread", "conflict", "forbidden"),
)
@facts("own")
async def tree(gateway: TheGateway, principal: Reader, thread_id: ThreadId, tenant: Tenant = None) -> ThreadTree:
    """Return the threads spawned by this one, the threads spawned by them, and so on."""
    store = await gateway.store()
    found = await gateway.find(thread_id, principal.bounded(tenant))
    root = await thread_summary(store, found)
    if root is None:
        raise unknown_thread(thread_id)
    top = ThreadTree(thread=root, spawned=[])
    seen, level = {found.thread_id}, [top]  # all are of one tenant: no link leads to another tenant
    for _ in range(MAX_DEPTH):
        below: list[ThreadTree] = []
        for node in level:
            room = TREE_THREADS - len(seen)
            children = await spawned_threads(store, node.thread.key, room + 1) if room > 0 else ()
            node.more = room <= 0 or len(children) > room
            fresh = [child for child in children[: max(0, room)] if child.thread_id not in seen]
            seen.update(child.thread_id for child in fresh)
            node.spawned = [ThreadTree(thread=child, spawned=[]) for child in fresh]
            below += node.spawned
        level = below
    for node in level:
        node.more = True
    return top


@router.delete(
    "/{thread_id}", summary="Delete a thread", responses=documented("unknown-thread", "conflict", "forbidden")
)
@facts("deleted")
async def delete_thread(gateway: TheGateway, principal: Admin, thread_id: ThreadId, tenant: Tenant = None) -> Deleted:
    """Delete turns, usage, large values, and the archive's rows of a thread, for good; later records are not stored.

    Threads that only its sub-agents used are deleted, too. Each deletion is a line in the audit log. After a response
    other than 200, repeat the request.
    """
    found = await gateway.find(thread_id, principal.bounded(tenant))
    try:
        erased = await erase(gateway.settings, await gateway.store(), found, principal.text)
    except HeldThread as error:
        raise Problem("conflict", str(error)) from None
    gone, held = ([one.thread_id for one in some] for some in (erased.sub_agents, erased.held))
    return Deleted(
        thread_id=found.thread_id, objects=erased.objects, segments=erased.segments, sub_agents=gone, held=held
    )


async def _document(
    gateway: Gateway, tenant: str | None, thread_id: str, *, inline: bool
) -> tuple[ThreadKey, dict[str, Any]]:
    found = await gateway.find(thread_id, tenant)
    store = await gateway.store()
    document = await stored_reading.read_thread(store, found)
    if document is None:
        raise unknown_thread(thread_id)
    if not inline:
        return found, document
    try:
        return found, await gateway.contents.inlined(found, document, gateway.settings.gateway_response_bytes)
    except StoreError as error:
        if error.transient:
            raise
        raise Problem("conflict", f"{error}; format=thread without `inline` gives the references") from None


def _matches(if_none_match: str | None, tag: str) -> bool:
    """Return True if the header matches the tag (RFC 9110, 13.1.2): any of a list, weak or strong, or `*`."""
    given = [one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")]
    return tag in given or given == ["*"]

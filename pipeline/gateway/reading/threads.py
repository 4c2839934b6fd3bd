"""Stored threads over HTTP: list, read in any format, the tree of sub-agents, delete; what models were asked."""

from __future__ import annotations

import asyncio
import hashlib
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Path, Query, Response
from pydantic import BaseModel, Field

from pipeline.dialects import FORMATS
from pipeline.gateway.access.audit import read_out
from pipeline.gateway.access.security import Admin, Reader, TheAdmission
from pipeline.gateway.problems import OF_STORED, Problem, bounded_answer, documented
from pipeline.gateway.reading.long_threads import inlined, long_document, page_of, sent
from pipeline.gateway.routing import JSON, PRIVATE, Labels, Moment, Tenant, ThreadId, facts
from pipeline.gateway.state import TheGateway, TheSlots, unknown_thread
from pipeline.stores.keeping.erasure import erase, erase_user
from pipeline.stores.search import threads as stored_threads
from pipeline.stores.threads import reading as stored_reading
from pipeline.stores.threads.agents_and_requests import request_bodies
from pipeline.stores.threads.datasets import NAME_CHARACTERS, chosen_in
from pipeline.stores.threads.feedback import feedback_of, names_of
from pipeline.stores.threads.list_statements import SORTS, UPDATED, ListQuery
from pipeline.stores.threads.pages import MAX_PAGE, PAGE, PageWanted
from pipeline.stores.threads.reading import spawned_threads, thread_summary
from pipeline.stores.threads.summaries import ThreadPage, ThreadSummary
from pipeline.turns.judged import condition
from pipeline.turns.requests import named_in, with_bodies
from pipeline.turns.thread_document import last_turns, only_turns
from topics import json_text
from topics.feedback import shown as shown_feedback
from turnmill.errors import CallerError
from turnmill.labels import CHARACTERS
from turnmill.limits import TREE_THREADS

MAX_FEEDBACK: Final = 1_000  # of a thread in an answer
MAX_DEPTH: Final = 20  # levels of a tree

router = APIRouter(prefix="/v1", tags=["threads"])

FORMAT_NAMES: Final = tuple(FORMATS)
MAX_USD: Final = 1e9
Dataset = Annotated[str | None, Field(max_length=NAME_CHARACTERS)]
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


class ThreadFilters(Labels):
    """Which threads are meant."""

    agent: str | None = Field(None, max_length=500, description="Only with an agent of this id or name.")
    tenant: Tenant = None
    model: str | None = Field(None, max_length=500, description="Only with this model's response last.")
    min_cost: float | None = Field(
        None, ge=0, le=MAX_USD, description="Only threads that cost at least this, in US dollars."
    )
    status: Literal["complete", "interrupted"] | None = Field(None, description="Status of the last turn.")
    since: Moment | None = Field(None, description="Updated at or after this time.")
    search: str | None = Field(None, max_length=200, description="In title, first prompt, ids; any case.")
    feedback: str | None = Field(
        None, max_length=1000, description="Only with such feedback: `helpful=false`, `score<0.5`."
    )
    dataset: Dataset = Field(None, description="Only with a turn in this data set.")

    def wanted(self, tenant: str | None) -> ListQuery:
        """Return the query of the store, of the tenant that the caller may see. Raises Problem."""
        try:
            judged = None if self.feedback is None else condition(self.feedback)
        except ValueError as error:
            raise Problem("bad-request", f"feedback: {error}") from None
        asked = self.model_dump(exclude={"limit", "cursor", "tenant", "feedback"})
        return ListQuery(**asked, tenant=tenant, feedback=judged)


class ThreadsQuery(ThreadFilters):
    """The query of the list of threads."""

    limit: int = Field(50, ge=1, le=1000, description="Threads on a page.")
    cursor: str | None = Field(None, max_length=500, description="`cursor` of the previous page.")
    tool: str | None = Field(
        None, max_length=500, description="Only threads that called this tool, in the newest 10,000 turns that did."
    )
    until: Moment | None = Field(None, description="Updated before this time.")
    begun_before: Moment | None = Field(
        None, description="Begun before this time; with `since`: the threads active in between."
    )
    external_id: str | None = Field(None, max_length=1000, description="Only with this conversation id.")
    sort: Literal[tuple(SORTS)] = Field(UPDATED, description="Sort by this, greatest first.")  # type: ignore[valid-type]  # the names of a registry


class ThreadQuery(BaseModel):
    """The query of one thread: its format, and what of it."""

    format_name: Literal[FORMAT_NAMES] = Field(  # type: ignore[valid-type]  # the names of a registry
        FORMAT_NAMES[0], alias="format", description="ThreadProtocol, or the messages of an SDK."
    )
    inline: bool = Field(False, description="Include large values from the content store; messages always do.")
    for_version: str | None = Field(None, max_length=50, description="Release of pydantic-ai, as 1.20.")
    viewing_agent: str | None = Field(None, max_length=500, description="pydantic-ai: whose history it is.")
    repeat_user_prompt: bool = Field(False, description="thread: begin agent turns with the user's words.")
    partial: bool = Field(False, description="Include, marked, what interrupted turns had shown, but do not keep.")
    branch: str | None = Field(
        None,
        max_length=500,
        description="Id of a run or turn: return only its branch of a thread that forks. Empty: the newest.",
    )
    requests: bool = Field(False, description="thread: include the requests to models, as `meta:requests`.")
    feedback: bool = Field(False, description="thread: include the newest 1,000 of its feedback, as `meta:feedback`.")
    turns: int | None = Field(None, ge=1, description="thread: only this number of last turns.")
    since_turn: str | None = Field(
        None, max_length=500, description="thread: at least the turns from this `meta:turn_id` on."
    )
    last: int | None = Field(None, ge=1, le=MAX_PAGE, description=f"A page: this number of turns, else {PAGE}.")
    before: str | None = Field(None, max_length=500, description="A page: the turns before this one; `previous`.")
    after: str | None = Field(
        None, max_length=500, description="A page: the turns after this one; `next`. Empty: from the beginning."
    )
    dataset: Dataset = Field(None, description="Only the turns that are in this data set.")
    tenant: Tenant = None

    @property
    def is_page(self) -> bool:
        """Whether some turns are wanted, with the names of the pages beside them."""
        return self.last is not None or self.before is not None or self.after is not None

    @property
    def is_plain(self) -> bool:
        """Whether all turns are wanted, each as it is."""
        rest = self.model_dump(exclude={"format_name", "partial", "tenant", "for_version", "viewing_agent"})
        return not self.is_page and all(value is None or value is False for value in rest.values())


@router.get("/threads", summary="List threads", responses=documented("bad-cursor", "bad-request"))
@facts("own")
async def list_threads(
    gateway: TheGateway, slots: TheSlots, principal: Reader, query: Annotated[ThreadsQuery, Query()]
) -> ThreadPage:
    """List threads, the last updated first. Pass `cursor` of the response for the next page; null on the last.

    Times are milliseconds since 1970. Sorted by anything but the update, the list covers only the threads that were
    updated last; `sorted_among` is their number. `feedback` of each is the newest on it; with the query `feedback`, the
    newest that is so.
    """
    if query.tool is not None and gateway.settings.search == "off":
        raise Problem("conflict", f"tools are found by the words of turns, and {OFF}")
    bounded = principal.bounded(query.tenant)
    wanted, store = query.wanted(bounded), await gateway.store()
    try:
        # In a slot: if few threads match, all threads of the tenant are scanned.
        async with slots.searches.taken(bounded):
            return await stored_threads.list_threads(store, query.limit, query.cursor, wanted)
    except CallerError as error:
        raise Problem("bad-cursor", str(error)) from None


@router.get("/feedback", summary="Names of feedback")
async def read_feedback_names(gateway: TheGateway, principal: Reader, tenant: Tenant = None) -> dict[str, list[str]]:
    """Return as `names`, sorted, the first 100 names of feedback: by them threads are filtered, and usage is rated."""
    return {"names": await names_of(await gateway.store(), principal.bounded(tenant))}


@router.get(
    "/threads/{thread_id}",
    summary="Read a thread",
    response_class=Response,
    responses={
        200: {"description": "The thread, or its messages", "content": {JSON: {"schema": {"type": "object"}}}},
        304: {"description": "Not changed since `If-None-Match`"},
        **documented("bad-request", "unknown-thread", "unknown-branch", "unknown-turn", "conflict"),
    },
)
@facts("own")
async def read_thread(
    gateway: TheGateway,
    slots: TheSlots,
    admission: TheAdmission,
    principal: Reader,
    thread_id: ThreadId,
    query: Annotated[ThreadQuery, Query()],
    if_none_match: Annotated[str | None, Header(max_length=2000)] = None,
) -> Response:
    """Return a thread: as `thread`, a ThreadProtocol 0.0.4 document; in other formats, `{"thread_id", "messages"}`.

    Of a thread that forks, `thread` has all branches, other formats the newest, unless `branch` names another. The
    document's `meta:earlier` counts the turns that `turns` and `since_turn` leave out.

    With `last`, `before` or `after` it is a page, with `previous` and `next`: pass them as `before` and `after` of the
    next request; null where there are no more turns.
    """
    form = FORMATS[query.format_name]
    options = form.checked(query.model_dump(include={"for_version", "viewing_agent", "repeat_user_prompt"}))
    if not form.is_document and (query.turns or query.since_turn is not None or query.requests or query.feedback):
        raise Problem(
            "bad-request", f"turns, since_turn, requests, feedback: the format {query.format_name} has no such options"
        )
    if query.is_page and (query.turns or query.since_turn is not None):
        raise Problem("bad-request", "last, before and after make a page: turns and since_turn are no part of it")
    if query.dataset is not None and (query.is_page or query.branch is not None):
        raise Problem("bad-request", "dataset chooses among all turns: leave out last, before, after and branch")
    bounded, bodies = principal.bounded(query.tenant), dict[str, dict[str, Any]]()
    ends: dict[str, Any] = {}
    judged: list[dict[str, object]] | None = None
    has_more = False

    def printed(document: dict[str, Any]) -> tuple[bytes, str]:
        branch = None if query.is_page else query.branch
        made = form.printed(document, branch=branch, partial=query.partial, **options)
        shown = {**last_turns(made, query.turns, query.since_turn), **ends}
        if judged is not None:
            shown = {**shown, "meta:feedback": judged, **({"meta:feedback_more": True} if has_more else {})}
        data = json_text.to_bytes(with_bodies(shown, bodies) if query.requests else shown)
        return data, f'"{hashlib.sha256(data).hexdigest()[:32]}"'

    # In a slot until it is text: as Python values, a long conversation takes ten times as much memory.
    async with slots.reads.taken(bounded):
        key = await gateway.find(thread_id, bounded)
        if form.is_document and query.is_plain:
            whole = await long_document(gateway, key)
            if whole is not None:
                tag = f'"{whole.tag}{"-partial" if query.partial else ""}"'
                if _matches(if_none_match, tag):
                    return Response(status_code=304, headers={**PRIVATE, "ETag": tag})
                return sent(whole, tag, form, partial(slots.reads.taken, bounded), partial=query.partial)
        if query.is_page:
            branch = query.branch if form.is_document else query.branch or ""
            wanted = PageWanted(query.last or PAGE, query.before or None, query.after, branch)
            document, ends = await page_of(gateway, key, wanted, form)
        else:
            document = await stored_reading.read_thread(await gateway.store(), key) or {}
        if not document:
            raise unknown_thread(thread_id)
        if query.dataset is not None:
            chosen = await chosen_in(await gateway.store(), key, query.dataset, document)
            if not chosen:
                raise Problem("not-found", f"no turn of this thread is in a data set {query.dataset!r}")
            document = only_turns(document, chosen)
        if query.inline or not form.is_document:
            document = await inlined(gateway, key, document)
        if query.feedback and gateway.settings.feedback:
            newest = (await feedback_of(await gateway.store(), [key], MAX_FEEDBACK + 1))[key]
            judged = [shown_feedback(row) for row in newest[-MAX_FEEDBACK:]]
            has_more = len(newest) > MAX_FEEDBACK
        if query.requests:
            most = gateway.settings.gateway_response_bytes
            with bounded_answer("without `requests`, GET /v1/requests/ID has each"):
                bodies = await request_bodies(await gateway.store(), named_in(document), bounded, most)
        data, tag = await asyncio.to_thread(printed, document)
        del document
    headers = {**PRIVATE, "ETag": tag}
    if _matches(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    if not form.is_document:
        read_out(admission, "thread.export", key.thread_id, key.tenant or "")
    return Response(data, headers=headers, media_type=JSON)


@router.get("/threads/{thread_id}/tree", summary="A thread and its sub-agents' threads", responses=OF_STORED)
@facts("own")
async def tree(gateway: TheGateway, principal: Reader, thread_id: ThreadId, tenant: Tenant = None) -> ThreadTree:
    """Return the threads spawned by this one, the threads spawned by them, and so on."""
    store = await gateway.store()
    key = await gateway.find(thread_id, principal.bounded(tenant))
    root = await thread_summary(store, key)
    if root is None:
        raise unknown_thread(thread_id)
    top = ThreadTree(thread=root, spawned=[])
    seen, level = {key.thread_id}, [top]  # all are of the same tenant: no link leads to another tenant
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


@router.delete("/threads/{thread_id}", summary="Delete a thread", responses=OF_STORED)
@facts("deleted")
async def delete_thread(gateway: TheGateway, principal: Admin, thread_id: ThreadId, tenant: Tenant = None) -> Deleted:
    """Delete turns, usage, large values, and the archive's rows of a thread, for good; later records are not stored.

    Threads that only its sub-agents used are deleted, too. Each deletion is a line in the audit log. After a response
    other than 200, repeat the request.
    """
    key = await gateway.find(thread_id, principal.bounded(tenant))
    erased = await erase(gateway.settings, await gateway.store(), key, principal.text)
    gone, held = ([thread.thread_id for thread in threads] for threads in (erased.sub_agents, erased.held))
    return Deleted(
        thread_id=key.thread_id, objects=erased.objects, segments=erased.segments, sub_agents=gone, held=held
    )


class DeletedUser(BaseModel):
    """The result of the deletion of a user's threads."""

    threads: Annotated[int, Field(description="Number of deleted threads, with those of their sub-agents.")]
    held: Annotated[list[str], Field(description="Threads that were not deleted, since they are held.")]


@router.delete("/users/{user:path}", summary="Delete all threads of a user")
@facts("deleted", strangers=200)  # another tenant's user has no threads here, so none are deleted
async def delete_user(
    gateway: TheGateway,
    principal: Admin,
    user: Annotated[str, Path(max_length=CHARACTERS, description="As the label `user` has it.")],
    tenant: Tenant = None,
) -> DeletedUser:
    """Delete the threads with a run of this user, as each is deleted by itself; a tenant's, or those without a tenant.

    After a response other than 200, repeat the request.
    """
    of_tenant = principal.bounded(tenant) or ""
    count, held = await erase_user(gateway.settings, await gateway.store(), user, of_tenant, principal.text)
    return DeletedUser(threads=count, held=[key.thread_id for key in held])


@router.get("/requests/{sha256}", summary="What a model was asked", responses=documented("unknown-request"))
async def read_request(
    gateway: TheGateway,
    principal: Reader,
    response: Response,
    sha256: Annotated[str, Path(max_length=64, description="As `meta:request` of a response has it.")],
    tenant: Tenant = None,
) -> dict[str, Any]:
    """Return the body of a request in the form of the provider's API, without its messages."""
    bodies = await request_bodies(await gateway.store(), [sha256], principal.bounded(tenant))
    if sha256 not in bodies:
        raise Problem("unknown-request", f"no turn in the store names the request {sha256}")
    response.headers.update(PRIVATE)
    return bodies[sha256]


def _matches(if_none_match: str | None, tag: str) -> bool:
    """Return True if the header matches the tag (RFC 9110, 13.1.2): any of a list, weak or strong, or `*`."""
    given = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
    return tag in given or given == ["*"]

"""The SQL of lists of threads: which rows of `threads` are in them, by what a caller asks for. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Select, bindparam, func, or_, select, union_all
from sqlalchemy import tuple_ as row_of

from pipeline.stores.database.keys import decode_cursor, id_and_tenant
from pipeline.stores.database.schema import agents, dataset_turns, links, thread_agents, threads, turns
from pipeline.stores.threads.feedback import THREAD as OF_FEEDBACK
from pipeline.stores.threads.feedback import meets
from pipeline.stores.threads.labels import threads_with
from pipeline.stores.threads.rows import COMPLETE
from pipeline.stores.threads.statements import NAME
from pipeline.stores.threads.summaries import ThreadSummary
from pipeline.turns.column_text import column_text
from pipeline.turns.judged import Condition
from pipeline.turns.tokens import NANO
from topics.thread_key import ThreadKey
from turnmill.labels import KINDS

AMONG: Final = 10_000  # the most recently updated threads, among which a list is sorted if its order has no index
# The sort orders, greatest first -> the column, and how a line of the list contains it.
SORTS: Final[dict[str, tuple[Column[Any], Callable[[ThreadSummary], int]]]] = {
    "updated": (threads.c.updated_at, lambda line: line.updated_at),
    "created": (threads.c.created_at, lambda line: line.created_at),
    "turns": (threads.c.turns, lambda line: line.turns),
    "tokens": (threads.c.total_tokens, lambda line: line.tokens),
    "cost": (threads.c.cost_nano_usd, lambda line: round((line.cost_usd or 0) * NANO)),
    "duration": (threads.c.duration_ms, lambda line: line.duration_ms or 0),
}
UPDATED: Final = "updated"
MAX_NAMED: Final = 50  # threads of the same name that are listed: a producer may give a name to any number of threads


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The threads and the order of a list; times in epoch ms. None: any.

    `tenant`: "" for none. `agent`: id or name of an agent that speaks in them. `model`: that of the
    last response. `tool`: a tool that was called; only if searches are on. `search`: text in title, first prompt or
    ids, in any case. `since`, `until`: of the last update. `begun_before`: with `since`, threads that existed within a
    period. `min_cost`: US dollars. `user` to `tag`: labels of any of their runs. `feedback`: what some feedback on
    them meets. `dataset`: with a turn in their tenant's data set of this name. `sort`: a key of SORTS.
    """

    agent: str | None = None
    tenant: str | None = None
    search: str | None = None
    external_id: str | None = None
    status: str | None = None
    since: int | None = None
    until: int | None = None
    begun_before: int | None = None
    model: str | None = None
    tool: str | None = None
    min_cost: float | None = None
    user: str | None = None
    environment: str | None = None
    project: str | None = None
    branch: str | None = None
    tag: str | None = None
    feedback: Condition | None = None
    dataset: str | None = None
    sort: str = UPDATED


ALL: Final = ListQuery()


def thread_list(limit: int, cursor: str | None, wanted: ListQuery, callers: Select[Any] | None = None) -> Select[Any]:
    """Return a query of `limit` + 1 rows of `threads`; `callers`: ids for `wanted.tool`. Raises CallerError."""
    rows: Any = threads
    among = [] if callers is None else [threads.c.id.in_(callers)]
    query = select(threads).order_by(threads.c.updated_at.desc(), threads.c.id.desc())
    query = query.where(*among, *conditions(wanted))
    if wanted.sort != UPDATED:
        rows = query.limit(AMONG).subquery()
        query = select(rows)
    value = func.coalesce(rows.c[SORTS[wanted.sort][0].name], 0) if wanted.sort != UPDATED else rows.c.updated_at
    if wanted.sort != UPDATED:
        query = query.order_by(value.desc(), rows.c.id.desc())
    if cursor is not None:
        query = query.where(row_of(value, rows.c.id) < row_of(*decode_cursor(cursor)))
    return query.limit(limit + 1)


def of_tenant(tenant: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions that a row of `threads` is a tenant's: "" means threads without a tenant, None any."""
    return [] if tenant is None else [threads.c.tenant == (column_text(tenant) or "")]


def speaks(agent: str) -> ColumnElement[bool]:
    """Return the condition that an agent with this id or name speaks in a thread."""
    text = column_text(agent)
    by_id, by_name = (select(agents.c.id).where(column == text) for column in (agents.c.agent_id, agents.c.agent_name))
    return threads.c.id.in_(select(thread_agents.c.thread).where(thread_agents.c.agent.in_(union_all(by_id, by_name))))


def conditions(wanted: ListQuery) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of a list of threads, except that of `tool`."""
    yield from of_tenant(wanted.tenant)
    if wanted.agent is not None:
        yield speaks(wanted.agent)
    if wanted.search:
        texts = (threads.c.title, threads.c.prompt, threads.c.external_id, threads.c.thread_id)
        yield or_(*(text.icontains(column_text(wanted.search), autoescape=True) for text in texts))
    if wanted.external_id is not None:
        yield threads.c.external_id == column_text(wanted.external_id)
    if wanted.status is not None:
        yield threads.c.status == COMPLETE if wanted.status == "complete" else threads.c.status < COMPLETE
    if wanted.since is not None:
        yield threads.c.updated_at >= wanted.since
    if wanted.until is not None:
        yield threads.c.updated_at < wanted.until
    if wanted.begun_before is not None:
        yield threads.c.created_at < wanted.begun_before
    if wanted.model is not None:
        yield threads.c.model == column_text(wanted.model)
    if wanted.min_cost is not None:
        yield threads.c.cost_nano_usd >= round(wanted.min_cost * NANO)
    for kind in KINDS:
        if (label := getattr(wanted, kind)) is not None:
            yield threads.c.id.in_(threads_with(kind, [label]))
    if wanted.feedback is not None:
        yield row_of(threads.c.thread_id, threads.c.tenant).in_(select(*OF_FEEDBACK).where(meets(wanted.feedback)))
    if wanted.dataset is not None:
        chosen = select(dataset_turns.c.thread_id, dataset_turns.c.tenant)
        chosen = chosen.where(dataset_turns.c.dataset == column_text(wanted.dataset))
        if wanted.tenant is not None:
            chosen = chosen.where(dataset_turns.c.tenant == (column_text(wanted.tenant) or ""))
        yield row_of(threads.c.thread_id, threads.c.tenant).in_(chosen)


def declaring(conversation_id: str, tenant: str | None) -> Select[Any]:
    """Return a query of the first threads to which their producer gave this id; `tenant` as in `of_tenant`."""
    query = select(*NAME).where(threads.c.external_id == column_text(conversation_id), *of_tenant(tenant))
    return query.order_by(threads.c.thread_id, threads.c.tenant).limit(MAX_NAMED)


def spawned_from(key: ThreadKey, limit: int | None) -> Select[Any]:
    """Return a query of the rows of `threads` with a `spawned_from` link to this thread, the oldest first."""
    thread_id, tenant = id_and_tenant(key)
    holders = threads.alias("holders")
    sources = (
        select(links.c.source).join(turns, links.c.turn == turns.c.id).join(holders, turns.c.thread == holders.c.id)
    )
    sources = sources.where(links.c.target == thread_id, links.c.relation == "spawned_from", holders.c.tenant == tenant)
    query = select(threads).where(threads.c.tenant == tenant, threads.c.thread_id.in_(sources))
    return (
        query.where(threads.c.thread_id != thread_id).order_by(threads.c.created_at, threads.c.thread_id).limit(limit)
    )


@cache
def agent_names() -> Select[Any]:
    """Return a query of thread and agent's name, each once, of its parameter `threads`."""
    name = func.coalesce(agents.c.agent_name, agents.c.agent_id)
    query = select(thread_agents.c.thread, name).join(agents, thread_agents.c.agent == agents.c.id)
    mine = thread_agents.c.thread.in_(bindparam("threads", expanding=True))
    return query.where(mine).distinct().order_by(name)

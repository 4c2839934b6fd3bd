"""The threads that wait for an answer: an approval, a result of the client's, or one to a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.documents import keys_of
from pipeline.stores.keys import IdOf
from pipeline.stores.list_statements import listed
from pipeline.stores.schema import WAITING, agents, threads
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thread, with what its newest turn asks: see `pipeline.turns.pending`. `since`: epoch ms of the turn's end."""

    thread_id: str
    external_id: str | None
    title: str | None
    tenant: str | None
    turn_id: str
    run_id: str
    agent_id: str
    agent_name: str | None
    dialect: str
    since: int
    asked: list[dict[str, Any]]

    @property
    def thread(self) -> ThreadKey:
        """The thread's key."""
        return ThreadKey.of(self.thread_id, self.tenant)


@dataclass(frozen=True, slots=True)
class WaitingWanted:
    """Which threads; None: any. `tenant`: "" means those without one; `thread`: its id, as `thread_uuid` gives it, and
    the id that its producer gave it.
    """

    tenant: str | None = None
    agent: str | None = None
    thread: tuple[str, str] | None = None


def waiting_threads(wanted: WaitingWanted, limit: int) -> Select[Any]:
    """-> rows of `threads` that wait, the last updated first."""
    query = select(threads).where(WAITING, *listed(wanted.tenant))
    if wanted.agent is not None:
        own = agents.c.thread_key == threads.c.thread_key
        query = query.where(exists().where(own, agents.c.agent_id == column_text(wanted.agent)))
    if wanted.thread is not None:
        thread_id, external_id = (column_text(text) for text in wanted.thread)
        query = query.where((IdOf(threads.c.thread_key) == thread_id) | (threads.c.external_id == external_id))
    return query.order_by(threads.c.updated_at.desc(), threads.c.thread_key.desc()).limit(limit)


async def waiting(connection: AsyncConnection, wanted: WaitingWanted, limit: int) -> list[Waiting]:
    """-> the threads, the last updated first."""
    rows = (await connection.execute(waiting_threads(wanted, limit))).all()
    keys = await keys_of(connection, [(row.thread_key, row.tenant) for row in rows])
    found = []
    for row in rows:
        thread = next(iter(keys[row.thread_key]), ThreadKey.parse(row.thread_key))
        title = row.title or row.prompt
        found.append(Waiting(thread.thread_id, row.external_id, title, thread.tenant, **row.asked))
    return found

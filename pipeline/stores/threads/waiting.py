"""The threads that wait for an answer: to an approval, for a client-side tool's result, or to a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from pipeline.stores.database.keys import thread_of
from pipeline.stores.database.schema import WAITING, threads
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.list_statements import of_tenant, speaks
from pipeline.turns.column_text import column_text
from topics.thread_key import ThreadKey
from turnmill.control.claims import answer_id


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thread, with what its newest turn asks: see `pipeline.turns.pending`. `since`: epoch ms of the turn's end.

    Each question also has its `answer_id`, by which it is answered.
    """

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
    """The wanted threads, None for any; `tenant`: "" for none; `thread`: its `thread_uuid`, and the producer's id."""

    tenant: str | None = None
    agent: str | None = None
    thread: tuple[str, str] | None = None


def with_ids(run_id: str, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a run's questions with their answer ids, which use a question's index if its wire has no id for it."""
    return [{"answer_id": answer_id(run_id, question["id"] or str(n)), **question} for n, question in enumerate(asked)]


async def waiting_threads(store: ThreadStore, wanted: WaitingWanted, limit: int = 100) -> list[Waiting]:
    """Return the threads whose newest turn waits for an answer, the last updated first."""
    query = select(threads).where(WAITING, *of_tenant(wanted.tenant))
    if wanted.agent is not None:
        query = query.where(speaks(wanted.agent))
    if wanted.thread is not None:
        thread_id, external_id = (column_text(text) for text in wanted.thread)
        query = query.where((threads.c.thread_id == thread_id) | (threads.c.external_id == external_id))
    query = query.order_by(threads.c.updated_at.desc(), threads.c.id.desc()).limit(limit)
    waiting = []
    for row in await store.rows(query):
        thread = thread_of(row)
        title = row.title or row.prompt
        known = {**row.asked, "asked": with_ids(row.asked["run_id"], row.asked["asked"])}
        waiting.append(Waiting(thread.thread_id, row.external_id, title, thread.tenant, **known))
    return waiting

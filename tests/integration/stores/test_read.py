"""What ThreadStore answers."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pipeline.settings import Settings
from pipeline.stores import content, documents, sql
from pipeline.stores.content import ContentStore
from pipeline.stores.sql import ThreadStore
from pipeline.stores.summaries import Counts
from pipeline.stores.usage_report import UsageQuery
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid

CHAT = thread_uuid("chat")[0]


async def test_an_empty_store_answers(store: ThreadStore) -> None:
    page = await store.threads()
    assert (page.threads, page.cursor) == ((), None)
    assert await store.thread(ThreadKey(CHAT)) is None
    assert await store.find("chat") == ()
    report = await store.usage(UsageQuery(("model",), "day"))
    assert (report.rows, report.total.requests, report.total.ttft_ms.p50, report.unpriced) == ((), 0, None, {})
    assert await store.counts() == Counts(0, 0, 0, 0)
    assert [document async for _, document in store.documents()] == []
    assert await store.delete_thread(ThreadKey(CHAT)) is False


async def test_threads_are_read_beside_the_event_loop(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: dict[str, bool] = {}
    in_loop = threading.get_ident()
    for module, name in (
        (documents, "record_of"),
        (documents, "thread_document"),
        (sql, "used_by"),
        (content, "references"),
    ):
        real = getattr(module, name)

        def noted(*arguments: Any, real: Any = real, name: str = name) -> Any:
            called[name] = called.get(name, True) and threading.get_ident() != in_loop
            return real(*arguments)

        monkeypatch.setattr(module, name, noted)
    await store.write([record(tokens=5)])
    document = await store.thread(ThreadKey(CHAT))
    assert document is not None
    assert (await ContentStore.of(Settings()).inlined(ThreadKey(CHAT), document)) == document
    assert len(await store.turn_usage(ThreadKey(CHAT))) == 1
    assert called == {"record_of": True, "thread_document": True, "used_by": True, "references": True}


async def test_a_summary_says_what_the_thread_is_about(store: ThreadStore, record: Any) -> None:
    await store.write(
        [
            record(run="r1", ordinal="user", role="user", seconds=1, text="What is\nthe weather?", agents=[]),
            record(run="r1", seconds=2, tokens=100),
            record(run="r2", seconds=9, agent_id="bob", status="interrupted", tokens=7),
        ]
    )
    (summary,) = (await store.threads()).threads
    document = await store.thread(ThreadKey(CHAT))
    assert document is not None
    assert (summary.thread_id, summary.external_id, summary.title) == (CHAT, "chat", "What is the weather?")
    assert (summary.agents, summary.turns, summary.status) == (("A1", "Bob"), 3, "interrupted")
    assert summary.tokens == 109
    assert (summary.created_at, summary.updated_at) == (1768903201000, 1768903209500)
    assert (document["created_at"], document["updated_at"]) == ("2026-01-20T10:00:01.000Z", "2026-01-20T10:00:09.500Z")


async def test_a_title_comes_before_the_prompt_and_the_newest_counts(store: ThreadStore, record: Any) -> None:
    await store.write(
        [record(seconds=3, thread={"title": "new"}), record(run="r0", seconds=2, thread={"title": "old"})]
    )
    (summary,) = (await store.threads()).threads
    assert summary.title == "new" == (await store.thread(ThreadKey(CHAT)) or {})["title"]


async def test_pages_hold_every_thread_once_the_last_updated_first(store: ThreadStore, record: Any) -> None:
    await store.write([record(f"chat{n}", seconds=n // 3) for n in range(25)])
    seen, cursor = [], None
    while True:
        page = await store.threads(limit=4, cursor=cursor)
        seen += page.threads
        cursor = page.cursor
        if cursor is None:
            break
    assert len({summary.thread_id for summary in seen}) == len(seen) == 25
    assert [summary.updated_at for summary in seen] == sorted((s.updated_at for s in seen), reverse=True)


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "WzEsIjIiXQ", "W10", "ÿ", "WyJhIiwiYiJd", "bnVsbA"])
async def test_a_cursor_of_someone_else_is_refused(store: ThreadStore, cursor: str) -> None:
    with pytest.raises(CallerError, match="cursor"):
        await store.threads(cursor=cursor)


async def test_threads_by_agent_tenant_and_text(store: ThreadStore, record: Any) -> None:
    await store.write(
        [
            record("one", agent_id="ann", tenant="t1", thread={"title": "About 100% of Weather"}),
            record("two", agent_id="bob", tenant="t2", thread={"title": "About 1000 foxes"}),
            record("two", "r2", agent_id="ann", tenant="t2", seconds=5),
        ]
    )

    async def found(**query: Any) -> set[str | None]:
        return {summary.title for summary in (await store.threads(**query)).threads}

    weather, foxes = "About 100% of Weather", "About 1000 foxes"
    assert await found(agent_id="ann") == {weather, foxes}
    assert await found(agent_id="bob") == {foxes}
    assert await found(agent_id="bob", tenant="t1") == set()
    assert await found(tenant="t1") == {weather}
    assert await found(search="WEATHER") == {weather}
    assert await found(search="100% o") == {weather}
    assert await found(search=thread_uuid("two")[0]) == {foxes}
    assert await found(search="nothing") == set()


async def test_a_thread_is_found_by_both_its_ids(store: ThreadStore, record: Any) -> None:
    uuid = "11111111-1111-4111-8111-111111111111"
    await store.write([record("chat"), record(uuid, thread={"external_id": "ticket 7"})])
    assert await store.find("chat") == await store.find(CHAT) == (ThreadKey(CHAT),)
    assert await store.find("ticket 7") == await store.find(uuid.upper()) == (ThreadKey(uuid),)
    assert await store.find("ticket 8") == ()


async def test_every_document_is_streamed_in_the_order_of_ids(store: ThreadStore, record: Any) -> None:
    await store.write([record(f"chat{n}", f"r{run}", seconds=n) for n in range(120) for run in range(2)])
    ids = [key.thread_id async for key in store.thread_keys()]
    documents = [document async for _, document in store.documents()]
    assert [document["thread_id"] for document in documents] == ids == sorted(ids)
    assert len(ids) == 120
    assert documents[3] == await store.thread(ThreadKey(ids[3]))


async def test_a_deleted_thread_leaves_nothing(store: ThreadStore, record: Any, tables: Any) -> None:
    await store.write([record("kept")])
    before = await tables()
    link = {"thread_id": thread_uuid("kept")[0], "relation": "referenced"}
    await store.write([record("gone", links=[link]), record("gone", "r2")])
    assert await store.delete_thread(ThreadKey(thread_uuid("gone")[0])) is True
    assert await tables() == before

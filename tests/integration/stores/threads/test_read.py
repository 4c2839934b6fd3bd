"""What a store answers."""

import threading
from typing import Any

import pytest

from pipeline.settings import Settings
from pipeline.stores.content import store as content
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.search.threads import list_threads
from pipeline.stores.search.write import index_some
from pipeline.stores.threads import list_statements
from pipeline.stores.threads import reading as stored_reading
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.reading import all_documents, count_rows, find_threads, read_thread
from pipeline.stores.threads.summaries import Counts
from pipeline.stores.turns import write_turns
from pipeline.stores.usage import rows as usage_of_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.rows import turn_usage
from tests.support.stored_threads import thread_keys
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid

CHAT = thread_uuid("chat")[0]


async def test_an_empty_store_answers(store: ThreadStore) -> None:
    page = await list_threads(store)
    assert (page.threads, page.cursor) == ((), None)
    assert await read_thread(store, ThreadKey(CHAT)) is None
    assert await find_threads(store, "chat") == ()
    report = await usage_report(store, UsageQuery(("model",), "day"))
    assert (report.rows, report.total.requests, report.total.ttft_ms.p50, report.unpriced) == ((), 0, None, {})
    assert await count_rows(store) == Counts(0, 0, 0, 0)
    assert [document async for _, document in all_documents(store)] == []
    assert await delete_thread(store, ThreadKey(CHAT)) is False


async def test_threads_are_read_beside_the_event_loop(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: dict[str, bool] = {}
    in_loop = threading.get_ident()
    for module, name in (
        (stored_reading, "record_of"),
        (stored_reading, "thread_document"),
        (usage_of_turns, "used_by"),
        (content, "references"),
    ):
        real = getattr(module, name)

        def noted(*arguments: Any, real: Any = real, name: str = name, **options: Any) -> Any:
            called[name] = called.get(name, True) and threading.get_ident() != in_loop
            return real(*arguments, **options)

        monkeypatch.setattr(module, name, noted)
    await write_turns(store, [record(tokens=5)])
    document = await read_thread(store, ThreadKey(CHAT))
    assert document is not None
    assert (await ContentStore.of(Settings()).inlined(ThreadKey(CHAT), document)) == document
    assert len((await turn_usage(store, ThreadKey(CHAT)))[0]) == 1
    assert called == {"record_of": True, "thread_document": True, "used_by": True, "references": True}


async def test_a_summary_says_what_the_thread_is_about(store: ThreadStore, record: Any) -> None:
    await write_turns(
        store,
        [
            record(run="r1", ordinal="user", role="user", seconds=1, text="What is\nthe weather?", agents=[]),
            record(run="r1", seconds=2, tokens=100),
            record(run="r2", seconds=9, agent_id="bob", status="interrupted", tokens=7),
        ],
    )
    (summary,) = (await list_threads(store)).threads
    document = await read_thread(store, ThreadKey(CHAT))
    assert document is not None
    assert (summary.thread_id, summary.external_id, summary.title) == (CHAT, "chat", "What is the weather?")
    assert (summary.agents, summary.turns, summary.status) == (("A1", "Bob"), 3, "interrupted")
    assert summary.tokens == 109
    assert (summary.created_at, summary.updated_at) == (1768903201000, 1768903209500)
    assert (document["created_at"], document["updated_at"]) == ("2026-01-20T10:00:01.000Z", "2026-01-20T10:00:09.500Z")


async def test_a_title_comes_before_the_prompt_and_the_newest_counts(store: ThreadStore, record: Any) -> None:
    await write_turns(
        store, [record(seconds=3, thread={"title": "new"}), record(run="r0", seconds=2, thread={"title": "old"})]
    )
    (summary,) = (await list_threads(store)).threads
    assert summary.title == "new" == (await read_thread(store, ThreadKey(CHAT)) or {})["title"]


async def test_pages_hold_every_thread_once_the_last_updated_first(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record(f"chat{n}", seconds=n // 3) for n in range(25)])
    seen, cursor = [], None
    while True:
        page = await list_threads(store, limit=4, cursor=cursor)
        seen += page.threads
        cursor = page.cursor
        if cursor is None:
            break
    assert len({summary.thread_id for summary in seen}) == len(seen) == 25
    assert [summary.updated_at for summary in seen] == sorted((s.updated_at for s in seen), reverse=True)


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "WzEsIjIiXQ", "W10", "ÿ", "WyJhIiwiYiJd", "bnVsbA"])
async def test_a_cursor_of_someone_else_is_refused(store: ThreadStore, cursor: str) -> None:
    with pytest.raises(CallerError, match="cursor"):
        await list_threads(store, cursor=cursor)


async def test_threads_by_agent_tenant_and_text(store: ThreadStore, record: Any) -> None:
    await write_turns(
        store,
        [
            record("one", agent_id="ann", tenant="t1", thread={"title": "About 100% of Weather"}),
            record("two", agent_id="bob", tenant="t2", thread={"title": "About 1000 foxes"}),
            record("two", "r2", agent_id="ann", tenant="t2", seconds=5),
        ],
    )

    async def found(**query: Any) -> set[str | None]:
        return {summary.title for summary in (await list_threads(store, wanted=ListQuery(**query))).threads}

    weather, foxes = "About 100% of Weather", "About 1000 foxes"
    assert await found(agent="ann") == {weather, foxes}
    assert await found(agent="bob") == {foxes}
    assert await found(agent="bob", tenant="t1") == set()
    assert await found(tenant="t1") == {weather}
    assert await found(search="WEATHER") == {weather}
    assert await found(search="100% o") == {weather}
    assert await found(search=thread_uuid("two")[0]) == {foxes}
    assert await found(search="nothing") == set()


async def test_threads_say_what_they_cost_and_who_answered_last(store: ThreadStore, record: Any) -> None:
    later = record(run="r2", seconds=9, model="model-2")
    unpriced = record("free", seconds=3)
    del unpriced["turn"]["messages"][0]["usage"]["cost"]
    question = record("asked", run="r1", ordinal="user", role="user", seconds=2, agents=[])
    await write_turns(store, [record(seconds=1), later, unpriced, question])

    async def lines() -> dict[str | None, tuple[Any, ...]]:
        found = (await list_threads(store)).threads
        return {one.external_id: (one.cost_usd, one.model, one.duration_ms) for one in found}

    expected = {"chat": (0.002, "model-2", 500), "free": (None, "model-1", 500), "asked": (None, None, None)}
    assert await lines() == expected
    await write_turns(
        store, [record(seconds=5, run="between")]
    )  # before the last one: the line is derived from all turns
    assert await lines() == expected | {"chat": (0.003, "model-2", 500)}


async def test_threads_are_sorted_among_the_newest(
    store: ThreadStore, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_turns(store, [record(f"chat-{n}", seconds=n, tokens=n * 7 % 11) for n in range(11)])
    assert (await list_threads(store)).sorted_among is None

    async def order(sort: str) -> list[str | None]:
        seen, cursor = list[str | None](), None
        while True:
            page = await list_threads(store, 3, cursor, ListQuery(sort=sort))
            assert page.sorted_among == list_statements.AMONG
            seen += [one.external_id for one in page.threads]
            cursor = page.cursor
            if cursor is None:
                return seen

    by_tokens = [f"chat-{n}" for n in sorted(range(11), key=lambda n: n * 7 % 11, reverse=True)]
    assert await order("tokens") == by_tokens
    assert await order("created") == [f"chat-{n}" for n in reversed(range(11))]
    for sort in ("cost", "turns", "duration"):  # all are equal
        assert sorted(map(str, await order(sort))) == sorted(by_tokens), "each once, over several pages"
    monkeypatch.setattr(list_statements, "AMONG", 4)
    assert await order("tokens") == [name for name in by_tokens if name in {f"chat-{n}" for n in range(7, 11)}]


async def test_threads_by_model_cost_time_and_name_of_agent(store: ThreadStore, record: Any) -> None:
    dear = record("dear", seconds=5, model="m2")
    dear["turn"]["messages"][0]["usage"]["cost"] = 2.5
    await write_turns(store, [record("cheap", seconds=1), record("cheap", "again", seconds=60), dear])

    async def found(**query: Any) -> set[str | None]:
        return {one.external_id for one in (await list_threads(store, wanted=ListQuery(**query))).threads}

    assert await found(model="m2") == {"dear"}
    assert await found(min_cost=2.5) == {"dear"}
    assert await found(min_cost=0.002) == {"cheap", "dear"}
    assert await found(agent="A1") == {"cheap", "dear"}, "by its name"
    at = 1768903200000
    assert await found(since=at + 20_000, begun_before=at + 30_000) == {"cheap"}, "it goes on in this time"
    assert await found(since=at + 20_000, until=at + 30_000) == set()


async def test_threads_by_a_tool_that_was_called(store: ThreadStore, record: Any) -> None:
    calling = record("calling", seconds=2)
    parts = calling["turn"]["messages"][0]["parts"]
    parts.append({"part_kind": "tool-call", "tool_name": "get weather", "tool_call_id": "c", "args": {}})
    await write_turns(store, [calling, record("talking", text="get weather")])
    while await index_some(store):
        pass
    for wanted, expected in ((ListQuery(tool="get weather"), ["calling"]), (ListQuery(tool="weather"), [])):
        found = await list_threads(store, wanted=wanted)
        assert [one.external_id for one in found.threads] == expected


async def test_a_thread_is_found_by_both_its_ids(store: ThreadStore, record: Any) -> None:
    uuid = "11111111-1111-4111-8111-111111111111"
    await write_turns(store, [record("chat"), record(uuid, thread={"external_id": "ticket 7"})])
    assert await find_threads(store, "chat") == await stored_reading.find_threads(store, CHAT) == (ThreadKey(CHAT),)
    assert (
        await find_threads(store, "ticket 7")
        == await stored_reading.find_threads(store, uuid.upper())
        == (ThreadKey(uuid),)
    )
    assert await find_threads(store, "ticket 8") == ()


async def test_every_document_is_streamed_in_the_order_of_ids(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record(f"chat{n}", f"r{run}", seconds=n) for n in range(120) for run in range(2)])
    ids = [key.thread_id async for key in thread_keys(store)]
    documents = [document async for _, document in all_documents(store)]
    assert [document["thread_id"] for document in documents] == ids == sorted(ids)
    assert len(ids) == 120
    assert documents[3] == await read_thread(store, ThreadKey(ids[3]))


async def test_a_deleted_thread_leaves_nothing(store: ThreadStore, record: Any, tables: Any) -> None:
    await write_turns(store, [record("kept")])
    before = await tables()
    link = {"thread_id": thread_uuid("kept")[0], "relation": "referenced"}
    await write_turns(store, [record("gone", links=[link]), record("gone", "r2")])
    assert await delete_thread(store, ThreadKey(thread_uuid("gone")[0])) is True
    assert await tables() == before

"""Threads that wait for an answer: as their newest turn says, on both databases."""

from typing import Any

from sqlalchemy import text

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.threads.reading import WaitingWanted, waiting_threads
from pipeline.stores.turns import write_turns
from tests.support.turn_records import Record, make_record
from topics.thread_key import ThreadKey
from turnmill.control.claims import answer_id
from turnmill.identity import thread_uuid

CALL = {"part_kind": "tool-call", "tool_name": "pay", "tool_call_id": "c1", "args": {"sum": 3, "to": "\0 \ud800"}}


def asking(chat: str = "chat", run: str = "r", call: dict[str, Any] = CALL, **fields: Any) -> Record:
    record = make_record(chat, run, **fields)
    record["turn"]["messages"][0]["parts"] = [call]
    return record


async def chats(store: ThreadStore, **wanted: Any) -> list[str | None]:
    return [one.external_id for one in await waiting_threads(store, WaitingWanted(**wanted))]


async def test_a_thread_waits_while_its_newest_turn_asks(store: ThreadStore) -> None:
    await write_turns(
        store, [make_record(run="r", ordinal="user", role="user", text="Pay!"), asking(), make_record("other")]
    )
    (one,) = await waiting_threads(store, WaitingWanted())
    assert (one.external_id, one.run_id, one.agent_id, one.agent_name) == ("chat", "r", "a1", "A1")
    assert (one.turn_id, one.title, one.dialect) == (asking()["turn_id"], "Pay!", "vercel-ai")
    assert one.asked == [
        {
            "answer_id": answer_id("r", "c1"),
            "id": "c1",
            "kind": "result",
            "tool_name": "pay",
            "tool_call_id": "c1",
            "message": None,
            "args": CALL["args"],
        }
    ]
    await write_turns(store, [make_record(run="r2", seconds=9)])
    assert await chats(store) == []


async def test_a_revision_that_has_the_answer_asks_no_more(store: ThreadStore) -> None:
    await write_turns(store, [asking()])
    answered = asking(revision=1, events=5)
    answer = {"part_kind": "tool-return", "tool_name": "pay", "tool_call_id": "c1", "content": "paid"}
    answered["turn"]["messages"].append({"message_type": "request", "parts": [answer]})
    await write_turns(store, [answered])
    assert await chats(store) == []
    await write_turns(store, [asking()])
    assert await chats(store) == [], "a replay of the older one"


async def test_an_older_turn_that_comes_late_changes_nothing(store: ThreadStore) -> None:
    await write_turns(store, [asking(seconds=9)])
    await write_turns(store, [make_record(run="before", seconds=1)])
    assert await chats(store) == ["chat"]
    await write_turns(store, [asking("chat", "before that", seconds=0), make_record(run="newest", seconds=10)])
    assert await chats(store) == []


async def test_the_last_updated_first_by_tenant_agent_and_thread(store: ThreadStore) -> None:
    await write_turns(
        store,
        [
            asking("one", tenant="acme", seconds=1),
            asking("two", seconds=2),
            asking("three", tenant="acme", seconds=3, agent_id="payer"),
        ],
    )
    assert await chats(store) == ["three", "two", "one"]
    assert await chats(store, tenant="acme") == ["three", "one"]
    assert await chats(store, tenant="") == ["two"]
    assert await chats(store, tenant="globex") == []
    assert await chats(store, agent="payer") == ["three"]
    for name in ("two", thread_uuid("two")[0]):
        assert await chats(store, thread=(thread_uuid(name)[0], name)) == ["two"]
    assert [one.external_id for one in await waiting_threads(store, WaitingWanted(), 1)] == ["three"]


async def test_a_thread_that_is_deleted_waits_for_nothing(store: ThreadStore) -> None:
    await write_turns(store, [asking()])
    await delete_thread(store, ThreadKey(thread_uuid("chat")[0]))
    assert await chats(store) == []


async def test_what_an_older_version_has_stored_is_not_listed_until_the_thread_goes_on(store: ThreadStore) -> None:
    await write_turns(store, [asking()])
    async with store.writing() as connection:
        for table in ("turns", "threads"):
            await connection.execute(text(f"UPDATE {table} SET asked = NULL"))  # of two literals
    assert await chats(store) == []
    await write_turns(store, [asking("chat", "r2", seconds=9)])
    assert await chats(store) == ["chat"]

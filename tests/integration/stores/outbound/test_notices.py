"""Each thread that leaves the store leaves a notice, in the same transaction, until its topic has it."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.policies.retention import Retention
from pipeline.settings import Settings
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread, erase
from pipeline.stores.keeping.expiry import RoundPosition, expire, next_ripe
from pipeline.stores.keeping.tenant_erasure import erase_tenant
from pipeline.stores.outbound import notices
from pipeline.stores.outbound.notices import BATCH_SIZE, CLAIMED_MS, add_notices, deleted, due_notices, notices_sent
from pipeline.stores.threads.reading import read_thread
from pipeline.stores.turns import write_turns
from topics.notice import THREAD_DELETED
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

Record = Callable[..., Any]
FAR = 4_000_000_000_000  # epoch ms, behind all claims


def key(chat: str, tenant: str | None = None) -> ThreadKey:
    return ThreadKey.of(thread_uuid(chat)[0], tenant)


async def told(store: ThreadStore, now: int = FAR) -> set[tuple[str | None, str, str]]:
    due = [n for n in await due_notices(store, now) if n["type"] == THREAD_DELETED]
    return {(n.get("tenant"), n["thread_id"], n["data"]["reason"]) for n in due}


async def test_whatever_way_a_thread_goes(store: ThreadStore, record: Record, settings_of_store: Settings) -> None:
    settings = settings_of_store
    spawned = [{"from": key("child").thread_id, "thread_id": key("parent").thread_id, "relation": "spawned_from"}]
    await write_turns(
        store, [record("one"), record("one", "r2"), record("two", tenant="acme"), record("three", tenant="acme")]
    )
    await write_turns(
        store, [record("parent"), record("child", links=spawned, parent={"thread_id": key("parent").thread_id})]
    )
    await write_turns(store, [record("old"), record("stays", tenant="globex")])
    assert await told(store) == set()

    await erase(settings, store, key("one"), "a test")
    await erase(settings, store, key("one"), "a test")  # a repeated call has nothing more to say
    await erase(settings, store, key("never seen"), "a test")
    assert await told(store) == {(None, key("one").thread_id, "deleted")}
    await erase_tenant(settings, store, "acme", "a test", lambda _: None)
    retention, now = Retention.parse("1d"), time.time_ns() // 1_000_000 + 10**12
    assert (await next_ripe(store, retention, now, RoundPosition()))[0]
    await expire(store, [key("old")], retention, now)
    assert await told(store, FAR + CLAIMED_MS) == {
        (None, key("one").thread_id, "deleted"),
        ("acme", key("two").thread_id, "deleted"),
        ("acme", key("three").thread_id, "deleted"),
        (None, key("old").thread_id, "expired"),
    }


@pytest.fixture
def settings_of_store(store_url: str, tmp_path: Any) -> Settings:
    return Settings(store=store_url, home=tmp_path)


async def test_a_deletion_that_is_rolled_back_leaves_none(
    store: ThreadStore, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_turns(store, [record("one")])

    def breaks(*_: object) -> object:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("pipeline.stores.threads.statements.delete_empty", breaks)
        with pytest.raises(StoreError):
            await delete_thread(store, key("one"))
    assert await told(store) == set()
    assert await read_thread(store, key("one")) is not None
    await delete_thread(store, key("one"))
    assert len(await told(store)) == 1


async def test_what_is_claimed_comes_again_until_it_was_sent(store: ThreadStore) -> None:
    many = [deleted(key(f"t{n}"), "deleted", n) for n in range(BATCH_SIZE + 20)]
    await add_notices(store, many, keep_until=0)
    first = await due_notices(store, 10_000)
    second = await due_notices(store, 10_000)  # another worker's
    assert [n["at"] for n in first] == list(range(BATCH_SIZE))
    assert [n["at"] for n in second] == list(range(BATCH_SIZE, BATCH_SIZE + 20))
    assert await due_notices(store, 10_000) == []
    await notices_sent(store, [n["id"] for n in second], 10_000)
    again = await due_notices(store, 10_000 + CLAIMED_MS)  # whoever had the first ones died
    assert [n["id"] for n in again] == [n["id"] for n in first]


async def test_an_id_that_is_to_stay_known_is_taken_once(store: ThreadStore) -> None:
    one = deleted(key("one"), "deleted", 1)
    await add_notices(store, [one], keep_until=5_000)
    await add_notices(store, [one | {"at": 2}], keep_until=5_000)  # type: ignore[list-item]  # another worker's
    assert [n["at"] for n in await due_notices(store, 10)] == [1]
    await notices_sent(store, [one["id"]], 4_000)
    await add_notices(store, [one], keep_until=5_000)
    assert await due_notices(store, 10**9) == []
    await notices_sent(store, [], 5_000)
    await add_notices(store, [one], keep_until=0)
    assert len(await due_notices(store, 10**9)) == 1
    assert notices.BATCH_SIZE == BATCH_SIZE

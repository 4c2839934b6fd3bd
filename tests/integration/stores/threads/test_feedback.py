"""Feedback in the store: what an id said last, whatever the order; gone with its thread and its tenant."""

import random
from pathlib import Path
from typing import Any

from pipeline.settings import Settings, load
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import erase
from pipeline.stores.keeping.tenant_erasure import erase_tenant, what_is_left
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads.feedback import (
    COMMENT,
    SHOWN,
    ReceivedFeedback,
    add_feedback,
    feedback_of,
    names_of,
    thread_of,
)
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.reading import all_documents
from pipeline.stores.turns import write_turns
from pipeline.turns.judged import condition
from topics.feedback import FeedbackRecord
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid
from turnmill.publish.feedback import made

COUNT = 200


def said(chat: str, id_: str, value: Any, offset: int, tenant: str | None = None, **more: Any) -> ReceivedFeedback:
    record: FeedbackRecord = made(chat, tenant, {"id": id_, "name": "n", "value": value, **more})  # type: ignore[assignment]
    return ReceivedFeedback(record, 1_000 + offset // 3, offset)


async def values(store: ThreadStore, *keys: ThreadKey) -> dict[ThreadKey, dict[str, Any]]:
    found = await feedback_of(store, keys)
    return {key: {one["id"]: one["value"] for one in some} for key, some in found.items()}


async def test_what_comes_last_counts_in_any_order_and_however_often(store: ThreadStore) -> None:
    rng = random.Random(7)
    records = [
        said(f"chat {rng.randrange(3)}", f"id {rng.randrange(5)}", rng.choice([None, n, True, "word"]), n)
        for n in range(COUNT)
    ]
    wanted: dict[ThreadKey, dict[str, Any]] = {thread_of(one.record): {} for one in records}
    for one in records:
        of_thread = wanted[thread_of(one.record)]
        of_thread.pop(one.record["id"], None)
        if one.record["value"] is not None:
            of_thread[one.record["id"]] = one.record["value"]
    for _ in range(4):
        again = [*records, *rng.sample(records, COUNT // 2)]
        rng.shuffle(again)
        while again:
            size = rng.randrange(1, 40)
            await add_feedback(store, again[:size])
            again = again[size:]
        assert await values(store, *wanted) == wanted


async def test_it_is_taken_back_for_good(store: ThreadStore) -> None:
    first, back = said("chat", "a", True, 1, comment="good"), said("chat", "a", None, 2)
    await add_feedback(store, [first, back])
    await add_feedback(store, [first])
    assert await values(store, thread_of(first.record)) == {thread_of(first.record): {}}


async def test_a_correction_counts_whatever_the_brokers_clock_says(store: ThreadStore) -> None:
    first, later = said("chat", "a", 1, 1)._replace(at=9_000), said("chat", "a", 2, 2)._replace(at=1_000)
    await add_feedback(store, [first])
    await add_feedback(store, [later])
    await add_feedback(store, [first])  # read again
    key = thread_of(first.record)
    assert await values(store, key) == {key: {"a": 2}}
    of_a_new_topic = said("chat", "a", 3, 0)._replace(at=10_000)
    await add_feedback(store, [of_a_new_topic])
    assert await values(store, key) == {key: {"a": 3}}


async def test_the_newest_of_much_feedback(store: ThreadStore) -> None:
    await add_feedback(store, [said("chat", f"id {n}", n, 3 * n) for n in range(20)])
    key = thread_of(said("chat", "a", 1, 1).record)
    assert {record["id"] for record in (await feedback_of(store, [key], 3))[key]} == {"id 17", "id 18", "id 19"}


async def test_it_goes_with_its_thread_and_stays_away(
    store: ThreadStore, record: Any, store_url: str, tmp_path: Path
) -> None:
    settings: Settings = load({}, home=tmp_path, store=store_url)
    await write_turns(store, [record("chat"), record("other")])
    both = [said("chat", "a", 1, 1), said("other", "a", 2, 2)]
    await add_feedback(store, both)
    chat, other = (thread_of(one.record) for one in both)
    await erase(settings, store, chat, "a test")
    assert await values(store, chat, other) == {chat: {}, other: {"a": 2}}
    assert await add_feedback(store, [*both, said("chat", "b", 3, 3)]) == 2
    assert await values(store, chat, other) == {chat: {}, other: {"a": 2}}


async def test_it_goes_with_its_tenant(store: ThreadStore, record: Any, store_url: str, tmp_path: Path) -> None:
    settings: Settings = load({}, home=tmp_path, store=store_url)
    for number, tenant in enumerate(("acme", "globex", None)):
        await write_turns(store, [record("chat", tenant=tenant)] if tenant else [record("chat")])
        await add_feedback(store, [said("chat", "a", 1, number, tenant), said("never stored", "a", 1, 9, tenant)])
    for tenant, left in (("acme", {"globex": 2, "": 2}), ("", {"globex": 2, "acme": 0})):
        assert (await what_is_left(settings, store, tenant)).found["feedback"] == 2
        await erase_tenant(settings, store, tenant, "a test", lambda _: None)
        assert (await what_is_left(settings, store, tenant)).nothing
        for other, count in left.items():
            assert (await what_is_left(settings, store, other)).found["feedback"] == count


VALUES = (True, False, 0.25, 3, -1, "bad", "good", "a\\u0000b", None)


async def judged(store: ThreadStore, text: str, **more: Any) -> set[str]:
    page = await list_threads(store, 100, None, ListQuery(feedback=condition(text), **more))
    return {line.external_id or "" for line in page.threads}


async def test_threads_are_listed_by_what_was_said_of_them(store: ThreadStore, record: Any) -> None:
    chats = [f"chat {n}" for n in range(40)]
    tenants = [("acme", "globex", None)[n % 3] for n in range(len(chats))]
    await write_turns(
        store,
        [record(chat, **({"tenant": tenant} if tenant else {})) for chat, tenant in zip(chats, tenants, strict=True)],
    )
    rng, records = random.Random(5), list[tuple[str, str | None, ReceivedFeedback]]()
    for n in range(COUNT):
        at = rng.randrange(len(chats))
        more = {"name": rng.choice(["n", "m"]), "by": "ann", "comment": "x" * (n + 1)}
        given = said(thread_uuid(chats[at])[0], f"id {n}", rng.choice(VALUES), n, tenants[at], **more)
        records.append((chats[at], tenants[at], given))
    await add_feedback(store, [given for _, _, given in records])
    for text in ("n=true", "n<0.5", "n>=1", "n!=1", "m=bad", "m!=bad", "m>bb", "n=a\\u0000b", "never=1"):
        wanted = condition(text)
        good = [
            (chat, tenant)
            for chat, tenant, given in records
            if given.record["value"] is not None and wanted.holds(given.record)
        ]
        assert await judged(store, text) == {chat for chat, _ in good}, text
        assert await judged(store, text, tenant="acme") == {chat for chat, tenant in good if tenant == "acme"}, text
    assert await names_of(store, None) == await names_of(store, "acme") == ["m", "n"]
    assert await names_of(store, "nobody") == []

    [line, *_] = (await list_threads(store, 50, None, ListQuery(search="chat 3", tenant="acme"))).threads
    of_line = [
        given.record for chat, _, given in records if chat == line.external_id and given.record["value"] is not None
    ]
    assert [one["value"] for one in line.feedback] == [one["value"] for one in of_line[:-4:-1]]
    assert {len(one["comment"]) for one in line.feedback} <= {COMMENT, *range(1, COMMENT)}
    page = await list_threads(store, 50, None, ListQuery(feedback=condition("n<0.5")))
    shown = [one for line in page.threads for one in line.feedback]
    assert {(one["name"], one["value"] < 0.5) for one in shown} == {("n", True)}
    assert max(len(line.feedback) for line in page.threads) <= SHOWN
    assert {key.external_id for key in page.threads} == {
        document["metadata"]["meta:external_id"]
        async for _, document in all_documents(store, ListQuery(feedback=condition("n<0.5")))
    }


async def test_feedback_on_a_thread_of_another_tenant_with_the_same_id_is_not_its_own(
    store: ThreadStore, record: Any
) -> None:
    await write_turns(store, [record("chat", tenant="acme"), record("chat")])
    disliked = said("chat", "a", False, 1, None)
    await add_feedback(store, [disliked])
    lines = (await list_threads(store)).threads
    assert {line.tenant: len(line.feedback) for line in lines} == {"acme": 0, None: 1}
    assert [
        line.tenant for line in (await list_threads(store, 9, None, ListQuery(feedback=condition("n<1")))).threads
    ] == [None]

"""The queue of webhooks: in order for each thread, for one worker at a time, and fair among receivers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.policies.webhooks import Event, Webhook, lane_of, secret_of
from pipeline.stores.outbound import deliveries
from pipeline.stores.outbound.deliveries import CLAIMED_MS, OWNER_CANDIDATES, Delivery, Due
from pipeline.stores.threads.store import ThreadStore
from tests.integration.stores.conftest import blocked
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid


def event(name: str, lane: str = "a", thread: ThreadKey | None = None) -> Event:
    return Event(name, "turn.completed", None, lane, 5, b'{"\xc3\xa9":1}', ("turns", 1, 2), thread)


GONE = ThreadKey.of(thread_uuid("gone")[0], "acme")
LANE = lane_of("acme", GONE.thread_id)


def up_to(most: int, but: Sequence[str] = ()) -> Any:
    return lambda due: [one.seq for one in due if one.webhook not in but][:most]


async def claimed(store: ThreadStore, now: int, but: Sequence[str] = (), most: int = 100) -> list[Delivery]:
    return await store.claim(now, up_to(most, but))


async def test_each_thread_in_order(store: ThreadStore) -> None:
    await store.enqueue([("w", event("1")), ("w", event("2")), ("w", event("3", "b")), ("v", event("1"))], 10)
    await store.enqueue([("w", event("2")), ("w", event("4"))], 10)  # a batch that comes again, and goes on
    first = await claimed(store, 10)
    assert [(one.webhook, one.id) for one in first] == [("w", "1"), ("w", "3"), ("v", "1")]
    assert first[0].payload.encode() == event("1").payload
    assert first[0].place == ("turns", 1, 2)
    assert await claimed(store, 11) == []
    await store.over(first[0], 12)
    [second] = await claimed(store, 12)
    assert second.id == "2"
    await store.again(second, 500)
    assert await claimed(store, 499, but=["v"]) == []
    [again] = await claimed(store, 500)
    assert (again.id, again.attempts) == ("2", 1)
    await store.over(again, 500)
    [last] = await claimed(store, 501)
    assert last.id == "4"
    assert await store.waiting_deliveries() == {"w": 2, "v": 1}


async def test_what_a_worker_died_with_comes_back(store: ThreadStore) -> None:
    await store.enqueue([("w", event("1"))], 10)
    assert len(await claimed(store, 10)) == 1
    assert await claimed(store, 9 + CLAIMED_MS) == []
    [one] = await claimed(store, 10 + CLAIMED_MS)
    await store.over(one, 20)
    await store.enqueue([("w", event("2"))], 30)
    await store.over(one, 40)  # the one that was taken for dead: what has its number now stays
    assert len(await claimed(store, 50)) == 1


async def test_several_workers_share_and_a_slow_receiver_leaves_room(store: ThreadStore) -> None:
    many = [("slow", event(f"s{n}", f"l{n}")) for n in range(30)] + [
        ("quick", event(f"q{n}", f"l{n}")) for n in range(5)
    ]
    await store.enqueue(many, 10)
    found = await asyncio.gather(*(store.claim(10, up_to(12)) for _ in range(3)))
    ids = [one.due.seq for some in found for one in some]
    assert len(ids) == len(set(ids))
    assert max(sum(one.webhook == "slow" for one in some) for some in found) <= 4
    rest = await claimed(store, 10, ["slow"])
    assert {one.webhook for some in (*found, rest) for one in some} == {"slow", "quick"}
    assert all(one.webhook == "quick" for one in rest)


async def test_one_with_many_webhooks_hides_nobody(store: ThreadStore) -> None:
    """Found by an attack: forty webhooks that answer slowly had every claim to themselves."""
    for number in range(40):
        made = Webhook(f"evil{number}", "https://e.example.com/", ("turn.completed",), "evil", (secret_of(b"k" * 32),))
        await store.add_webhook(made)
    await store.enqueue([(f"evil{n % 40}", event(f"e{n}", f"l{n}")) for n in range(400)], 10)
    await store.enqueue([("acme", event("a"))], 20)
    offered: list[Due] = []

    def choose(due: Sequence[Due]) -> list[int]:
        offered.extend(due)
        return [one.seq for one in due[:2]]

    found = await store.claim(30, choose)
    assert {one.webhook for one in found} == {"evil0", "acme"}
    assert {one.due.owner for one in found} == {"evil", "acme"}
    assert len(offered) == OWNER_CANDIDATES + 1


async def test_an_event_that_comes_while_the_one_before_it_ends(store: ThreadStore) -> None:
    await store.enqueue([("w", event("0"))], 1)
    for n in range(1, 30):
        [one] = await claimed(store, n)
        await asyncio.gather(store.over(one, n), store.enqueue([("w", event(str(n)))], n))
    assert [one.id for one in await claimed(store, 100)] == ["29"]


async def test_webhooks_and_their_secrets(store: ThreadStore) -> None:
    old, new, newest = (secret_of(bytes([n]) * 32) for n in range(3))
    made = Webhook("wh_1", "https://a.example.com/", ("turn.completed",), "acme", (old,), 3)
    await store.add_webhook(made)
    assert await store.webhooks(10) == [made]
    assert await store.rotate_webhook("wh_1", new, 10, 100)
    assert [one.secrets for one in await store.webhooks(99)] == [(new, old)]
    assert [one.secrets for one in await store.webhooks(100)] == [(new,)]
    assert await store.rotate_webhook("wh_1", newest, 20, 200)
    assert [one.secrets for one in await store.webhooks(99)] == [(newest, new)]
    assert not await store.rotate_webhook("wh_2", new, 10, 100)
    await store.enqueue([("wh_1", event("1"))], 10)
    assert await store.drop_webhook("wh_1")
    assert not await store.drop_webhook("wh_1")
    assert await store.waiting_deliveries() == {}


async def test_what_waits_of_an_erased_thread_goes_and_nothing_of_it_comes(store: ThreadStore) -> None:
    """Notices of the same thread stay: they say that it was deleted, and are due now."""
    turns = [("w", event("t1", LANE, GONE)), ("v", event("t1", LANE, GONE)), ("w", event("t2", LANE, GONE))]
    await store.enqueue([*turns, ("w", event("deleted", LANE)), ("w", event("other"))], 10)
    under_way = await claimed(store, 10, most=2)
    assert [await store.waits(one) for one in under_way] == [True, True]
    await store.mark_erased(GONE)
    assert [await store.waits(one) for one in under_way] == [False, False]
    await store.enqueue([*turns, ("w", event("t3", LANE, GONE))], 10)  # a replay, or a record that was redriven
    assert {one.id for one in await claimed(store, 2**50)} == {"deleted", "other"}
    for one in under_way:
        await store.over(one, 20)
    assert await store.waiting_deliveries() == {"w": 2}


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
async def test_an_erasure_waits_for_who_adds_a_delivery(store: ThreadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was added by one who had not seen the mark goes with it all the same."""
    added, go_on = asyncio.Event(), asyncio.Event()
    real = deliveries.erased_of

    async def slow(*args: Any) -> Any:
        found = await real(*args)
        added.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(deliveries, "erased_of", slow)
    adding = asyncio.create_task(store.enqueue([("w", event("t1", LANE, GONE))], 10))
    await added.wait()
    erasing = asyncio.create_task(store.mark_erased(GONE))
    await blocked(store, erasing)
    go_on.set()
    await asyncio.gather(adding, erasing)
    assert await store.waiting_deliveries() == {}


async def test_a_tenants_webhooks_go_with_what_waits_for_them(store: ThreadStore) -> None:
    for number, tenant in enumerate(("acme", "globex", "", None)):
        made = Webhook(f"wh_{number}", "https://example.com", ("turn.completed",), tenant, (secret_of(b"k" * 32),), 1)
        await store.add_webhook(made)
    await store.enqueue([("wh_0", event("1")), ("wh_1", event("1"))], 10)
    assert await store.drop_webhooks("acme") == 1
    assert [one.id for one in await store.webhooks(0)] == ["wh_1", "wh_2", "wh_3"]
    assert await store.waiting_deliveries() == {"wh_1": 1}

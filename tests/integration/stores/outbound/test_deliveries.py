"""The queue of webhooks: in order for each thread, for one worker at a time, and fair among receivers."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.policies.webhooks import Event, Webhook, lane_of, secret_of
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import mark_erased
from pipeline.stores.outbound import deliveries
from pipeline.stores.outbound.deliveries import (
    CLAIMED_MS,
    OWNER_CANDIDATES,
    Delivery,
    Due,
    add_webhook,
    all_webhooks,
    claim_deliveries,
    drop_webhook,
    drop_webhooks,
    enqueue,
    finish_delivery,
    retry_delivery,
    rotate_webhook,
    still_waits,
    waiting_deliveries,
)
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
    return await claim_deliveries(store, now, up_to(most, but))


async def test_each_thread_in_order(store: ThreadStore) -> None:
    await enqueue(store, [("w", event("1")), ("w", event("2")), ("w", event("3", "b")), ("v", event("1"))], 10)
    await enqueue(store, [("w", event("2")), ("w", event("4"))], 10)  # a batch that comes again, and goes on
    first = await claimed(store, 10)
    assert [(one.webhook, one.id) for one in first] == [("w", "1"), ("w", "3"), ("v", "1")]
    assert first[0].payload.encode() == event("1").payload
    assert first[0].place == ("turns", 1, 2)
    assert await claimed(store, 11) == []
    await finish_delivery(store, first[0], 12)
    [second] = await claimed(store, 12)
    assert second.id == "2"
    await retry_delivery(store, second, 500)
    assert await claimed(store, 499, but=["v"]) == []
    [again] = await claimed(store, 500)
    assert (again.id, again.attempts) == ("2", 1)
    await finish_delivery(store, again, 500)
    [last] = await claimed(store, 501)
    assert last.id == "4"
    assert await waiting_deliveries(store) == {"w": 2, "v": 1}


async def test_what_a_worker_died_with_comes_back(store: ThreadStore) -> None:
    await enqueue(store, [("w", event("1"))], 10)
    assert len(await claimed(store, 10)) == 1
    assert await claimed(store, 9 + CLAIMED_MS) == []
    [one] = await claimed(store, 10 + CLAIMED_MS)
    await finish_delivery(store, one, 20)
    await enqueue(store, [("w", event("2"))], 30)
    await finish_delivery(store, one, 40)  # the one that was taken for dead: what has its number now stays
    assert len(await claimed(store, 50)) == 1


async def test_several_workers_share_and_a_slow_receiver_leaves_room(store: ThreadStore) -> None:
    many = [("slow", event(f"s{n}", f"l{n}")) for n in range(30)] + [
        ("quick", event(f"q{n}", f"l{n}")) for n in range(5)
    ]
    await enqueue(store, many, 10)
    found = await asyncio.gather(*(claim_deliveries(store, 10, up_to(12)) for _ in range(3)))
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
        await add_webhook(store, made)
    await enqueue(store, [(f"evil{n % 40}", event(f"e{n}", f"l{n}")) for n in range(400)], 10)
    await enqueue(store, [("acme", event("a"))], 20)
    offered: list[Due] = []

    def choose(due: Sequence[Due]) -> list[int]:
        offered.extend(due)
        return [one.seq for one in due[:2]]

    found = await claim_deliveries(store, 30, choose)
    assert {one.webhook for one in found} == {"evil0", "acme"}
    assert {one.due.owner for one in found} == {"evil", "acme"}
    assert len(offered) == OWNER_CANDIDATES + 1


async def test_an_event_that_comes_while_the_one_before_it_ends(store: ThreadStore) -> None:
    await enqueue(store, [("w", event("0"))], 1)
    for n in range(1, 30):
        [one] = await claimed(store, n)
        await asyncio.gather(finish_delivery(store, one, n), enqueue(store, [("w", event(str(n)))], n))
    assert [one.id for one in await claimed(store, 100)] == ["29"]


async def test_webhooks_and_their_secrets(store: ThreadStore) -> None:
    old, new, newest = (secret_of(bytes([n]) * 32) for n in range(3))
    made = Webhook("wh_1", "https://a.example.com/", ("turn.completed",), "acme", (old,), 3)
    await add_webhook(store, made)
    assert await all_webhooks(store, 10) == [made]
    assert await rotate_webhook(store, "wh_1", new, 10, 100)
    assert [one.secrets for one in await all_webhooks(store, 99)] == [(new, old)]
    assert [one.secrets for one in await all_webhooks(store, 100)] == [(new,)]
    assert await rotate_webhook(store, "wh_1", newest, 20, 200)
    assert [one.secrets for one in await all_webhooks(store, 99)] == [(newest, new)]
    assert not await rotate_webhook(store, "wh_2", new, 10, 100)
    await enqueue(store, [("wh_1", event("1"))], 10)
    assert await drop_webhook(store, "wh_1")
    assert not await drop_webhook(store, "wh_1")
    assert await waiting_deliveries(store) == {}


async def test_what_waits_of_an_erased_thread_goes_and_nothing_of_it_comes(store: ThreadStore) -> None:
    """Notices of the same thread stay: they say that it was deleted, and are due now."""
    turns = [("w", event("t1", LANE, GONE)), ("v", event("t1", LANE, GONE)), ("w", event("t2", LANE, GONE))]
    await enqueue(store, [*turns, ("w", event("deleted", LANE)), ("w", event("other"))], 10)
    under_way = await claimed(store, 10, most=2)
    assert [await still_waits(store, one) for one in under_way] == [True, True]
    await mark_erased(store, GONE)
    assert [await still_waits(store, one) for one in under_way] == [False, False]
    await enqueue(store, [*turns, ("w", event("t3", LANE, GONE))], 10)  # a replay, or a record that was redriven
    assert {one.id for one in await claimed(store, 2**50)} == {"deleted", "other"}
    for one in under_way:
        await finish_delivery(store, one, 20)
    assert await waiting_deliveries(store) == {"w": 2}


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
    adding = asyncio.create_task(enqueue(store, [("w", event("t1", LANE, GONE))], 10))
    await added.wait()
    erasing = asyncio.create_task(mark_erased(store, GONE))
    await blocked(store, erasing)
    go_on.set()
    await asyncio.gather(adding, erasing)
    assert await waiting_deliveries(store) == {}


async def test_a_tenants_webhooks_go_with_what_waits_for_them(store: ThreadStore) -> None:
    for number, tenant in enumerate(("acme", "globex", "", None)):
        made = Webhook(f"wh_{number}", "https://example.com", ("turn.completed",), tenant, (secret_of(b"k" * 32),), 1)
        await add_webhook(store, made)
    await enqueue(store, [("wh_0", event("1")), ("wh_1", event("1"))], 10)
    assert await drop_webhooks(store, "acme") == 1
    assert [one.id for one in await all_webhooks(store, 0)] == ["wh_1", "wh_2", "wh_3"]
    assert await waiting_deliveries(store) == {"wh_1": 1}

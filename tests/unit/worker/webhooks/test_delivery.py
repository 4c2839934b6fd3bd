"""Deliveries of webhooks that this worker has not heard of yet, and of those that were deleted."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.observability.metrics import Metrics
from pipeline.policies.webhooks import EVENTS, Webhook
from pipeline.settings import Settings
from pipeline.stores.outbound.deliveries import Delivery, Due
from pipeline.worker.webhooks.delivery import Deliverer
from pipeline.worker.webhooks.sender import Outcome, Sender
from tests.support.fake_stores import answer_by_methods

NEW = Webhook("wh_new", "https://example.com/", EVENTS, "acme", ("whsec_a2V5",), 1)


class Store:
    """Has one delivery for each of these webhooks; `ended`: those that will not be tried again."""

    def __init__(self, *webhooks: str) -> None:
        self.waiting = [
            Delivery(Due(seq, name, name), f"turn_{seq}", "lane", "{}", ("turns", 0, seq), 0, 0)
            for seq, name in enumerate(webhooks)
        ]
        self.ended: list[str] = []
        self.erased = False

    async def claim_deliveries(self, *_: Any) -> list[Delivery]:
        found, self.waiting = self.waiting, []
        return found

    async def still_waits(self, _: Delivery) -> bool:
        return not self.erased

    async def finish_delivery(self, one: Delivery, _: int) -> None:
        self.ended.append(one.webhook)


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_by_methods(monkeypatch, Store)


async def test_a_webhook_is_deleted_where_the_store_says_so_not_the_memory() -> None:
    sent, asked = [], []
    store = Store("wh_new", "wh_deleted")

    async def known(*, now: bool = False) -> Sequence[Webhook]:
        asked.append(now)
        return [NEW] if now else []

    async def opened() -> Any:
        return store

    async def send(webhook: Webhook, *_: Any) -> Any:
        sent.append(webhook.id)
        return SimpleNamespace(taken=True)

    sender = SimpleNamespace(send=send)
    deliverer = Deliverer(Settings(), opened, known, SimpleNamespace(), Metrics(10), sender, within_ms=86_400_000)  # type: ignore[arg-type]
    assert await deliverer._begin()
    for task in list(deliverer._under_way):
        await task
    assert (sent, asked) == (["wh_new"], [False, True])
    assert sorted(store.ended) == ["wh_deleted", "wh_new"]


async def test_an_owner_of_many_webhooks_leaves_room_for_others() -> None:
    deliverer = Deliverer(Settings(), None, None, None, Metrics(10), None, within_ms=86_400_000)  # type: ignore[arg-type]
    due = [Due(seq, f"w{seq % 40}", "evil") for seq in range(120)]
    chosen = deliverer._chosen([*due, Due(200, "crm", "acme")])
    assert len(chosen) == 25
    assert chosen[-1] == 200
    same = [Due(seq, "w", "acme") for seq in range(9)]
    assert len(deliverer._chosen(same)) == 4, "of one webhook"


class Outbox:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, letters: Any) -> None:
        self.sent += letters

    async def flush(self) -> bool:
        return True


async def test_a_record_that_many_webhooks_refuse_is_in_one_dead_letter() -> None:
    outbox, place = Outbox(), ("turns", 0, 7)
    reads = 0

    class Reading(Deliverer):
        async def _record(self, topic: str, partition: int, offset: int) -> Any:
            nonlocal reads
            reads += 1
            return SimpleNamespace(offset=offset, key=b"t", value=b"x" * 12_000, headers=())

    deliverer = Reading(Settings(), None, None, outbox, Metrics(10), None, within_ms=86_400_000)  # type: ignore[arg-type]
    hooks = [Webhook(f"wh_{n}", "https://e.example.com/", EVENTS, "evil", (), 1) for n in range(40)]
    some = [Delivery(Due(n, one.id, "evil"), "turn_7", "lane", "{}", place, 0, 0) for n, one in enumerate(hooks)]
    await asyncio.gather(*(deliverer._bury(hook, one, "status 410") for hook, one in zip(hooks, some, strict=True)))
    assert (reads, len(outbox.sent)) == (1, 40)
    assert sum(len(one.value or b"") for one in outbox.sent) < 40_000


@pytest.mark.parametrize("when", ["before it is sent", "while it is sent"])
async def test_what_was_erased_is_neither_sent_nor_a_dead_letter(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    sent, store = [], Store("wh_new")
    store.erased = when == "before it is sent"

    async def known(*, now: bool = False) -> Sequence[Webhook]:
        return [NEW]

    async def opened() -> Any:
        return store

    async def gone(_: Any, webhook: Webhook, *__: Any) -> Outcome:
        sent.append(webhook.id)
        store.erased = True
        return Outcome(taken=False, why="status 410", final=True)

    metrics = Metrics(10)
    deliverer = Deliverer(Settings(), opened, known, SimpleNamespace(), metrics, Sender(()), within_ms=86_400_000)  # type: ignore[arg-type]
    monkeypatch.setattr(Sender, "send", gone)
    assert await deliverer._begin()
    for task in list(deliverer._under_way):
        await task
    assert sent == ([] if when == "before it is sent" else ["wh_new"])
    assert deliverer._buried == {}
    assert store.ended == sent  # what follows in its lane is due

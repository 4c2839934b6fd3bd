"""Deliveries of webhooks that this worker has not heard of yet, and of those that were deleted."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.deliveries import Delivery
from pipeline.webhooks import EVENTS, Webhook
from pipeline.worker import webhook_delivery
from pipeline.worker.webhook_delivery import Deliverer

NEW = Webhook("wh_new", "https://example.com/", EVENTS, "acme", ("whsec_a2V5",), 1)


class Store:
    """Has one delivery for each of these webhooks; `ended`: those that will not be tried again."""

    def __init__(self, *webhooks: str) -> None:
        self.waiting = [
            Delivery(seq, name, f"turn_{seq}", "lane", "{}", ("turns", 0, seq), 0, 0)
            for seq, name in enumerate(webhooks)
        ]
        self.ended: list[str] = []

    async def claim(self, *_: Any) -> list[Delivery]:
        found, self.waiting = self.waiting, []
        return found

    async def over(self, one: Delivery, _: int) -> None:
        self.ended.append(one.webhook)


async def test_a_webhook_is_deleted_where_the_store_says_so_not_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(webhook_delivery, "send", send)
    deliverer = Deliverer(Settings(), opened, known, SimpleNamespace(), Metrics(10))  # type: ignore[arg-type]
    assert await deliverer._begin()
    for task in list(deliverer._under_way):
        await task
    assert (sent, asked) == (["wh_new"], [False, True])
    assert sorted(store.ended) == ["wh_deleted", "wh_new"]

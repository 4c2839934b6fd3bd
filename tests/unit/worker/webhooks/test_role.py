"""The roles of webhooks: a record that is none of ours holds up no other one."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.observability.metrics import Metrics
from pipeline.policies.webhooks import EVENTS, Event, Webhook
from pipeline.worker.webhooks.role import Taking, _notice, _turn
from tests.support.fake_stores import answer_by_methods

NAMED = {"v": 1, "thread_id": "t", "run_id": "r", "turn_id": "i", "agent_id": "a", "revision": 0, "status": "complete"}
TURN = {**NAMED, "events": 3, "turn": {"turn_type": "agent"}}
NOTICE = {"v": 1, "id": "i", "type": "thread.deleted", "at": 1, "thread_id": "t", "data": {"reason": "deleted"}}


class Store:
    """Webhooks, and their store, which holds what is wanted."""

    def __init__(self) -> None:
        self.store = self
        self.wanted: list[tuple[str, Event]] = []

    async def known(self, *, now: bool = False) -> tuple[Webhook, ...]:
        return (Webhook("wh_1", "https://example.com/", EVENTS, None, (), 1),)

    async def get(self) -> Store:
        return self

    async def enqueue(self, wanted: list[tuple[str, Event]], at: int) -> None:
        self.wanted += wanted


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_by_methods(monkeypatch, Store)


@pytest.mark.parametrize(
    "record",
    [
        {name: value for name, value in TURN.items() if name != "events"},
        {name: value for name, value in TURN.items() if name != "turn"},
        {**TURN, "thread": ["no object"]},
        {"v": 2},
    ],
    ids=["no events", "no turn", "facts that are no object", "another version"],
)
async def test_a_turn_that_is_not_whole_is_passed_over(record: dict[str, Any]) -> None:
    """Found by climbing: one such record stopped the role for good."""
    store = Store()
    taking = Taking(store, "turns", _turn, Metrics(1000))  # type: ignore[arg-type]
    values = [json.dumps(one).encode() for one in (record, TURN)]
    records: Any = [SimpleNamespace(value=value, offset=n, timestamp=1) for n, value in enumerate(values)]
    await taking.apply([(0, records)])
    assert [event.type for _, event in store.wanted] == ["turn.completed"]


async def test_a_notice_that_is_not_whole_is_passed_over() -> None:
    store = Store()
    taking = Taking(store, "notices", _notice, Metrics(1000))  # type: ignore[arg-type]
    values = [json.dumps(one).encode() for one in ({**NOTICE, "data": "no object"}, {**NOTICE, "at": "now"}, NOTICE)]
    records: Any = [SimpleNamespace(value=value, offset=n, timestamp=1) for n, value in enumerate(values)]
    await taking.apply([(0, records)])
    assert [event.id for _, event in store.wanted] == ["i"]

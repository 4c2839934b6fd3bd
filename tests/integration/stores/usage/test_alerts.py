"""The figures that alerts read from the store. Each alert begins and ends once, however many workers look."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from pipeline.policies.alerts import Measured, parse
from pipeline.stores.outbound.notices import due_notices, notices_sent
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.alerts import STALE_MS, alerts_on, look, measured
from pipeline.worker.sinks.watching import ALERTS_INTERVAL, NONE_INTERVAL, AlertWatch
from turnmill import clock
from turnmill.identity import thread_uuid
from turnmill.publish.feedback import made

RECORDS_AT = 1_768_903_200_000  # 2026-01-20T10:00:00Z, about when the records are of
NOW = RECORDS_AT + 60_000
HOUR = 3_600_000


def alert(name: str, figure: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "figure": figure, "above": 0, "within": "1h", **more}


async def sent(store: Any, now: int) -> list[tuple[str, str, dict[str, str]]]:
    """Return the notices that wait, as (type, alert, what it is of), and send them."""
    waiting = await due_notices(store, now)
    await notices_sent(store, [notice["id"] for notice in waiting], now)
    return sorted(((notice["type"], notice["data"]["alert"], notice["data"]["of"]) for notice in waiting), key=str)


async def test_what_is_measured(store: Any, record: Callable[..., Any]) -> None:
    await write_turns(
        store,
        [
            record("one", tokens=10),
            record("two", tokens=20, tenant="acme", agent_id="a2"),
            record("three", tokens=5, tenant="acme", agent_id="a2", status="interrupted"),
            record("four", tokens=500, tenant="acme", imported=True),
        ],
    )
    thumbs = ("one", None, True), ("two", "acme", False)
    given = [made(thread_uuid(chat)[0], tenant, {"name": "helpful", "value": up}) for chat, tenant, up in thumbs]
    await add_feedback(store, [ReceivedFeedback(feedback, NOW, number) for number, feedback in enumerate(given)])

    async def of(figure: str, now: int = NOW, **more: Any) -> list[Measured]:
        [wanted] = parse(json.dumps([alert("a", figure, **more)]))
        return sorted(await measured(store, wanted, now), key=lambda row: row.group)

    [every] = await of("cost_usd")
    by_tenant = await of("cost_usd", by="tenant")
    assert [row.group for row in by_tenant] == ["", "acme"]
    assert sum(row.value or 0 for row in by_tenant) == every.value
    assert every.count == 3, "what was imported does not count"
    [acme] = await of("cost_usd", tenant="acme")
    assert acme.value == by_tenant[1].value
    assert [(row.group, row.count) for row in await of("error_rate", by="agent", tenant="acme")] == [("a2", 2)]
    assert [row.count for row in await of("feedback", feedback="helpful")] == [2]
    rows = await of("feedback", feedback="helpful", by="tenant")
    assert [(row.group, row.value) for row in rows] == [("", 1.0), ("acme", 0.0)]
    [later] = await of("cost_usd", NOW + 2 * HOUR)
    assert later.count == 0
    for figure in ("ttft_p95_ms", "duration_p95_ms"):
        assert [row.count for row in await of(figure)] == [3]


async def test_each_begins_and_ends_once(store: Any, record: Callable[..., Any], monkeypatch: Any) -> None:
    await write_turns(store, [record("one", tokens=10), record("two", tokens=20, tenant="acme")])
    alerts = parse(json.dumps([alert("costs", "cost_usd", by="tenant"), alert("quiet", "cost_usd", above=10**6)]))

    async def opened() -> Any:
        return store

    def at(now: int) -> None:
        monkeypatch.setattr(clock.time, "time_ns", lambda: now * 1_000_000)

    at(NOW)
    workers = [AlertWatch(alerts, opened) for _ in range(3)]
    pauses = await asyncio.gather(*(worker._step() for worker in workers))
    assert pauses == [ALERTS_INTERVAL] * 3
    of_each: list[dict[str, str]] = [{"tenant": ""}, {"tenant": "acme"}]  # as `sent` orders them
    assert [(on.group, on.since) for on in await alerts_on(store)] == [("", NOW), ("acme", NOW)]
    begun = await due_notices(store, NOW)
    assert sorted(notice["data"]["of"]["tenant"] for notice in begun) == ["", "acme"]
    assert {notice["type"] for notice in begun} == {"alert.started"}
    await notices_sent(store, [notice["id"] for notice in begun], NOW)
    at(NOW + 30_000)
    await AlertWatch(alerts, opened)._step()  # one that has just started
    assert [(on.since, on.seen) for on in await alerts_on(store)] == [(NOW, NOW + 30_000)] * 2
    assert await sent(store, NOW + HOUR) == []
    at(NOW + 2 * HOUR)
    await asyncio.gather(*(worker._step() for worker in workers))
    assert await alerts_on(store) == []
    assert await sent(store, NOW + 2 * HOUR) == [("alert.ended", "costs", of) for of in of_each]
    await workers[0]._step()
    assert await sent(store, NOW + 3 * HOUR) == [], "quiet when it is over"


async def test_one_that_no_setting_names_any_more_ends_when_nobody_looks_at_it(
    store: Any, record: Callable[..., Any], monkeypatch: Any
) -> None:
    await write_turns(store, [record("one", tokens=10)])
    await look(store, parse(json.dumps([alert("costs", "cost_usd")])), NOW)
    assert await sent(store, NOW) == [("alert.started", "costs", {})]
    await look(store, (), NOW + STALE_MS)
    assert len(await alerts_on(store)) == 1, "a worker with the setting of before may look at it"

    async def opened() -> Any:
        return store

    monkeypatch.setattr(clock.time, "time_ns", lambda: (NOW + STALE_MS + 1) * 1_000_000)
    assert await AlertWatch((), opened)._step() == NONE_INTERVAL
    assert await sent(store, NOW + HOUR) == [("alert.ended", "costs", {})]

"""Who is told of new records: the readers of that thread, by id and tenant."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.gateway.live.tail import EventTail
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from topics.thread_key import ThreadKey
from turnmill.envelope import encode

THREAD = "5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01"


@dataclass
class Record:
    offset: int
    value: bytes
    partition: int = 0
    timestamp: int = 5
    key: bytes = THREAD.encode()


def record(offset: int, tenant: str) -> Record:
    envelope = {"v": 1, "thread_id": THREAD, "run_id": "r", "agent_id": "a", "dialect": "vercel-ai", "seq": offset}
    return Record(offset, encode({**envelope, "ts": 5, "events": [], "tenant": tenant}))


async def test_another_tenant_wakes_nobody() -> None:
    tail = EventTail(Settings(), Metrics())
    tail.recent.begin(0, 0)
    async with tail.heard(ThreadKey(THREAD, "acme")) as mine, tail.heard(ThreadKey(THREAD, "evil")) as theirs:
        await tail._take([record(0, "evil")])
        assert (mine.is_set(), theirs.is_set()) == (False, True)
        await tail._take([record(1, "acme")])
        assert mine.is_set()

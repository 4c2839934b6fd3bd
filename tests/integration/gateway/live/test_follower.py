"""Listeners that join at any time get each record from their beginning on, once and in order."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest
from aiokafka import TopicPartition

from pipeline.gateway.live import follower as module
from pipeline.gateway.live.follower import Follower, Past
from pipeline.settings import Settings
from tests.support.topic_records import publish
from tests.support.turns_of_the_loop import LoopTurns
from tests.support.waiting import PATIENCE, until
from topics.catalog import DEAD_LETTERS, EVENTS, Topic
from turnmill.identity import thread_uuid
from turnmill.limits import DECODED_BYTES
from turnmill.wire.envelope import encode

THREADS = [thread_uuid(f"chat-{n}")[0] for n in range(8)]


class Hearing:
    """A listener that remembers what it was handed."""

    name = "what is heard"
    runs: Literal["seen"] = "seen"

    def __init__(self, *topics: Topic, seconds: float = 3600.0) -> None:
        self.topics: Sequence[Topic] = topics
        self.begun = 0
        self._seconds = seconds

    async def starts(self, past: Past) -> Mapping[TopicPartition, int]:
        self.begun += 1
        self.heard: dict[TopicPartition, list[int]] = {}
        self.reached = dict(await past.since(self.topics, self._seconds))
        return self.reached

    def take(self, place: TopicPartition, records: Sequence[Any], behind: int) -> None:
        assert all(record.offset < behind for record in records)
        self.heard.setdefault(place, []).extend(record.offset for record in records)
        self.reached[place] = behind


def some(number: int) -> list[tuple[bytes, bytes]]:
    envelope = {"v": 1, "run_id": "r", "agent_id": "a", "dialect": "vercel-ai", "ts": 5, "events": [{"type": "x"}]}
    return [(one.encode(), encode({**envelope, "thread_id": one, "seq": number + n}))
            for n in range(10) for one in random.sample(THREADS, 5)]  # fmt: skip


def whole(listener: Hearing) -> bool:
    return all(found == list(range(len(found))) for found in listener.heard.values())


def count(listener: Hearing) -> int:
    return sum(map(len, listener.heard.values()))


async def test_listeners_that_join_while_records_come_miss_none(applied_settings: Settings) -> None:
    follower = Follower(applied_settings)
    old, dead = [(b"k", b"dead")] * 3, [(b"k", b"dead too")] * 4
    await publish(applied_settings, EVENTS, some(0))
    await publish(applied_settings, DEAD_LETTERS, old)
    first, second = Hearing(EVENTS), Hearing(EVENTS, DEAD_LETTERS)
    late, newest = Hearing(EVENTS), Hearing(EVENTS, seconds=-3600.0)
    follower.listen(first)
    for n in range(1, 40):
        await publish(applied_settings, EVENTS, some(n * 10))
        if n == 10:
            follower.listen(second)
        if n == 20:
            follower.listen(late)
            follower.listen(newest)
    await publish(applied_settings, DEAD_LETTERS, dead)

    async def all_heard() -> bool:
        return count(second) == 2007 and count(first) == count(late) == 2000

    await until(all_heard)
    assert all(map(whole, (first, second, late)))
    assert first.heard == late.heard
    for one in (first, second, late, newest):  # the last record that it was handed is not yet the end of its past
        await follower.ready(one, PATIENCE, "late")
        assert follower.has_joined(one)
    before = count(newest)
    assert before < 1000, "it hears what comes, and nothing of the past"
    await follower.leave(second)
    await publish(applied_settings, EVENTS, some(400))

    async def more_heard() -> bool:
        return count(first) == 2050 and count(newest) == before + 50

    await until(more_heard)
    assert count(second) == 2007
    await follower.close()


async def test_large_records_leave_the_loop_its_turns(applied_settings: Settings) -> None:
    """The gateway answers no request while it decodes records, which takes a tenth of a second for some megabytes."""
    handed: dict[int, int] = {}  # turn of the loop -> bytes

    class Weighing(Hearing):
        def take(self, place: TopicPartition, records: Sequence[Any], behind: int) -> None:
            super().take(place, records, behind)
            handed[turns.number] = handed.get(turns.number, 0) + sum(record.size for record in records)

    envelope = {"v": 1, "run_id": "r", "agent_id": "a", "dialect": "vercel-ai", "ts": 5, "thread_id": THREADS[0]}
    events = [{"type": "data-x", "data": "x" * 800_000}]
    large = [(THREADS[0].encode(), encode({**envelope, "seq": n, "events": events})) for n in range(12)]
    follower, listener = Follower(applied_settings), Weighing(EVENTS)
    packed = {"compression_type": "zstd", "max_batch_size": 12_000_000, "linger_ms": 200}  # all come in one response
    await publish(applied_settings, EVENTS, large, **packed)
    async with LoopTurns() as turns:
        await follower.ready(listener, PATIENCE, "late")
        await publish(applied_settings, EVENTS, large, **packed)

        async def all_heard() -> bool:
            return count(listener) == 24

        await until(all_heard)
    await follower.close()
    assert max(handed.values()) < 2 * DECODED_BYTES


async def test_after_a_failure_it_goes_on_where_it_was(
    applied_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = asyncio.Event()
    real = module.follow

    async def failing(*arguments: Any) -> Any:
        async for batches in real(*arguments):
            if fails.is_set():
                fails.clear()
                raise TimeoutError
            yield batches

    monkeypatch.setattr(module, "follow", failing)
    monkeypatch.setattr(module, "RETRY_DELAY", 0.1)
    follower, listener = Follower(applied_settings), Hearing(EVENTS)
    await publish(applied_settings, EVENTS, some(0))
    await follower.ready(listener, PATIENCE, "late")
    fails.set()
    await publish(applied_settings, EVENTS, some(10))

    async def stands_still() -> bool:
        return not fails.is_set()

    await until(stands_still)
    await publish(applied_settings, EVENTS, some(20))
    await until(lambda: heard_all(listener, 150))
    await follower.ready(listener, PATIENCE, "late")
    assert whole(listener)
    assert (listener.begun, follower.trouble) == (1, None)
    await follower.close()


async def heard_all(listener: Hearing, expected: int) -> bool:
    return count(listener) == expected

"""Who is told of new records: the readers of that thread, by id and tenant."""

from aiokafka import TopicPartition

from pipeline.gateway.live.event_record import EventRecord
from pipeline.gateway.live.follower import Follower
from pipeline.gateway.live.recent_events import Position
from pipeline.gateway.live.tail import EventTail
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from topics.thread_key import ThreadKey
from turnmill.wire.envelope import encode

THREAD = "5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01"


def record(offset: int, tenant: str) -> EventRecord:
    envelope = {"v": 1, "thread_id": THREAD, "run_id": "r", "agent_id": "a", "dialect": "vercel-ai", "seq": offset}
    return EventRecord(0, offset, 5, encode({**envelope, "ts": 5, "events": [], "tenant": tenant}))


async def test_another_tenant_wakes_nobody() -> None:
    settings, place = Settings(), TopicPartition("events", 0)
    tail = EventTail(settings, Follower(settings), Metrics())
    tail.recent.begin(0, 0)
    async with tail.heard(ThreadKey(THREAD, "acme")) as mine, tail.heard(ThreadKey(THREAD, "evil")) as theirs:
        tail.take(place, [record(0, "evil")], 1)
        assert (mine.is_set(), theirs.is_set()) == (False, True)
        tail.take(place, [record(1, "acme")], 2)
        assert mine.is_set()


async def test_a_late_reader_takes_from_the_broker_only_where_its_thread_is() -> None:
    settings = Settings()
    follower = Follower(settings)
    tail, mine = EventTail(settings, follower, Metrics()), ThreadKey(THREAD, "acme")
    for partition in range(3):
        tail.recent.begin(partition, 100)
    follower.runs.take(record(90, "acme").envelope or {}, 90, 5, 1)
    position = Position({0: 80, 1: 85, 2: 70})
    assert tail.behind(mine, position, {2}) == 1
    position.offsets[1] = 100
    assert tail.behind(mine, position, {2}) == 2, "its id named a place there"
    position.offsets[2] = 100
    assert tail.behind(mine, position, {2}) is None
    assert position.offsets == {0: 100, 1: 100, 2: 100}

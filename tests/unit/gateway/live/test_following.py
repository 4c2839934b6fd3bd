"""A reader of a thread with many large records: it gets them in portions, and the event loop its turns in between."""

from pipeline.gateway.live.event_record import EventRecord
from pipeline.gateway.live.follower import Follower
from pipeline.gateway.live.following import Following, Live
from pipeline.gateway.live.recent_events import Reading
from pipeline.gateway.live.tail import EventTail
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from tests.support.turns_of_the_loop import LoopTurns
from topics.thread_key import ThreadKey
from turnmill.limits import DECODED_BYTES
from turnmill.wire.envelope import encode

THREAD = ThreadKey("5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01", None)


async def still() -> bool:
    return True


async def test_large_records_come_in_portions() -> None:
    envelope = {"v": 1, "thread_id": THREAD.thread_id, "run_id": "r", "agent_id": "a", "dialect": "vercel-ai", "ts": 5}
    events = [{"type": "data-x", "data": "x" * 800_000}]
    tail = EventTail(settings := Settings(), Follower(settings), Metrics())
    tail.recent.begin(0, 0)
    for offset in range(7):
        tail.recent.add(EventRecord(0, offset, 5, encode({**envelope, "seq": offset, "events": events})))
    following = Following(THREAD, {0: 0}, {0: 7}, Reading(), {}, still)
    async with LoopTurns() as turns:
        found, at = [], []
        async for records in Live(tail, Metrics()).records(following, follow=False, silence=1.0):
            found += [record.offset for record in records]
            at.append(turns.number)
            assert sum(record.size for record in records) <= DECODED_BYTES
    assert found == list(range(7))
    assert at == sorted(set(at))

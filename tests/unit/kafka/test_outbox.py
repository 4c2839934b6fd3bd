"""Deliveries that fail, in each way that they can."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence

import pytest
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from pipeline.kafka.outbox import Outbox, Outgoing


class Producer:
    """Takes up to `room` records of a batch; `refuse` is raised once by each entry, None: it is taken."""

    def __init__(self, room: int = 100) -> None:
        self.room = room
        self.refuse: deque[Exception | None] = deque()
        self.batches: list[list[Outgoing]] = []
        self.deliveries: list[asyncio.Future[object]] = []

    async def send_batch(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> tuple[int, Awaitable[object]]:
        await asyncio.sleep(0)
        error = self.refuse.popleft() if self.refuse else None
        if error is not None:
            raise error
        assert {(record.topic, record.partition) for record in records} == {(topic, partition)}
        some = list(records[: self.room])
        self.batches.append(some)
        self.deliveries.append(asyncio.get_running_loop().create_future())
        return len(some), self.deliveries[-1]

    def deliver(self) -> None:
        for delivery in self.deliveries:
            if not delivery.done():
                delivery.set_result(None)


def record(name: str, topic: str = "t", partition: int = 0) -> Outgoing:
    return Outgoing(topic, name.encode(), b"v", partition)


def names(producer: Producer) -> list[str]:
    return [(each.key or b"").decode() for batch in producer.batches for each in batch]


async def test_neighbours_of_one_partition_go_together_and_in_order() -> None:
    producer = Producer(room=2)
    box = Outbox(producer)
    todo = deque([record("a"), record("b"), record("c"), record("d", partition=1), record("e", topic="u"), record("f")])
    await box.send(todo)
    assert not todo
    assert [len(batch) for batch in producer.batches] == [2, 1, 1, 1, 1]
    assert names(producer) == ["a", "b", "c", "d", "e", "f"]


async def test_flush_waits_for_each_delivery() -> None:
    producer = Producer()
    box = Outbox(producer)
    assert await box.flush()
    await box.send(deque([record("a")]))
    flush = asyncio.ensure_future(box.flush())
    await asyncio.sleep(0.01)
    assert not flush.done()
    producer.deliver()
    assert await flush


@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_was_not_delivered_is_sent_again(cancelled: bool) -> None:  # noqa: FBT001
    producer = Producer()
    box = Outbox(producer)
    await box.send(deque([record("a"), record("b")]))
    if cancelled:
        producer.deliveries[0].cancel()
    else:
        producer.deliveries[0].set_exception(KafkaError("no"))
    assert not await box.flush()
    assert names(producer) == ["a", "b", "a", "b"]
    producer.deliver()
    assert await box.flush()


async def test_what_cant_be_sent_again_now_is_not_forgotten() -> None:
    producer = Producer(room=1)
    box = Outbox(producer)
    await box.send(deque([record("a"), record("b"), record("c")]))
    for delivery in producer.deliveries:
        delivery.set_exception(KafkaError("no"))
    producer.refuse.extend([None, KafkaError("closed")])
    assert not await box.flush()
    assert names(producer)[3:] == ["a"]
    producer.deliver()
    assert not await box.flush()
    assert names(producer)[4:] == ["b", "c"]
    producer.deliver()
    assert await box.flush()


async def test_a_flush_that_is_cancelled_forgets_nothing() -> None:
    producer = Producer()
    box = Outbox(producer)
    await box.send(deque([record("a")]))
    flush = asyncio.ensure_future(box.flush())
    await asyncio.sleep(0.01)
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    assert len(box.pending) == 1
    producer.deliveries[0].set_exception(KafkaError("no"))
    assert not await box.flush()


async def test_what_is_delivered_does_not_wait_for_a_flush() -> None:
    producer = Producer(room=1)
    box = Outbox(producer)
    await box.send(deque([record("a"), record("b"), record("c")]))
    producer.deliveries[0].set_result(None)
    producer.deliveries[1].set_exception(KafkaError("no"))
    await box.send(deque([record("d")]))
    assert [each.key for _, records in box.pending for each in records] == [b"b", b"c", b"d"]
    producer.deliver()
    assert not await box.flush(), "one was refused"
    assert names(producer)[4:] == ["b"]


async def test_a_send_that_raises_keeps_what_is_left() -> None:
    producer = Producer(room=1)
    box = Outbox(producer)
    producer.refuse.extend([None, KafkaError("no room")])
    todo = deque([record("a"), record("b"), record("c")])
    with pytest.raises(KafkaError):
        await box.send(todo)
    assert [each.key for each in todo] == [b"b", b"c"]
    await box.send(todo)
    assert names(producer) == ["a", "b", "c"]


async def test_what_is_too_large_is_replaced_before_it_is_sent() -> None:
    producer = Producer()
    box = Outbox(producer, lambda large: Outgoing("letters", large.key, b"", large.partition))
    producer.refuse.append(MessageSizeTooLargeError("20 MB"))
    await box.send(deque([record("large"), record("b")]))
    assert [(each.topic, each.key) for batch in producer.batches for each in batch] == [
        ("letters", b"large"),
        ("t", b"b"),
    ]


async def test_of_a_batch_that_the_broker_refuses_only_the_large_one_is_replaced() -> None:
    producer = Producer()
    box = Outbox(producer, lambda large: Outgoing("letters", large.key, b"", large.partition))
    await box.send(deque([record("a"), record("large")]))
    producer.deliveries[0].set_exception(MessageSizeTooLargeError("together"))
    assert not await box.flush()
    assert [len(batch) for batch in producer.batches[1:]] == [1, 1]
    producer.deliveries[1].set_result(None)
    producer.deliveries[2].set_exception(MessageSizeTooLargeError("alone"))
    assert not await box.flush()
    producer.deliver()
    assert await box.flush()
    assert [(each.topic, each.key) for each in producer.batches[-1]] == [("letters", b"large")]


async def test_what_fails_for_each_record_is_logged_once_for_now(caplog: pytest.LogCaptureFixture) -> None:
    producer = Producer()
    box = Outbox(producer)
    for topic in ("t", "u"):
        for number in range(20):
            await box.send(deque([record(str(number), topic=topic)]))
            producer.deliveries[-1].set_exception(MessageSizeTooLargeError("too large"))
            assert not await box.flush()
            producer.deliver()
    assert [" to t, " in one.getMessage() for one in caplog.records] == [True, False]

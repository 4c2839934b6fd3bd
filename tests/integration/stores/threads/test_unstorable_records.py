"""A record that the database can't take becomes a dead letter; what is stored beside it does not depend on it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from pipeline.assembly.records import StoredRecord
from pipeline.kafka.outbox import Outbox, Outgoing
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from pipeline.worker.sinks import store as sink
from pipeline.worker.sinks import store as store_role
from pipeline.worker.sinks.role import turn_writer
from pipeline.worker.sinks.store import TurnWriter
from tests.support.waiting import until
from topics import dead_letter, turn_record
from turnmill.errors import Reason

Record = dict[str, Any]


class Letters:
    """Keeps what is sent; the first `lost` deliveries fail."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []
        self.lost = self.attempts = 0

    async def send_batch(self, _: str, __: int, records: Sequence[Outgoing]) -> tuple[int, Awaitable[object]]:
        delivery = asyncio.get_running_loop().create_future()
        self.attempts += 1
        if self.lost:
            self.lost -= 1
            delivery.set_exception(ConnectionError("no broker"))
        else:
            delivery.set_result(None)
            self.sent += records
        return len(records), delivery

    def found(self) -> dict[int, tuple[Reason, bytes | None]]:
        letters = [dead_letter.from_record(one.key, one.value, one.headers or []) for one in self.sent]
        return {letter.offset: (Reason(letter.reason), letter.value) for letter in letters}


@pytest.fixture
def letters() -> Letters:
    return Letters()


@pytest.fixture
def writer(store: ThreadStore, letters: Letters) -> TurnWriter:
    work = turn_writer(Settings(), Metrics(10), Outbox(letters))
    work.store.value = store
    return work


def batch(records: Sequence[Any]) -> Any:
    """Records with all that the writer reads; some are no turn records."""
    values = [turn_record.encode(record) for record in records]
    return [StoredRecord(value, offset, 0, b"key") for offset, value in enumerate(values)]


BROKEN = {
    "a number that no column takes": {"ordinal": 2**63},
    "an object where a text is expected": {"status": {"a": 1}},
    "nothing where something must be": {"status": None},
    "a shape that no rows can be made of": {"timings": 5},
}


@pytest.mark.parametrize("wrong", BROKEN.values(), ids=BROKEN)
async def test_one_record_is_left_out_and_the_rest_is_stored(
    writer: TurnWriter, store: ThreadStore, letters: Letters, record: Callable[..., Record], wrong: Record
) -> None:
    records = [record(chat=f"c{n}", seconds=n) for n in range(40)]
    records[7] |= wrong
    records[31] |= {"turn_id": "a\0b"}
    group = batch(records)
    await writer.apply([(3, group[:20]), (4, group[20:])])
    assert letters.found() == {7: (Reason.UNPROCESSABLE, group[7].value), 31: (Reason.NOT_AN_ENVELOPE, group[31].value)}
    assert [letter.partition for letter in letters.sent] == [3, 4]
    assert (await count_rows(store)).threads == 38
    transactions = writer.metrics.registry.get_sample_value(m.STORE_BATCHES.name)
    assert transactions is not None
    assert transactions < 20


async def test_a_store_that_is_away_leaves_out_nothing(
    writer: TurnWriter, letters: Letters, record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreError("the store is away", transient=True)

    monkeypatch.setattr(sink, "write_turns", away)
    with pytest.raises(StoreError):
        await writer.apply([(0, batch([record(status=None), record(run="r2")]))])
    assert not letters.sent


async def test_a_dead_letter_is_sent_until_it_is_delivered(
    writer: TurnWriter, letters: Letters, record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_role, "RETRY_DELAY", 0.001)
    letters.lost = 5
    await writer.apply([(0, batch([record(status=None)]))])
    assert list(letters.found()) == [0]


async def test_between_two_attempts_there_is_a_pause(
    writer: TurnWriter, letters: Letters, record: Callable[..., Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the review: while no dead letter could be delivered, it was sent again without an end and a pause."""
    monkeypatch.setattr(store_role, "RETRY_DELAY", 3600.0)
    letters.lost = 10**6
    applying = asyncio.create_task(writer.apply([(0, batch([record(status=None)]))]))

    async def sent_twice() -> bool:
        return letters.attempts > 1

    await until(sent_twice)
    for _ in range(1_000):  # of the loop, which would each send it once more
        await asyncio.sleep(0)
    assert letters.attempts == 2, "as a batch, and once more by itself"
    applying.cancel()

"""Whatever the broker or the gateway does, and whenever the process dies: each run's records arrive in order, and all
of them.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmill.errors import BrokerError
from turnmill.kafka.producer import KafkaProducer
from turnmill.publish import delivery as delivery_module
from turnmill.publish import gateway_producer, spooling
from turnmill.publish.counts import Counts
from turnmill.publish.delivery import Delivery, Producer
from turnmill.publish.gateway_producer import GatewayProducer
from turnmill.publish.spool import Spool

FAULTS = st.lists(st.sampled_from(["", "late", "lost", "unheard", "no broker", "stuck"]), max_size=30)
KEYS = (b"a", b"b")
TOO_LARGE = b"\0"


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in (("SPOOL_AFTER", 0.004), ("SYNC_AFTER", 0.003), ("FULL_RETRY", 0.003)):
            patch.setattr(spooling, name, seconds)
        patch.setattr(delivery_module, "FIRST_RETRY_DELAY", 0.002)
        patch.setattr(delivery_module, "MAX_RETRY_DELAY", 0.004)
        patch.setattr(delivery_module, "UNCONFIRMED_BYTES", 200)
        patch.setattr(gateway_producer, "BATCH_INTERVAL", 0.001)
        patch.setattr(gateway_producer, "BATCH_BYTES", 100)
        patch.setattr(gateway_producer, "QUEUED_BYTES", 150)
        yield


class ToyBroker:
    """Takes records, and does what `faults` say, one for each; then it is well."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = iter(faults)
        self.log: list[tuple[bytes, bytes]] = []

    async def connect(self) -> Producer:
        if next(self.faults, "") == "no broker":
            raise BrokerError("no broker")
        return KafkaProducer(ToyProducer(self), "events")


class ToyProducer:
    """As an idempotent producer: what it has taken arrives in order, until something fails; then nothing more does."""

    def __init__(self, broker: ToyBroker) -> None:
        self.broker = broker
        self.failed = False
        self.room = asyncio.Semaphore(3)
        self.last: asyncio.Task[None] | None = None

    async def send(self, topic: str, value: bytes, key: bytes, headers: None = None) -> asyncio.Future[None]:
        if value.startswith(TOO_LARGE):
            raise MessageSizeTooLargeError("too large")
        await self.room.acquire()
        self.last = asyncio.create_task(self._deliver(self.last, key, value, next(self.broker.faults, "")))
        self.last.add_done_callback(lambda _: self.room.release())
        return self.last

    async def _deliver(self, before: asyncio.Task[None] | None, key: bytes, value: bytes, fault: str) -> None:
        if before is not None:
            await asyncio.wait([before])
        if fault in ("late", "stuck"):
            await asyncio.sleep(0.002 if fault == "late" else 0.015)
        if fault == "lost" or self.failed:
            self.failed = True
            raise KafkaConnectionError("lost")
        self.broker.log.append((key, value))
        if fault == "unheard":
            self.failed = True
            raise KafkaConnectionError("unheard")

    async def stop(self) -> None:
        self.failed = True


class ToyGateway(ToyBroker):
    """The same over HTTP: a request holds several records, and a fault is that of a request."""

    async def connect(self) -> Producer:
        if next(self.faults, "") == "no broker":
            raise BrokerError("no gateway")
        return GatewayProducer(httpx.AsyncClient(transport=httpx.MockTransport(self._answer)), "http://toy")

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        fault = next(self.faults, "")
        if fault in ("late", "stuck"):
            await asyncio.sleep(0.002 if fault == "late" else 0.015)
        if fault == "no broker":
            return httpx.Response(503, json={"detail": "the broker is away"})
        if fault == "lost":
            raise httpx.ConnectError("lost")
        refusals = []
        for number, line in enumerate(request.content.split(b"\n"), 1):
            if line.startswith(TOO_LARGE):
                refusals.append({"line": number, "reason": "too_large", "detail": "too large"})
            else:
                self.log.append((line[:1], line))
        if fault == "unheard":
            raise httpx.ReadError("unheard")
        return httpx.Response(200, content=json.dumps({"records": 0, "refusals": refusals}))


def in_order(log: list[tuple[bytes, bytes]], key: bytes) -> list[int]:
    """A run's numbers as assembly takes them: by `seq`, those that come again left out."""
    found: list[int] = []
    for one, value in log:
        if one == key and int(value.split(b"/")[1]) == (found[-1] + 1 if found else 0):
            found.append(len(found))
    return found


def record(key: bytes, number: int) -> tuple[bytes, bytes]:
    return key, b"%s/%d/" % (key, number) + b"x" * 20


async def put_all(delivery: Delivery, pauses: list[int]) -> dict[bytes, int]:
    """Records of two runs in turn, with these pauses in ms -> how many each has."""
    numbers = dict.fromkeys(KEYS, 0)
    for turn, pause in enumerate(pauses):
        key = KEYS[turn % 2]
        await delivery.room()
        delivery.put(*record(key, numbers[key]))
        numbers[key] += 1
        await asyncio.sleep(pause / 1000)
    return numbers


BROKERS = st.sampled_from([ToyBroker, ToyGateway])
PAUSES = st.lists(st.sampled_from([0, 0, 0, 0, 1, 9]), min_size=1, max_size=60)


@settings(max_examples=60)
@given(BROKERS, FAULTS, PAUSES, st.sampled_from([300, 100_000]))
def test_nothing_is_lost_and_order_is_kept(
    toy: type[ToyBroker], faults: list[str], pauses: list[int], most: int
) -> None:
    async def play(folder: Path) -> None:
        broker, counts, spool = toy(faults), Counts(), Spool(folder, most)
        delivery = Delivery(broker.connect, "toy", counts, spool)
        numbers = await put_all(delivery, pauses)
        assert await delivery.drained(20) == 0
        assert (counts.confirmed, delivery.waiting, delivery._transit.bytes, spool.size) == (len(pauses), 0, 0, 0)
        assert await delivery.close(1) == 0
        assert list(folder.iterdir()) == []
        assert {key: in_order(broker.log, key) for key in KEYS} == {key: list(range(n)) for key, n in numbers.items()}

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(play(Path(name)))


@settings(max_examples=40)
@given(toy=BROKERS, faults=FAULTS, later_faults=FAULTS, pauses=PAUSES, killed=st.booleans())
def test_a_process_that_ends_leaves_all_that_it_has_spooled_to_the_next(
    toy: type[ToyBroker], faults: list[str], later_faults: list[str], pauses: list[int], *, killed: bool
) -> None:
    async def first(folder: Path, broker: ToyBroker) -> tuple[dict[bytes, int], set[tuple[bytes, bytes]]]:
        spool = Spool(folder, 100_000)
        delivery = Delivery(broker.connect, "toy", Counts(), spool)
        numbers = await put_all(delivery, pauses)
        if not killed:
            assert await delivery.close(0.0) == 0
            assert delivery.waiting == 0, "what is left is in the spool, and is counted there"
            return numbers, set()
        delivery._task.cancel()
        os.close(spool._lock)
        return numbers, {(parcel.key, parcel.value) for parcel in delivery._transit.memory_only()}

    async def second(folder: Path, broker: ToyBroker) -> None:
        counts, spool = Counts(), Spool(folder, 100_000)
        counts.adopted = spool.adopted
        delivery = Delivery(broker.connect, "toy", counts, spool)
        assert await delivery.drained(20) == 0
        assert await delivery.close(1) == 0
        assert (counts.confirmed, list(folder.iterdir())) == (spool.adopted, [])

    with tempfile.TemporaryDirectory() as name:
        broker = toy(faults)
        numbers, lost = asyncio.run(first(Path(name), broker))
        broker.faults = iter(later_faults)
        asyncio.run(second(Path(name), broker))
    arrived = set(broker.log)
    assert {record(key, n) for key in KEYS for n in range(numbers[key])} - arrived <= lost
    if not lost:
        assert {key: in_order(broker.log, key) for key in KEYS} == {key: list(range(n)) for key, n in numbers.items()}

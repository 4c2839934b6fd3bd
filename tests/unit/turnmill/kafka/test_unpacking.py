"""Batches are bounded before they are unpacked, and what is too large is read as one record that says so."""

import random
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

import cramjam
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition, codec
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.protocol.fetch import FetchRequest, FetchRequest_v4, FetchResponse_v4
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords, _MemoryRecordsPy
from hypothesis import example, given
from hypothesis import strategies as st

from turnmill.kafka import unpacking
from turnmill.kafka.pieces import Allowance, TooLarge
from turnmill.kafka.unpacking import is_batch, screened, unpacked_size
from turnmill.wire.envelope import batch_refusal

PLACE: Final = TopicPartition("t", 3)
CODECS: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
ENCODERS: Final[dict[str, tuple[int, Callable[[bytes], bytes]]]] = {
    "gzip": (1, codec.gzip_encode),
    "gzip twice": (1, lambda data: codec.gzip_encode(data[:7]) + codec.gzip_encode(data[7:])),
    "snappy": (2, lambda data: bytes(codec.snappy_encode(data, xerial_compatible=False))),
    "snappy in blocks": (2, lambda data: codec.snappy_encode(data, xerial_blocksize=5_000)),
    "lz4": (3, codec.lz4_encode),
    "lz4 twice": (3, lambda data: codec.lz4_encode(data[:7]) + codec.lz4_encode(data[7:])),
    "zstd": (4, codec.zstd_encode),
    "zstd twice": (4, lambda data: codec.zstd_encode(data[:7]) + codec.zstd_encode(data[7:])),
}
NONE: Final = {(4, 0), (4, 1), (3, 0)}  # formats without such a codec


def batch(values: Sequence[bytes], packed: int = 0, offset: int = 0, magic: int = 2) -> bytes:
    if magic == 2:
        builder: Any = DefaultRecordBatchBuilder(2, packed, 0, -1, -1, 0, 1 << 30)
    else:
        builder = LegacyRecordBatchBuilder(magic, packed, 1 << 30)
    for number, value in enumerate(values):
        assert builder.append(number, 1_000 + number, b"k", value, []) is not None
    made = bytearray(builder.build())
    made[:8] = (offset + (len(values) - 1 if magic != 2 and packed else 0)).to_bytes(8)
    return bytes(made)


def read(data: bytes, memory: Any = MemoryRecords, at: int = 0) -> tuple[list[Any], int]:
    """-> records as aiokafka gives them, and the next offset that it fetches."""
    parsed = PartitionRecords(PLACE, memory(data), [], at, None, None, True, 0)
    return list(parsed), parsed.next_fetch_offset


def room() -> Allowance:
    return Allowance(1 << 30, 1 << 30)


@pytest.mark.parametrize("name", ENCODERS)
@given(st.binary(max_size=200), st.integers(1, 300), st.integers(-3, 3))
@example(b"\0", 200_000, -1)
@example(b"", 1, 0)
def test_the_bound_is_that_of_the_bytes_that_come_out(name: str, piece: bytes, times: int, more: int) -> None:
    number, encode = ENCODERS[name]
    data = piece * times
    packed, most = encode(data), max(0, len(data) + more)
    if len(data) > most:
        with pytest.raises(TooLarge):
            unpacked_size(number, packed, most)
    elif len(data) >= 1_000 or name != "snappy in blocks":
        assert unpacked_size(number, packed, most) == len(data)


@pytest.mark.parametrize(("packed", "magic"), [pair for pair in product((0, *CODECS), (0, 1, 2)) if pair not in NONE])
def test_what_fits_is_passed_on_as_it_came(packed: int, magic: int) -> None:
    data = batch([b"one", b"two" * 1_000], packed, 7, magic) + batch([b"three"], packed, 9, magic)
    left = Allowance(100_000, 1_000)
    assert screened(data, "t/3", left) is data
    assert left.bytes < 100_000 - 3_000
    assert read(data)[0][0].value == b"one"


@pytest.mark.parametrize("memory", [MemoryRecords, _MemoryRecordsPy])
@pytest.mark.parametrize(("packed", "magic"), [pair for pair in product(CODECS, (1, 2)) if pair not in NONE])
def test_a_batch_that_unpacks_to_too_much_becomes_one_record(packed: int, magic: int, memory: Any) -> None:
    large = batch([b"x" * 60_000] * 3, packed, 12, magic)
    before, behind = batch([b"before"], 0, 11, magic), batch([b"behind"], packed, 15, magic)
    records, following, data = [], 11, before + large + behind
    while following < 16:  # as the broker is asked again for what an answer does not bring
        left = data[[0, len(before), len(before + large)][sum(at <= following for at in (12, 15))] :]
        found, following = read(screened(left, "t/3", room(), 100_000), memory, following)
        records += found
    assert [record.offset for record in records] == [11, 14, 15]
    assert following == 16
    one, instead, other = records
    assert (one.value, other.value) == (b"before", b"behind")
    assert instead.value == large
    why = batch_refusal(instead.headers) or ""
    assert "unpacks to more than 100,000 bytes" in why
    assert ("t/3@12-14" if magic == 2 else "t/3@14-14") in why
    # From the middle of the batch on, as after a restart there.
    assert [record.offset for record in read(screened(large, "t/3", room(), 100_000), memory, 13)[0]] == [14]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_batch_can_be_told_from_a_record(magic: int) -> None:
    one = batch([b"{}"], 1, magic=magic)
    assert is_batch(one)
    assert not any(map(is_batch, (one[:-1], one + one, b"", b"{}", b'{"v":1,"thread_id":"' + b"a" * 100 + b'"}')))


def test_gigabytes_are_never_there() -> None:
    tens = b"\0" * 10_000_000
    bomb = bytes(cramjam.zstd.compress(tens)) * 200  # frames behind each other
    with pytest.raises(TooLarge):
        unpacked_size(4, bomb, 1_000_000)


def test_bytes_that_can_not_be_unpacked_stop_nobody() -> None:
    data = bytearray(batch([b"x" * 1_000], 4))
    data[-8:] = b"notzstd!"
    records, following = read(screened(bytes(data), "t/3", room()))
    assert following == 1
    assert "can't be unpacked" in (batch_refusal(records[0].headers) or "")
    assert records[0].value == bytes(data)


def test_a_batch_of_too_many_records_becomes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "BATCH_RECORDS", 10)
    for packed in (0, 4):
        records, following = read(screened(batch([b""] * 11, packed), "t/3", room()))
        assert (len(records), following) == (1, 11)
        assert "11 records" in (batch_refusal(records[0].headers) or "")


def test_an_answer_is_cut_where_it_is_full_and_begins_there_next_time() -> None:
    whole = b"".join(batch([b"x" * 1_000] * 10, 4, start) for start in range(0, 50, 10))
    left = Allowance(35_000, 1_000)
    cut = screened(whole, "t/3", left)
    assert read(cut)[1] == 30
    assert whole.startswith(cut)
    assert screened(whole, "t/4", left) == b"", "another partition waits, too"
    left = Allowance(1 << 20, 25)
    assert read(screened(whole, "t/3", left))[1] == 20


@given(st.data())
def test_whatever_lies_there_raises_nothing(data: st.DataObject) -> None:
    chosen = random.Random(data.draw(st.integers(0, 1 << 30)))
    whole = bytearray(batch([b"value"] * 5, chosen.choice([0, *CODECS]), 3) + batch([b"x"], 1, 8, 1))
    for _ in range(data.draw(st.integers(0, 4))):
        whole[chosen.randrange(len(whole))] = chosen.randrange(256)
    del whole[data.draw(st.integers(0, len(whole))) :]
    left = Allowance(1_000, 1_000)
    assert isinstance(screened(bytes(whole), "t/3", left), bytes)
    assert min(left.bytes, left.records) >= 0


async def test_a_consumer_of_ours_looks_at_each_answer_first() -> None:
    """The one thing that is taken of aiokafka's inside: its client's `send`, which fetches."""
    consumer = AIOKafkaConsumer()
    large = batch([b"\0" * (unpacking.UNPACKED_BYTES + 1)], 4, 5)

    async def answer(*_: Any, **__: Any) -> Any:
        return FetchResponse_v4(0, [("t", [(3, 0, 6, 6, [], large)])])

    consumer._client.send = answer
    request = FetchRequest(1, 1, 1, 0, [("t", [(3, 5, 1)])])
    response = await unpacking.bounded(consumer)._client.send(0, request)
    [(topic, [(number, *_, records)])] = response.topics
    assert (topic, number, len(records) < 20_000) == ("t", 3, True)
    assert batch_refusal(read(records)[0][0].headers)
    await consumer._client.close()


async def test_no_more_is_asked_for_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer asks a broker for as many bytes as fitted last time, and for more after answers that fitted whole."""
    monkeypatch.setattr(unpacking, "BATCH_RECORDS", 25)
    batches = [batch([b"x" * 100] * 10, 0, start) for start in range(0, 50, 10)]
    one = len(batches[0])
    consumer, asked, sizes = AIOKafkaConsumer(), list[int](), [5, 2, 1, 0, 0, 0, 0, 0]

    async def answer(_: Any, request: Any, **__: Any) -> Any:
        asked.append(request.build(FetchRequest_v4).max_bytes)
        return FetchResponse_v4(0, [("t", [(3, 0, 6, 6, [], b"".join(batches[: sizes[len(asked) - 1]]))])])

    consumer._client.send = answer
    unpacking.bounded(consumer)
    for node in (0, 0, 0, 0, 0, 0, 0, 1):
        await consumer._client.send(node, FetchRequest(1, 1, one * 5, 0, [("t", [(3, 0, one * 5)])]))
    grown = [one * 2]
    while len(grown) < 6:
        grown.append(min(one * 5, grown[-1] + grown[-1] // 4))
    assert asked == [one * 5, *grown, one * 5]
    assert grown[-1] == one * 5, "it grows back"
    await consumer._client.close()

"""Batches that are too large to be unpacked as a whole are read piece by piece, to the last record."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
import zstandard
from aiokafka import AIOKafkaConsumer, TopicPartition, codec
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.protocol.fetch import FetchRequest, FetchResponse_v4
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st

from turnmill.kafka import pieces, unpacking
from turnmill.kafka.pieces import BEHIND_CHECKSUM, HEADER, Allowance, Pieces, Reading, TooLarge
from turnmill.kafka.unpacking import refused_records, screened
from turnmill.limits import BATCH_RECORDS, FETCHED_BYTES, PIECE_BYTES
from turnmill.wire.envelope import batch_refusal

ENCODERS: Final[dict[str, tuple[int, Callable[[bytes], bytes]]]] = {
    "none": (0, lambda data: data),
    "gzip": (1, codec.gzip_encode),
    "gzip twice": (1, lambda data: codec.gzip_encode(data[:7]) + codec.gzip_encode(data[7:])),
    "snappy in blocks": (2, lambda data: codec.snappy_encode(data, xerial_blocksize=5_000)),
    "lz4": (3, codec.lz4_encode),
    "lz4 twice": (3, lambda data: codec.lz4_encode(data[:7]) + codec.lz4_encode(data[7:])),
    "zstd": (4, lambda data: zstandard.ZstdCompressor().compress(data)),
    "zstd in a stream": (4, lambda data: codec.zstd_encode(data[:7]) + codec.zstd_encode(data[7:])),
}
GAPS: Final = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def body(values: list[bytes | None], deltas: list[int] | None = None) -> bytes:
    """The records of a batch as they are before they are packed."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, 1 << 30)
    for delta, value in zip(deltas or range(len(values)), values, strict=True):
        assert (
            builder.append(delta, 1_000 + delta - (deltas or [0])[0], b"k%d" % delta, value, [("h", b"x")]) is not None
        )
    return bytes(builder.build())[HEADER.size :]


def batch(records: bytes, count: int, last: int, name: str = "zstd", offset: int = 0) -> bytes:
    number, encode = ENCODERS[name]
    packed = bytes(encode(records))
    fields = [offset, HEADER.size - 12 + len(packed), -1, 2, 0, number, last, 1_000, 2_000, -1, -1, -1, count]
    fields[4] = calc_crc32c((HEADER.pack(*fields) + packed)[BEHIND_CHECKSUM:])
    return HEADER.pack(*fields) + packed


def of(values: list[bytes | None], name: str = "zstd", offset: int = 0) -> bytes:
    return batch(body(values), len(values), len(values) - 1, name, offset)


def read_on(data: bytes, begin: int, end: int, reading: Reading, most: int = 1_000) -> Iterator[Any]:
    """The records from `begin` on, as a consumer reads them: it fetches again until it has the offset `end`."""
    at = begin
    while at < end:
        reading.offsets = {"t/0": at}
        made = screened(data, "t/0", Allowance(FETCHED_BYTES, BATCH_RECORDS), most, reading)
        parsed = PartitionRecords(TopicPartition("t", 0), MemoryRecords(made), [], at, None, None, True, 0)
        yield from parsed
        assert parsed.next_fetch_offset > at
        at = parsed.next_fetch_offset


@pytest.mark.parametrize("name", ENCODERS)
@given(gaps=GAPS, sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40), begin=st.integers(-2, 60))
def test_every_record_is_read_with_its_offset(name: str, gaps: list[int], sizes: list[int], begin: int) -> None:
    deltas = [sum(gaps[: n + 1]) + n for n in range(min(len(gaps), len(sizes)))]
    begin = min(begin, deltas[-1])
    values: list[bytes | None] = [b"v%d" % delta * size or None for delta, size in zip(deltas, sizes, strict=False)]
    data = batch(body(values, deltas), len(values), deltas[-1] + 2, name, 7) + of([b"next"], offset=deltas[-1] + 10)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pieces, "PIECE_BYTES", 200)
        patched.setattr(unpacking, "BATCH_RECORDS", 1 if name == "none" else 10**6)
        records = list(read_on(data, max(0, 7 + begin), deltas[-1] + 11, Reading(), most=10))
    assert [record.offset for record in records] == [
        *(7 + delta for delta in deltas if delta >= begin),
        deltas[-1] + 10,
    ]
    assert [record.value for record in records[:-1]] == [
        value for value, delta in zip(values, deltas, strict=True) if delta >= begin
    ]
    assert all(record.key == b"k%d" % (record.offset - 7) for record in records[:-1])
    assert all(record.headers == (("h", b"x"),) for record in records[:-1])
    assert all(record.timestamp == 1_000 + record.offset - 7 - deltas[0] for record in records[:-1])


def test_memory_is_bounded_by_a_piece_whatever_the_batch_has() -> None:
    data = of([b"%d" % n + bytes(1_000) for n in range(80_000)])
    assert len(data) < 1_000_000
    reading, found, most = Reading(), 0, 0
    tracemalloc.start()
    try:
        while found < 80_000:
            reading.offsets = {"t/0": found}
            made = screened(data, "t/0", Allowance(FETCHED_BYTES, BATCH_RECORDS), reading=reading)
            found += HEADER.unpack_from(made)[12]
            most = max(most, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert found == 80_000
    assert most < 4 * PIECE_BYTES


def test_a_batch_is_unpacked_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked = []
    zstd = pieces.CODECS[4]
    monkeypatch.setitem(pieces.CODECS, 4, lambda data: (unpacked.append(len(chunk)) or chunk for chunk in zstd(data)))
    data = of([bytes(1_000)] * 50_001)
    assert len(list(read_on(data, 0, 50_001, Reading()))) == 50_001
    assert sum(unpacked) < 55_000_000


def test_only_one_batch_is_read_so_at_a_time_and_others_wait() -> None:
    large, small = of([bytes(1_000)] * 60_000), of([b"x"])
    reading = Reading()
    reading.offsets = {"t/0": 0, "t/1": 0}
    room = Allowance(FETCHED_BYTES, BATCH_RECORDS)
    assert screened(large, "t/0", room, reading=reading)
    assert screened(small + large, "t/1", room, reading=reading) == small
    assert reading.waiting
    assert screened(small, "t/2", room, reading=reading) is small
    assert len(list(read_on(large, 5_000, 60_000, reading))) == 55_000
    reading.offsets = {"t/1": 0}
    assert screened(large, "t/1", room, reading=reading)


def test_a_batch_of_a_partition_that_is_gone_makes_nobody_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading()
    large = of([bytes(1_000)] * 60_000)
    assert screened(large, "t/0", Allowance(FETCHED_BYTES, BATCH_RECORDS), reading=reading)
    monkeypatch.setattr(pieces, "FORGOTTEN_AFTER", 0.0)
    assert screened(large, "t/1", Allowance(FETCHED_BYTES, BATCH_RECORDS), reading=reading)


def test_what_lies_beyond_the_bound_of_cost_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECED_BYTES", 30_000_000)
    data = of([bytes(1_000)] * 60_000)
    *records, last = read_on(data, 0, 60_000, Reading())
    assert [record.offset for record in records] == list(range(len(records)))
    assert 25_000 < len(records) < 30_000
    assert (last.offset, last.value) == (59_999, data)
    assert "unpacks to more than 30,000,000 bytes" in (batch_refusal(last.headers) or "")
    assert sum(record is not None for record in refused_records(last.value)) == 60_000


def test_forms_that_can_not_be_read_piece_by_piece_are_set_aside_and_come_back_as_a_whole() -> None:
    records = body([b"%d" % n * 300 for n in range(20_000)])
    ENCODERS["one block"] = (2, lambda data: bytes(codec.snappy_encode(data, xerial_compatible=False)))
    try:
        data = batch(records, 20_000, 19_999, "one block")
    finally:
        del ENCODERS["one block"]
    (one,) = read_on(data, 0, 20_000, Reading(), most=20_000_000)
    assert "can't be read piece by piece" in (batch_refusal(one.headers) or "")
    assert [record.offset for record in refused_records(one.value)] == list(range(20_000))


def test_of_a_refused_batch_only_what_is_no_record_is_left_out() -> None:
    data = of([b"before", bytes(5_000_000), b"behind"])
    assert [record and record.value for record in refused_records(data)] == [b"before", b"behind", None]


def test_gigabytes_in_one_record_are_never_there() -> None:
    tens = codec.zstd_encode(bytes(10_000_000))
    head = bytearray()
    pieces_of = body([b"x"])  # its length is replaced by that of a gigabyte
    unpacking.encode_varint(1_200_000_000, head.append)
    encoded = codec.zstd_encode(bytes(head) + pieces_of[1:]) + tens * 120
    fields = [0, HEADER.size - 12 + len(encoded), -1, 2, 0, 4, 0, 1_000, 2_000, -1, -1, -1, 1]
    fields[4] = calc_crc32c((HEADER.pack(*fields) + encoded)[BEHIND_CHECKSUM:])
    data = HEADER.pack(*fields) + encoded
    (one,) = read_on(data, 0, 1, Reading(), most=20_000_000)
    assert one.value == data
    assert "a record of 1,200,000,000 bytes" in (batch_refusal(one.headers) or "")


@pytest.mark.parametrize("name", ENCODERS)
@given(cut=st.integers(1, 2_000), flip=st.integers(0, 7))
def test_damaged_bytes_stop_nobody(name: str, cut: int, flip: int) -> None:
    whole = bytearray(of([b"value %d" % n * 20 for n in range(200)], name))
    del whole[-min(cut, len(whole) - HEADER.size) :]
    if len(whole) > HEADER.size:
        whole[-1] ^= 1 << flip
    fields = list(HEADER.unpack_from(whole))
    fields[1] = len(whole) - 12
    whole[: HEADER.size] = HEADER.pack(*fields)
    fields[4] = calc_crc32c(bytes(whole[BEHIND_CHECKSUM:]))
    whole[: HEADER.size] = HEADER.pack(*fields)
    made = Pieces(bytes(whole), 10**9)
    taken = 0
    with suppress(ValueError, TooLarge):
        while (piece := made.take(0, 500)).more:
            taken += piece.records
    assert taken <= 200


def test_a_wrong_checksum_is_told() -> None:
    data = bytearray(of([bytes(1_000)] * 60_000))
    data[-1] ^= 1
    (one,) = read_on(bytes(data), 0, 60_000, Reading())
    assert "checksum" in (batch_refusal(one.headers) or "")


async def test_a_consumer_reads_on_in_the_middle_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, large = AIOKafkaConsumer(), of([bytes(1_000)] * 60_000, offset=5)

    async def answer(*_: Any, **__: Any) -> Any:
        return FetchResponse_v4(0, [("t", [(3, 0, 6, 6, [], large)])])

    consumer._client.send = answer
    unpacking.bounded(consumer)
    found = list[int]()
    while len(found) < 60_000:
        at = found[-1] + 1 if found else 5
        response = await consumer._client.send(0, FetchRequest(1, 1, 1, 0, [("t", [(3, at, 1)])]))
        [(_, [(_, *_, records)])] = response.topics
        found += [
            record.offset
            for record in PartitionRecords(TopicPartition("t", 3), MemoryRecords(records), [], at, None, None, True, 0)
        ]
    assert found == list(range(5, 60_005))
    await consumer._client.close()

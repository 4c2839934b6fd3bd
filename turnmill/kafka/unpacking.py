"""Bounds on the unpacked size of a fetched batch, checked before aiokafka unpacks it.

aiokafka unpacks whole batches, and 40 KB may unpack to a gigabyte. So each fetch response is examined first, in Kafka's
own format (https://kafka.apache.org/documentation/#messageformat). A batch that is too large to be unpacked as a whole
is replaced by a piece of it (`turnmill/kafka/pieces.py`). What follows the piece is cut, and fetched again, until all
pieces are read. What lies beyond the bounds of that, or can't be unpacked, is replaced by a batch of one record, at its
last offset: the value is the original batch, and a header says why. No reader mistakes such a value for one of its
records; the worker makes a dead letter of it. A response that unpacks to too much in all is cut, too, and fewer bytes
are asked for from then on.
"""

import asyncio
import gzip
import logging
import mmap
import threading
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from struct import Struct
from typing import Any, Final, NamedTuple

import cramjam
from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.util import calc_crc32c, encode_varint

from turnmill.kafka.pieces import (
    BEHIND_CHECKSUM,
    CODEC,
    HEADER,
    INT,
    OVERHEAD,
    XERIAL,
    XERIAL_HEADER,
    Allowance,
    Pieces,
    Reading,
    TooLarge,
)
from turnmill.limits import BATCH_BYTES, BATCH_RECORDS, FETCHED_BYTES, PIECED_BYTES, UNPACKED_BYTES
from turnmill.wire.envelope import REFUSED_BATCH

START: Final = Struct(">qiibbh")  # offset, length, leader epoch or checksum, format, and two of the format's
OLD_KEY: Final = {0: 18, 1: 26}  # format -> offset of the key in a message
CONTROL, LOG_TIME = 0x20, 0x08  # of a batch's attributes
SMALLEST_OLD: Final = 26  # bytes of a message of the formats 0 and 1
SMALLEST_BLOCK: Final = 1_024  # as which each block of snappy counts
WAIT: Final = 0.1  # seconds

log = logging.getLogger(__name__)
_kept = threading.local()


def bounded(consumer: AIOKafkaConsumer) -> AIOKafkaConsumer:
    """Make a consumer that is not started yet fetch within the bounds, and return it."""
    client = consumer._client  # noqa: SLF001  # aiokafka has no hook for responses
    client.send = partial(_send, client.send, {}, Reading())
    return consumer


async def _send(
    send: Callable[..., Any], fitting: dict[Any, int], reading: Reading, node: Any, request: Any, **options: Any
) -> Any:
    """Send a request; if it fetches, ask for no more bytes than are likely to fit, and screen the response.

    `fitting`: how many bytes to ask each node for. The node has to send again what is cut from its response.
    """
    if not isinstance(request, FetchRequest):
        return await send(node, request, **options)
    most = request._max_bytes  # noqa: SLF001  # aiokafka has one size for all requests
    asked = request._max_bytes = min(most, fitting.get(node, most))  # noqa: SLF001  # this request's
    response = await send(node, request, **options)
    left = Allowance(FETCHED_BYTES, BATCH_RECORDS)
    reading.offsets = {
        f"{topic}/{number}": offset for topic, partitions in request.topics for number, offset, *_ in partitions
    }
    response.topics = [
        (
            topic,
            [
                (*head, screened(records or b"", f"{topic}/{head[0]}", left, reading=reading))
                for *head, records in partitions
            ],
        )
        for topic, partitions in response.topics
    ]
    if reading.waiting and not any(records for _, partitions in response.topics for *_, records in partitions):
        await asyncio.sleep(WAIT)  # else the same would be asked for again at once
    reading.waiting = False
    if left.bytes:
        fitting[node] = min(most, asked + asked // 4)
    else:
        fitting[node] = sum(len(records) for _, partitions in response.topics for *_, records in partitions)
    return response


class Batch(NamedTuple):
    """A batch, or a message of an older format: its position in the data, and the fields of its header."""

    start: int
    end: int
    first: int  # offset
    last: int
    attributes: int
    records: int | None  # None if the header doesn't say
    packed: int  # where the compressed part begins
    time: int


def screened(
    data: bytes, partition: str, left: Allowance, most: int = UNPACKED_BYTES, reading: Reading | None = None
) -> bytes:
    """Return the batches of a partition that fit, with too large ones replaced; the same object if all fit."""
    kept: list[bytes] = []
    done = 0  # bytes of data that are in `kept`
    for batch in _batches(data):
        why = piece = None
        size, records = batch.end - batch.start, 1
        try:
            if reading is not None and reading.large and reading.needed(partition, data, batch.start):
                raise TooLarge
            size, records = _size(batch, data, most)
        except TooLarge as error:
            why = str(error) or f"it unpacks to more than {most:,} bytes"
            if reading is not None and batch.records is not None and left.records > 0:
                try:
                    piece = reading.piece(partition, data[batch.start : batch.end], left)
                    if piece is None:
                        return b"".join((*kept, data[done : batch.start]))
                    size, records = min(len(piece.data), left.bytes), piece.records
                except (TooLarge, ValueError) as problem:
                    why = str(problem)
        except Exception as error:  # each codec has other errors
            why = f"it can't be unpacked: {error}"
        if size > left.bytes or records > left.records:
            left.bytes = left.records = 0  # for other partitions, too, so that this is first next time
            return b"".join((*kept, data[done : batch.start]))
        left.bytes -= size
        left.records -= records
        if why is None:
            continue
        kept.append(data[done : batch.start])
        done = batch.end
        if piece is not None:
            kept.append(piece.data)
            if piece.more:
                return b"".join(kept)
            continue
        why = f"the batch {partition}@{batch.first}-{batch.last} of {size:,} bytes is not unpacked: {why}"
        kept.append(_replacement(batch, data[batch.start : batch.end], why))
        if batch.records is None:  # aiokafka reads all batches of a response in the first one's format
            return data[: batch.start] or kept[-1]
    return b"".join((*kept, data[done:])) if done else data


def _size(batch: Batch, data: bytes, most: int) -> tuple[int, int]:
    """Return how many bytes and records a batch unpacks to. Raises TooLarge, and the codec's error."""
    size, records = batch.end - batch.start, batch.records
    if (records or 0) <= BATCH_RECORDS and batch.attributes & CODEC and not batch.attributes & CONTROL:
        size = unpacked_size(batch.attributes & CODEC, data[batch.packed : batch.end], most)
    if records is None:
        records = size // SMALLEST_OLD
    if records > BATCH_RECORDS:
        raise TooLarge(f"it holds up to {records:,} records, and may hold {BATCH_RECORDS:,}")
    return size, records


def is_batch(data: bytes) -> bool:
    """Return True if the bytes are a whole batch, or message of an older format, and so no record's value."""
    return [(batch.start, batch.end) for batch in _batches(data)] == [(0, len(data))]


def refused_records(data: bytes) -> Iterator[Any]:
    """Yield the records of a refused batch, as aiokafka's; None for each that is larger than a record may be.

    Piece by piece where its form allows that, else as a whole. Raises ValueError for an old format, for a larger whole
    than PIECED_BYTES, and where the bytes are damaged.
    """
    batch = next(_batches(data))
    if batch.records is None:
        raise ValueError("it is of an old format")
    pieces, more = Pieces(data, None), True
    while more:
        left_out = pieces.left_out
        try:
            made, _, more = pieces.take(0)
        except ValueError:
            if pieces.at > batch.first:
                raise
            try:
                unpacked_size(batch.attributes & CODEC, data[batch.packed :], PIECED_BYTES)
            except TooLarge as error:
                raise ValueError(f"it unpacks to more than {PIECED_BYTES:,} bytes") from error
            made, more = data, False
        yield from DefaultRecordBatch(made)
        yield from [None] * (pieces.left_out - left_out)


def _batches(data: bytes) -> Iterator[Batch]:
    """Yield all complete batches. Bytes too short for their own header are left to aiokafka, which refuses them."""
    at = 0
    while at + HEADER.size <= len(data) or at + OLD_KEY[1] <= len(data):
        first, length, _, magic, _, _ = START.unpack_from(data, at)
        end = at + OVERHEAD + length
        if length < 0 or end > len(data):
            return
        if magic >= 2 and length + OVERHEAD >= HEADER.size:  # the format's number
            _, _, _, _, _, attributes, more, _, time, _, _, _, count = HEADER.unpack_from(data, at)
            yield Batch(at, end, first, first + more, attributes, count, at + HEADER.size, time)
        elif magic in OLD_KEY and (attributes := data[at + 17]) & CODEC:
            value = at + OLD_KEY[magic] + INT.size
            value += max(0, INT.unpack_from(data, value - INT.size)[0]) + INT.size
            yield Batch(at, end, first, first, attributes & CODEC, None, value, 0)
        elif magic in OLD_KEY:
            yield Batch(at, end, first, first, 0, 1, end, 0)
        at = end


def unpacked_size(codec: int, packed: bytes, most: int) -> int:
    """Return how many bytes `packed` unpacks to.

    Raises TooLarge, before more than `most` bytes are in memory, and the codec's error for damaged bytes.
    """
    if codec == 2:  # Kafka's numbers: gzip, snappy, lz4, zstd
        return _snappy_size(packed, most)
    if codec == 1:
        size = len(gzip.GzipFile(fileobj=BytesIO(packed)).read(most + 1))
    else:
        try:
            size = _unpack(codec, packed, _room())
        except TooLarge:
            with mmap.mmap(-1, most + 1) as room:  # the system allocates only pages that are written
                size = _unpack(codec, packed, room)
    if size > most:
        raise TooLarge
    return size


def _room() -> bytearray:
    """Return the memory that this thread unpacks batches into: allocating it for each takes longer than unpacking."""
    if not hasattr(_kept, "room"):
        _kept.room = bytearray(BATCH_BYTES)
    room: bytearray = _kept.room
    return room


def _unpack(codec: int, packed: bytes, room: bytearray | mmap.mmap) -> int:
    unpack = {3: cramjam.lz4.decompress_into, 4: cramjam.zstd.decompress_into}[codec]
    try:
        return int(unpack(packed, room))
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise TooLarge from None
        raise


def _snappy_size(packed: bytes, most: int) -> int:
    """Return the size that the blocks declare; aiokafka allocates that much memory before it unpacks them."""
    if not packed.startswith(XERIAL) or len(packed) <= XERIAL_HEADER:
        size = int(cramjam.snappy.decompress_raw_len(packed))
        if size > most:
            raise TooLarge
        return size
    at, size, counted = XERIAL_HEADER, 0, 0
    while at < len(packed):
        (length,) = INT.unpack_from(packed, at)
        if length <= 0:
            raise ValueError("a block of snappy has no length")
        block = int(cramjam.snappy.decompress_raw_len(packed[at + INT.size : at + INT.size + length]))
        size, counted = size + block, counted + max(block, SMALLEST_BLOCK)
        if counted > max(most, SMALLEST_BLOCK):
            raise TooLarge
        at += INT.size + length
    if size > most:
        raise TooLarge
    return size


def _replacement(batch: Batch, value: bytes, why: str) -> bytes:
    """Return a batch of format 2 with one record, whose value is the batch that it replaces."""
    log.warning("%s", why)
    record = bytearray(b"\0\0")  # attributes, and the time relative to the batch's
    encode_varint(batch.last - batch.first, record.append)
    encode_varint(-1, record.append)  # no key
    name, reason = REFUSED_BATCH.encode(), why.encode()
    for part in (value, None, name, reason):
        encode_varint(1 if part is None else len(part), record.append)  # one header
        record += part or b""
    length = bytearray()
    encode_varint(len(record), length.append)
    size = HEADER.size - OVERHEAD + len(length) + len(record)
    times = batch.time, batch.time
    attributes = batch.attributes & LOG_TIME
    body = [batch.first, size, -1, 2, 0, attributes, batch.last - batch.first, *times, -1, -1, -1, 1]
    unchecked = HEADER.pack(*body) + length + record
    body[4] = calc_crc32c(unchecked[BEHIND_CHECKSUM:])
    return HEADER.pack(*body) + length + record

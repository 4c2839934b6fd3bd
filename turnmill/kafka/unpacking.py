"""Bounds on the unpacked size of a fetched batch, checked before aiokafka unpacks it.

aiokafka unpacks whole batches, and 40 KB may unpack to a gigabyte. So each fetch response is examined first, in Kafka's
own format (https://kafka.apache.org/documentation/#messageformat). A batch beyond the bounds, or that can't be
unpacked, is replaced by a batch of one record, at its last offset: the value is the original batch, and a header says
why. No reader mistakes such a value for one of its records; the worker makes a dead letter of it. A response that
unpacks to too much in all is cut; the rest is fetched again, and fewer bytes are asked for from then on.
"""

from __future__ import annotations

import gzip
import logging
import mmap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from struct import Struct
from typing import Any, Final, NamedTuple

import cramjam
from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.util import calc_crc32c, encode_varint

from turnmill.limits import BATCH_BYTES, BATCH_RECORDS, FETCHED_BYTES, UNPACKED_BYTES
from turnmill.wire.envelope import REFUSED_BATCH

START: Final = Struct(">qiibbh")  # offset, length, leader epoch or checksum, format, and two of the format's
HEADER: Final = Struct(">qiibIhiqqqhii")  # of a batch of format 2
BEHIND_CHECKSUM: Final = 21  # offset in a batch of format 2
OVERHEAD: Final = 12  # bytes of a batch that its length field does not count
OLD_KEY: Final = {0: 18, 1: 26}  # format -> offset of the key in a message
INT: Final = Struct(">i")
CODEC, CONTROL, LOG_TIME = 0x07, 0x20, 0x08  # of a batch's attributes
SMALLEST_OLD: Final = 26  # bytes of a message of the formats 0 and 1
XERIAL: Final = b"\x82SNAPPY\0"  # the start of a stream of snappy blocks
XERIAL_HEADER: Final = 16
SMALLEST_BLOCK: Final = 1_024  # as which each of these counts

log = logging.getLogger(__name__)
_kept = threading.local()


class TooLarge(Exception):
    """A batch unpacks to more bytes than allowed."""


def bounded(consumer: AIOKafkaConsumer) -> AIOKafkaConsumer:
    """Make a consumer that is not started yet fetch within the bounds, and return it."""
    client = consumer._client  # noqa: SLF001  # aiokafka has no hook for responses
    client.send = partial(_send, client.send, {})
    return consumer


async def _send(send: Callable[..., Any], fitting: dict[Any, int], node: Any, request: Any, **options: Any) -> Any:
    """Send a request; if it fetches, ask for no more bytes than are likely to fit, and screen the response.

    `fitting`: how many bytes to ask each node for. The node has to send again what is cut from its response.
    """
    if not isinstance(request, FetchRequest):
        return await send(node, request, **options)
    most = request._max_bytes  # noqa: SLF001  # aiokafka has one size for all requests
    asked = request._max_bytes = min(most, fitting.get(node, most))  # noqa: SLF001  # this request's
    response = await send(node, request, **options)
    left = Allowance(FETCHED_BYTES, BATCH_RECORDS)
    response.topics = [
        (topic, [(*head, screened(records or b"", f"{topic}/{head[0]}", left)) for *head, records in partitions])
        for topic, partitions in response.topics
    ]
    if left.bytes:
        fitting[node] = min(most, asked + asked // 4)
    else:
        fitting[node] = sum(len(records) for _, partitions in response.topics for *_, records in partitions)
    return response


@dataclass(slots=True)
class Allowance:
    """The number of bytes and records that the rest of a fetch response may unpack to: none once it is cut."""

    bytes: int
    records: int


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


def screened(data: bytes, partition: str, left: Allowance, most: int = UNPACKED_BYTES) -> bytes:
    """Return the batches of a partition that fit, with too large ones replaced; the same object if all fit."""
    kept: list[bytes] = []
    done = 0  # bytes of data that are in `kept`
    for batch in _batches(data):
        why = None
        size, records = batch.end - batch.start, batch.records
        try:
            if batch.attributes & CODEC and not batch.attributes & CONTROL:
                size = unpacked_size(batch.attributes & CODEC, data[batch.packed : batch.end], most)
            if records is None:
                records = size // SMALLEST_OLD
            if records > BATCH_RECORDS:
                why = f"it holds up to {records:,} records, and may hold {BATCH_RECORDS:,}"
        except TooLarge:
            why = f"it unpacks to more than {most:,} bytes"
        except Exception as error:  # each codec has other errors
            why = f"it can't be unpacked: {error}"
        if why is not None:
            size, records = batch.end - batch.start, 1
        if size > left.bytes or (records or 0) > left.records:
            left.bytes = left.records = 0  # for other partitions, too, so that this is first next time
            return b"".join((*kept, data[done : batch.start]))
        left.bytes -= size
        left.records -= records or 0
        if why is not None:
            why = f"the batch {partition}@{batch.first}-{batch.last} of {size:,} bytes is not unpacked: {why}"
            instead = _replacement(batch, data[batch.start : batch.end], why)
            if batch.records is None:  # aiokafka reads all batches of a response in the first one's format
                return data[: batch.start] or instead
            kept += data[done : batch.start], instead
            done = batch.end
    return b"".join((*kept, data[done:])) if done else data


def is_batch(data: bytes) -> bool:
    """Return True if the bytes are a whole batch, or message of an older format, and so no record's value."""
    return [(batch.start, batch.end) for batch in _batches(data)] == [(0, len(data))]


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

"""Batches that unpack to much are read piece by piece: what is in memory is a piece, and what its codec looks back at.

A producer closes a batch by its packed size, or when a program has sent its list, so a batch of 1 MB may be 80,000
valid records of 24 MB. A piece is a batch itself: some of the records, not packed, with the offsets that they have.

The format: https://kafka.apache.org/documentation/#messageformat
"""

import gzip
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from struct import Struct
from typing import Final, NamedTuple

import cramjam
from aiokafka.record.util import calc_crc32c, decode_varint

from turnmill.limits import BATCH_BYTES, PIECE_BYTES, PIECE_RECORDS, PIECED_BYTES, PIECED_RECORDS

HEADER: Final = Struct(">qiibIhiqqqhii")  # of a batch of format 2
OVERHEAD: Final = 12  # bytes of a batch that its length field does not count
BEHIND_CHECKSUM: Final = 21  # offset in a batch of format 2
CODEC: Final = 0x07  # of a batch's attributes
INT: Final = Struct(">i")
XERIAL: Final = b"\x82SNAPPY\0"  # the start of a stream of snappy blocks
XERIAL_HEADER: Final = 16
LZ4_FRAME: Final = b"\x04\x22\x4d\x18"
CHUNK: Final = 65_536
WINDOW: Final = 8_388_608  # bytes that zstd may look back at; its format advises readers to have that many
FORGOTTEN_AFTER: Final = 10.0  # seconds without a fetch of a batch that is read piece by piece
VARINT: Final = 10  # bytes at most
BEHIND_THE_END: Final = bytes(4 * VARINT)  # so that the head of the last record can be read as any other's


class TooLarge(Exception):
    """A batch unpacks to more than allowed. Its text says what."""


class Piece(NamedTuple):
    """Some of a batch's records, as a batch. `more`: records follow."""

    data: bytes
    records: int
    more: bool


class Pieces:
    """The records of a batch of format 2, unpacked as they are taken. `at`: the offset of the next one.

    `most`: bytes that are unpacked at most; None: any number, and records over BATCH_BYTES are left out, and counted.
    """

    def __init__(self, data: bytes, most: int | None) -> None:
        """Raise TooLarge for too many records, and ValueError for a wrong checksum."""
        fields = HEADER.unpack_from(data)
        if fields[4] != calc_crc32c(data[BEHIND_CHECKSUM:]):
            raise ValueError("its checksum is wrong")
        if most is not None and fields[12] > PIECED_RECORDS:
            raise TooLarge(f"it holds up to {fields[12]:,} records, and may hold {PIECED_RECORDS:,}")
        self._fields = list(fields)
        self.at: int = fields[0]
        self._records: int = fields[12]
        self._most = most
        self._chunks = _unpacked(fields[5] & CODEC, data[HEADER.size :])
        self._held = b""
        self._start = 0  # of the next record in `_held`
        self._ended = False
        self._unpacked = 0
        self.left_out = 0

    def take(self, offset: int, most: int = PIECE_BYTES, records: int = PIECE_RECORDS) -> Piece:
        """Return the next records from `offset` on, as many as fit, and at least a single record.

        Raises TooLarge and ValueError; what was read until then is lost.
        """
        base, made, taken, last = self._fields[0], bytearray(HEADER.size), 0, self._fields[6]
        while self._records and (not taken or (taken < records and len(made) < most)):
            record, delta = self._next()
            self._records -= 1
            self.at = base + delta + 1
            if record is not None and base + delta >= offset:
                made += record
                taken += 1
        if self._records:
            last = self.at - 1 - base
        head = [*self._fields]
        head[1], head[5], head[6], head[12] = len(made) - OVERHEAD, head[5] & ~CODEC, last, taken
        HEADER.pack_into(made, 0, *head)
        head[4] = calc_crc32c(memoryview(made)[BEHIND_CHECKSUM:])
        HEADER.pack_into(made, 0, *head)
        return Piece(bytes(made), taken, bool(self._records))

    def _next(self) -> tuple[bytes | None, int]:
        """Return the bytes of the next record with its length before it, and its offset relative to the batch's."""
        self._hold(VARINT)
        length, behind = decode_varint(self._held, self._start)
        begin = behind - self._start
        if length <= 0:
            raise ValueError("a record of it has no length")
        if length > BATCH_BYTES and self._most is not None:
            raise TooLarge(f"it holds a record of {length:,} bytes")
        self._hold(begin + 3 * VARINT)
        _, at = decode_varint(self._held, self._start + begin + 1)  # behind the attributes: the time
        delta, _ = decode_varint(self._held, at)
        end = begin + length
        record = None
        if length <= BATCH_BYTES:
            self._hold(end)
            record = self._held[self._start : self._start + end]
        else:
            self.left_out += 1
            while (there := len(self._held) - self._start) < end:
                end -= there
                self._start = len(self._held)
                self._hold(1)
        self._start += end
        if self._ended and len(self._held) - self._start < len(BEHIND_THE_END):
            raise ValueError("its last record is cut off")
        return record, delta

    def _hold(self, count: int) -> None:
        """Unpack until `count` bytes are there from `_start` on; behind the last record there are some more."""
        while len(self._held) - self._start < count:
            if self._ended:
                raise ValueError("its last record is cut off")
            chunk = next(self._chunks, None)
            self._ended = chunk is None
            self._unpacked += len(chunk or b"")
            if self._most is not None and self._unpacked > self._most:
                raise TooLarge(f"it unpacks to more than {self._most:,} bytes")
            self._held = self._held[self._start :] + (BEHIND_THE_END if chunk is None else chunk)
            self._start = 0


@dataclass(slots=True)
class Allowance:
    """The number of bytes and records that the rest of a fetch response may unpack to: none once it is cut."""

    bytes: int
    records: int


@dataclass(slots=True)
class Reading:
    """The batch that a consumer reads piece by piece; others wait, and memory is bounded.

    `offsets`: what was asked for, by TOPIC/PARTITION; `large`: by the same, the header of a batch that needs pieces;
    `waiting`: a batch was cut because of another partition's.
    """

    offsets: dict[str, int] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    waiting: bool = False
    _partition: str = ""
    _pieces: Pieces | None = None
    _at: float = 0.0  # time.monotonic()

    def needed(self, partition: str, data: bytes, start: int) -> bool:
        """Return True if the batch at `start` is known to need pieces, without unpacking it again."""
        head = self.large.get(partition)
        return head is not None and data.startswith(head, start)

    def piece(self, partition: str, data: bytes, left: Allowance) -> Piece | None:
        """Return the next piece of a batch; None if it has to wait. Raises TooLarge and ValueError."""
        now, head, offset = time.monotonic(), data[: HEADER.size], self.offsets.get(partition, 0)
        pieces, known = self._pieces, self.needed(partition, data, 0)
        self.large[partition] = head
        if pieces is not None and self._partition != partition and now - self._at < FORGOTTEN_AFTER:
            self.waiting = True
            return None
        self._pieces = None  # in case of an error
        if pieces is None or self._partition != partition or not known or pieces.at > offset:
            pieces = Pieces(data, PIECED_BYTES)
        piece = pieces.take(offset, min(PIECE_BYTES, left.bytes), min(PIECE_RECORDS, left.records))
        self._pieces, self._partition, self._at = pieces if piece.more else None, partition, now
        return piece


def _unpacked(codec: int, packed: bytes) -> Iterator[bytes]:
    """Yield what a batch's records unpack to, in chunks of bounded size. Raises ValueError, also for other forms."""
    try:
        yield from CODECS[codec](packed)
    except ValueError:
        raise
    except Exception as error:  # each codec has other errors
        raise ValueError(f"it can't be unpacked: {error}") from error


def _gzip(packed: bytes) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=BytesIO(packed)) as file:
        yield from iter(lambda: file.read1(CHUNK), b"")


def _snappy(packed: bytes) -> Iterator[bytes]:
    if not packed.startswith(XERIAL):
        raise ValueError("its snappy is a single block, which can't be read piece by piece")
    at = XERIAL_HEADER
    while at < len(packed):
        (length,) = INT.unpack_from(packed, at)
        at += INT.size + max(length, 0)
        block = packed[at - length : at] if length > 0 else b""
        if cramjam.snappy.decompress_raw_len(block) > BATCH_BYTES:
            raise ValueError("a block of its snappy is too large")
        yield bytes(cramjam.snappy.decompress_raw(block))


def _lz4(packed: bytes) -> Iterator[bytes]:
    """As https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md; producers of Kafka write independent blocks."""
    at = 0
    while at < len(packed):
        flags, size = packed[at + 4], packed[at + 5]
        if not packed.startswith(LZ4_FRAME, at) or not flags & 0x20:
            raise ValueError("its lz4 is of a form that can't be read piece by piece")
        most = 1 << 8 + 2 * (size >> 4 & 7)
        at += 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
        while length := int.from_bytes(packed[at : at + 4], "little"):
            stored, length = length >> 31, length & 0x7FFFFFFF
            block = packed[at + 4 : at + 4 + length]
            yield block if stored else bytes(cramjam.lz4.decompress_block(block, output_len=most))
            at += 4 + length + (4 if flags & 0x10 else 0)
        at += 4 + (4 if flags & 0x04 else 0)


def _zstd(packed: bytes) -> Iterator[bytes]:
    try:
        import zstandard  # noqa: PLC0415  # the worker's extra has it; cramjam unpacks only as a whole
    except ImportError:
        raise ValueError("without zstandard it can't be read piece by piece: `pip install zstandard`") from None
    with zstandard.ZstdDecompressor(max_window_size=WINDOW).stream_reader(packed, read_across_frames=True) as reader:
        yield from iter(lambda: reader.read(CHUNK), b"")


CODECS: Final[dict[int, Callable[[bytes], Iterator[bytes]]]] = {  # Kafka's numbers
    0: lambda data: iter((data,)),
    1: _gzip,
    2: _snappy,
    3: _lz4,
    4: _zstd,
}

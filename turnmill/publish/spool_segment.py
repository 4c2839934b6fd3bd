"""One segment of the spool: a file of records, and a file with the confirmed offset.

A record has a checksum, which shows whether it is complete:

    mark (4) | length of key (u32) | length of value (u32) | CRC-32 of lengths, key and value (u32) | key | value

Little-endian. The mark never occurs in UTF-8 text, so that the next record after a damaged one is found.
"""

import logging
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = b"\xffTM\x01"
LENGTHS: Final = struct.Struct("<II")
CHECKSUM: Final = struct.Struct("<I")
HEADER: Final = len(MARK) + LENGTHS.size + CHECKSUM.size
ACK: Final = struct.Struct("<QI")  # offset, CRC-32 of it

log = logging.getLogger("turnmill.publish.spool")


@dataclass(slots=True, eq=False)
class Segment:
    """One file. `size`, `read` and `acked` are offsets in it."""

    path: Path
    size: int = 0
    read: int = 0
    acked: int = 0

    def bytes_from(self, start: int) -> bytes:
        """Return the bytes from `start` to `size`."""
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(self.size - start)

    def write_ack(self) -> None:
        """Write the confirmed offset to disk."""
        offset = self.acked.to_bytes(8, "little")
        try:
            descriptor = os.open(self.path.with_suffix(".ack"), os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.pwrite(descriptor, ACK.pack(self.acked, zlib.crc32(offset)), 0)
            finally:
                os.close(descriptor)
        except OSError as error:  # a full disk: after a crash some records would be sent again, which does no harm
            log.debug("%s: %r", self.path, error)

    def remove(self) -> None:
        """Delete the segment and the file with its confirmed offset."""
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".ack").unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class RecordEnd:
    """The end of a record in its segment."""

    segment: Segment
    end: int


@dataclass(frozen=True, slots=True)
class Spooled:
    """A record that was read back."""

    key: bytes
    value: bytes
    record_end: RecordEnd


def opened(path: Path) -> Segment:
    """Return the segment of an existing file, to be read from its confirmed offset."""
    size = path.stat().st_size
    begin = min(_read_ack(path), size)
    return Segment(path, size=size, read=begin, acked=begin)


def _read_ack(path: Path) -> int:
    try:
        offset, checksum = ACK.unpack(path.with_suffix(".ack").read_bytes())
    except (FileNotFoundError, struct.error):
        return 0
    return int(offset) if zlib.crc32(offset.to_bytes(8, "little")) == checksum else 0


@dataclass(frozen=True, slots=True)
class Frame:
    """A complete record, and its position in the scanned bytes."""

    start: int
    end: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no record. `torn`: the beginning of a last record whose rest was never written."""

    start: int
    end: int
    torn: bool


def encode(key: bytes, value: bytes) -> bytes:
    """Return a record as bytes."""
    lengths = LENGTHS.pack(len(key), len(value))
    return b"".join((MARK, lengths, CHECKSUM.pack(_checksum(lengths, key, value)), key, value))


def scan(data: bytes) -> Iterator[Frame | Damage]:
    """Yield all of `data` in order: complete records, and the bytes between them."""
    at = 0
    while at < len(data):
        part = _frame(data, at) or _damage(data, at)
        yield part
        at = part.end


def _frame(data: bytes, at: int) -> Frame | None:
    size = _size(data, at)
    if size is None or at + HEADER + sum(size) > len(data):
        return None
    middle, end = at + HEADER + size[0], at + HEADER + sum(size)
    key, value = data[at + HEADER : middle], data[middle:end]
    lengths = data[at + len(MARK) : at + len(MARK) + LENGTHS.size]
    (stated,) = CHECKSUM.unpack_from(data, at + len(MARK) + LENGTHS.size)
    return Frame(at, end, key, value) if stated == _checksum(lengths, key, value) else None


def _damage(data: bytes, at: int) -> Damage:
    """Return the damaged bytes from `at` to the next complete record, or to the end."""
    start = at
    while (at := data.find(MARK, at + 1)) >= 0:
        if _frame(data, at) is not None:
            return Damage(start, at, torn=False)
    size = _size(data, start)
    if size is None:
        begun = data[start:]
        torn = len(begun) < HEADER and begun[: len(MARK)] == MARK[: len(begun)]
    else:
        torn = start + HEADER + sum(size) > len(data)
    return Damage(start, len(data), torn)


def _size(data: bytes, at: int) -> tuple[int, int] | None:
    """Return the lengths of key and value; None if there is no complete header."""
    if not data.startswith(MARK, at) or at + HEADER > len(data):
        return None
    key, value = LENGTHS.unpack_from(data, at + len(MARK))
    return key, value


def _checksum(lengths: bytes, key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key, zlib.crc32(lengths)))

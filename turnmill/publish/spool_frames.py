"""Records of the spool as bytes with a checksum, which shows whether a record is complete.

    mark (4) | length of key (u32) | length of value (u32) | CRC-32 of lengths, key and value (u32) | key | value

Little-endian. The mark never occurs in UTF-8 text, so that the next record after a damaged one is found.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MARK: Final = b"\xffTM\x01"
LENGTHS: Final = struct.Struct("<II")
CHECKSUM: Final = struct.Struct("<I")
HEADER: Final = len(MARK) + LENGTHS.size + CHECKSUM.size


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
        found = _frame(data, at) or _damage(data, at)
        yield found
        at = found.end


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

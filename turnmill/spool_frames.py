"""Records of the spool as bytes that tell whether they are whole.

    mark (4) | length of key (u32) | length of value (u32) | CRC-32 of lengths, key and value (u32) | key | value

Little-endian. The mark is no part of any UTF-8 text, so that behind a damaged record the next one is found.
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
    """A whole record, at these bytes of what was scanned."""

    start: int
    end: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no record. `torn`: the beginning of one whose rest was never written, at the end."""

    start: int
    end: int
    torn: bool


def encode(key: bytes, value: bytes) -> bytes:
    """Return a record as bytes."""
    lengths = LENGTHS.pack(len(key), len(value))
    return b"".join((MARK, lengths, CHECKSUM.pack(_checksum(lengths, key, value)), key, value))


def scan(data: bytes) -> Iterator[Frame | Damage]:
    """All of `data`, in order: whole records, and what lies between them."""
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
    """To the next whole record, or to the end."""
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
    """Length of key and of value, where a whole header is."""
    if not data.startswith(MARK, at) or at + HEADER > len(data):
        return None
    key, value = LENGTHS.unpack_from(data, at + len(MARK))
    return key, value


def _checksum(lengths: bytes, key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key, zlib.crc32(lengths)))

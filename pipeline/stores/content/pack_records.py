"""Records of a pack: a value each, after the name of its folder and its SHA-256.

A record begins with its length, which is never changed, so the records after an erased record can still be read. All
other bytes of an erased record are zero.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

BEGIN: Final = Struct(">4sIQ")  # MAGIC, CRC-32 of the length, how many bytes follow
NAMES: Final = Struct(">I32sQB")  # CRC-32 of all names, SHA-256 of the value, when it was written, bytes of its folder
MAGIC: Final = b"TMv1"
ZEROS_BYTES: Final = 1 << 20  # zeros that are written at once
HOLE: Final = 0x03  # of Linux's fallocate: FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE


class Record(NamedTuple):
    """The location of a record in its pack, and its names; an erased record has no `folder`. `written`: epoch ms."""

    begin: int
    end: int
    folder: str = ""
    digest: bytes = b""
    written: int = 0

    @property
    def size(self) -> int:
        """The size of the value in bytes."""
        return self.end - end_of(self.begin, self.folder, 0)


def end_of(begin: int, folder: str, size: int) -> int:
    """Return the end of a record that begins at `begin` and has a value of `size` bytes."""
    return begin + BEGIN.size + NAMES.size + len(folder.encode()) + size


def append(file: int, at: int, folder: str, data: bytes, digest: bytes, written: int) -> Record:
    """Write a record into an open file, at `at`. Raises OSError, ValueError for a folder's name that is too long."""
    name = folder.encode()
    if not 0 < len(name) < 256:
        raise ValueError(f"{folder!r:.300} names no folder")
    names = NAMES.pack(0, digest, written, len(name))[4:] + name
    length = NAMES.size + len(name) + len(data)
    size = length.to_bytes(8)
    head = BEGIN.pack(MAGIC, crc32(size), length) + crc32(names).to_bytes(4) + names
    _write(file, at, head)
    _write(file, at + len(head), data)
    return Record(at, end_of(at, folder, len(data)), folder, digest, written)


def record_at(file: int, at: int) -> Record | None:
    """Return the record that begins at `at`; None where none does, or not all of it is there."""
    head = os.pread(file, BEGIN.size + NAMES.size + 255, at)
    if len(head) < BEGIN.size:
        return None
    magic, check, length = BEGIN.unpack_from(head)
    end = at + BEGIN.size + length
    if magic != MAGIC or check != crc32(head[8 : BEGIN.size]) or end > os.fstat(file).st_size:
        return None
    check, digest, written, size = NAMES.unpack_from(head, BEGIN.size)
    begin = BEGIN.size + NAMES.size
    if not size or check != crc32(head[BEGIN.size + 4 : begin + size]):
        return Record(at, end)
    return Record(at, end, head[begin : begin + size].decode(), digest, written)


def records(file: int, at: int) -> Iterator[Record]:
    """Yield all records from this position on."""
    while (record := record_at(file, at)) is not None:
        yield record
        at = record.end


def value_of(file: int, record: Record) -> bytes:
    """Return a record's value. Raises OSError."""
    return os.pread(file, record.size, record.end - record.size)


def erase(file: int, begin: int, end: int) -> None:
    """Overwrite a record, except its length, with zeros; or with a hole, if the file system has any. Raises OSError."""
    begin += BEGIN.size
    punch = _fallocate()
    if punch is None or punch(file, HOLE, begin, end - begin) != 0:
        for at in range(begin, end, ZEROS_BYTES):
            _write(file, at, bytes(min(ZEROS_BYTES, end - at)))


def _write(file: int, at: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        done = os.pwrite(file, left, at)
        left, at = left[done:], at + done


def _fallocate() -> Any:
    """Return Linux's fallocate; None on other systems."""
    try:
        fallocate = ctypes.CDLL(None).fallocate
    except (OSError, AttributeError, TypeError):
        return None
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return fallocate

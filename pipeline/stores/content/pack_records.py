"""Records of a pack: a value each, after the name of its folder and its SHA-256; and the index that finds them.

A record begins with its length, which is never changed, so the records after an erased record can still be read. All
other bytes of an erased record are zero.

The index of a folder of packs, in SQLite, says which folder has which values, and where they are. The packs contain all
of it. So a commit of new values need not be synced, a lost index is rebuilt, and an index that lost commits in a power
failure catches up. Erasures, and values that are referred to again, are synced.
"""

import ctypes
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from threading import RLock
from typing import Any, Final, NamedTuple
from zlib import crc32

from pipeline.stores.database.sqlite_driver import log_ahead

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


NAME: Final = "index.db"
BUSY_TIMEOUT: Final = 60.0  # seconds to wait for other processes
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS packs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    known INTEGER NOT NULL,
    live INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS places (
    folder TEXT NOT NULL,
    digest BLOB NOT NULL,
    pack INTEGER NOT NULL,
    begin INTEGER NOT NULL,
    size INTEGER NOT NULL,
    written INTEGER NOT NULL,
    PRIMARY KEY (folder, digest, pack, begin)
) WITHOUT ROWID;
"""


class Pack(NamedTuple):
    """`known`: how many of its bytes are indexed; `live`: how many values it has."""

    id: int
    name: str
    known: int
    live: int


class ValueLocation(NamedTuple):
    """The location of a value, its size in bytes, and when it was last written or referred to, in epoch ms."""

    digest: bytes
    pack: int
    name: str
    begin: int
    size: int
    written: int


class PackIndex:
    """One connection, for all threads. Every method raises sqlite3.Error."""

    def __init__(self, folder: Path) -> None:
        self._lock = RLock()
        self.connection = sqlite3.connect(
            folder / NAME, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        log_ahead(self.connection.execute)
        self.connection.executescript(SCHEMA)

    @contextmanager
    def transaction(self, *, synced: bool = False) -> Iterator[None]:
        """Run a block's statements in a transaction, without other writers. `synced`: it is on disk at the end."""
        with self._lock:
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    def packs(self) -> list[Pack]:
        """Return all packs, oldest first."""
        with self._lock:
            return [
                Pack(*row) for row in self.connection.execute("SELECT id, name, known, live FROM packs ORDER BY id")
            ]

    def pack(self, name: str) -> Pack:
        """Return the pack of this name, which is added if it is not known."""
        with self.transaction():
            self.connection.execute("INSERT OR IGNORE INTO packs (name, known, live) VALUES (?, 0, 0)", (name,))
            rows = self.connection.execute("SELECT id, name, known, live FROM packs WHERE name = ?", (name,))
            return Pack(*rows.fetchone())

    def add(self, pack: int, records: Iterable[Record], known: int) -> None:
        """Add values of a pack, of which `known` bytes are indexed then."""
        rows = [(record.folder, record.digest, pack, record.begin, record.size, record.written) for record in records]
        with self.transaction():
            added = self.connection.executemany("INSERT OR IGNORE INTO places VALUES (?, ?, ?, ?, ?, ?)", rows).rowcount
            values = known, max(added, 0), pack
            self.connection.execute("UPDATE packs SET known = ?, live = live + ? WHERE id = ?", values)

    def forget(self, pack: Pack) -> None:
        """Remove a pack with all its values."""
        with self.transaction():
            if pack.live:  # the pack's file is gone or replaced: all places are scanned in this case alone
                self.connection.execute("DELETE FROM places WHERE pack = ?", (pack.id,))
            self.connection.execute("DELETE FROM packs WHERE id = ?", (pack.id,))

    def places(self, folder: str, digest: bytes | None = None) -> list[ValueLocation]:
        """Return all locations of a folder's values, or of a single value, last written first."""
        query = "SELECT digest, pack, name, begin, size, written FROM places JOIN packs ON id = pack WHERE folder = ?"
        query, values = (query, (folder,)) if digest is None else (f"{query} AND digest = ?", (folder, digest))
        with self._lock:
            return [ValueLocation(*row) for row in self.connection.execute(f"{query} ORDER BY written DESC", values)]

    def touch(self, folder: str, digest: bytes, now: int) -> bool:
        """Mark a value as written now. Return False if it no longer exists."""
        query = "UPDATE places SET written = ? WHERE folder = ? AND digest = ?"
        with self.transaction(synced=True):
            return self.connection.execute(query, (now, folder, digest)).rowcount > 0

    def remove(self, folder: str, gone: Iterable[ValueLocation]) -> None:
        """Remove values, within the caller's transaction."""
        for location in gone:
            key = folder, location.digest, location.pack, location.begin
            query = "DELETE FROM places WHERE folder = ? AND digest = ? AND pack = ? AND begin = ?"
            count = self.connection.execute(query, key).rowcount
            self.connection.execute("UPDATE packs SET live = live - ? WHERE id = ?", (count, location.pack))

    def folders(self) -> set[str]:
        """Return all folders that have values."""
        with self._lock:
            return {name for (name,) in self.connection.execute("SELECT DISTINCT folder FROM places")}

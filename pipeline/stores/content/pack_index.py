"""The index of a folder of packs, in SQLite: which folder has which values, and where they are.

The packs contain all of it. So a commit of new values need not be synced, a lost index is rebuilt, and an index
that lost commits in a power failure catches up. Erasures, and values that are referred to again, are synced.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Final, NamedTuple

from pipeline.stores.content.pack_records import Record

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
        self.connection.execute("PRAGMA journal_mode = WAL")
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
            if pack.live:  # its file is gone or replaced; only this case scans all places
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

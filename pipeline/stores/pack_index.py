"""The index of a folder of packs, in SQLite: which folder has which values, and where they stand.

Packs say all of it themselves. So a commit of new values waits for no disk, and a lost index is made again; one that a
power failure has set back catches up. What was erased, or is referred to anew, is on disk when that is committed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Final, NamedTuple

from pipeline.stores.pack_records import Record

NAME: Final = "index.db"
PATIENCE: Final = 60.0  # seconds to wait for other processes
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
    """`known`: bytes of it that the index knows; `live`: how many values it has."""

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
            folder / NAME, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.executescript(SCHEMA)

    @contextmanager
    def transaction(self, *, synced: bool = False) -> Iterator[None]:
        """Carry out the statements of a block as one, while nobody else writes. `synced`: it is on disk at the end."""
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
        """All packs, the oldest first."""
        with self._lock:
            return [
                Pack(*row) for row in self.connection.execute("SELECT id, name, known, live FROM packs ORDER BY id")
            ]

    def pack(self, name: str) -> Pack:
        """Return the pack of this name, which is added where it is not known."""
        with self.transaction():
            self.connection.execute("INSERT OR IGNORE INTO packs (name, known, live) VALUES (?, 0, 0)", (name,))
            found = self.connection.execute("SELECT id, name, known, live FROM packs WHERE name = ?", (name,))
            return Pack(*found.fetchone())

    def add(self, pack: int, found: Iterable[Record], known: int) -> None:
        """Add values of a pack, of which so many bytes are known then."""
        rows = [(one.folder, one.digest, pack, one.begin, one.size, one.written) for one in found]
        with self.transaction():
            added = self.connection.executemany("INSERT OR IGNORE INTO places VALUES (?, ?, ?, ?, ?, ?)", rows).rowcount
            values = known, max(added, 0), pack
            self.connection.execute("UPDATE packs SET known = ?, live = live + ? WHERE id = ?", values)

    def forget(self, pack: Pack) -> None:
        """Remove a pack, with all that it had."""
        with self.transaction():
            if pack.live:  # its file is gone, or an older one: looking through all places is for then alone
                self.connection.execute("DELETE FROM places WHERE pack = ?", (pack.id,))
            self.connection.execute("DELETE FROM packs WHERE id = ?", (pack.id,))

    def places(self, folder: str, digest: bytes | None = None) -> list[ValueLocation]:
        """Return the locations of a folder's values, or of one of them, the last written first.

        A value that is there several times has as many.
        """
        query = "SELECT digest, pack, name, begin, size, written FROM places JOIN packs ON id = pack WHERE folder = ?"
        query, values = (query, (folder,)) if digest is None else (f"{query} AND digest = ?", (folder, digest))
        with self._lock:
            return [ValueLocation(*row) for row in self.connection.execute(f"{query} ORDER BY written DESC", values)]

    def touch(self, folder: str, digest: bytes, now: int) -> bool:
        """Let a value count as written now. Return False if it is no longer there."""
        query = "UPDATE places SET written = ? WHERE folder = ? AND digest = ?"
        with self.transaction(synced=True):
            return self.connection.execute(query, (now, folder, digest)).rowcount > 0

    def remove(self, folder: str, gone: Iterable[ValueLocation]) -> None:
        """Remove values, within a transaction."""
        for one in gone:
            key = folder, one.digest, one.pack, one.begin
            query = "DELETE FROM places WHERE folder = ? AND digest = ? AND pack = ? AND begin = ?"
            count = self.connection.execute(query, key).rowcount
            self.connection.execute("UPDATE packs SET live = live - ? WHERE id = ?", (count, one.pack))

    def folders(self) -> set[str]:
        """All folders that have values."""
        with self._lock:
            return {name for (name,) in self.connection.execute("SELECT DISTINCT folder FROM places")}

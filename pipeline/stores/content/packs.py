"""Large values on a local disk, in packs: append-only files with values of many threads, synced once per batch.

A process appends only to the pack that it has locked; all processes read all packs, and erase in them. A pack without a
lock is repaired by the next process that finds it: incomplete data after the last whole record, from a crash or a power
failure, is cut off, and records that the index lacks are added to it. A pack without values is deleted.
"""

import fcntl
import os
import time
import uuid
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from hashlib import sha256
from itertools import groupby, takewhile
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from pipeline.stores.content import pack_records
from pipeline.stores.content.files import FRESH_SECONDS, sync_folder

SUFFIX: Final = ".pack"
PACK_BYTES: Final = 256_000_000  # from which on a pack gets no more values
LOCK: Final = "lock"

_sync_data: Final = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync


class Stored(NamedTuple):
    """A value of a folder: its SHA-256, its size in bytes, and when it was last written, in epoch ms."""

    digest: str
    size: int
    modified: int


class OpenPack(NamedTuple):
    """The pack that this process appends to, and where its last record ends."""

    file: int
    id: int
    end: int


class Packs:
    """The packs of a folder. Its methods may be called by several threads; they raise OSError and sqlite3.Error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index: pack_records.PackIndex | None = None
        self._opening = Lock()
        self._appending = Lock()
        self._open_pack: OpenPack | None = None
        self._held = ExitStack()  # the file of the pack that is appended to, and its lock
        weakref.finalize(self, self._held.close)

    def put(self, values: Sequence[tuple[str, bytes]]) -> list[str]:
        """Write values into folders, durably; return their SHA-256. An existing value counts as written now."""
        digests = [sha256(data).digest() for _, data in values]
        named = {(folder, digest): data for (folder, data), digest in zip(values, digests, strict=True)}
        now = time.time_ns() // 1_000_000
        with self._appending:
            if (
                self._open_pack is not None and not os.fstat(self._open_pack.file).st_nlink
            ):  # another process has deleted it
                self._leave()
                self._index = None
            index = self._open()
            new = {name: data for name, data in named.items() if not self._has(index, *name, data, now)}
            if new:
                self._append(index, new, now)
        return [digest.hex() for digest in digests]

    def read(self, folder: str, digest: str, most: int) -> bytes:
        """Return a value of at most `most` bytes. Raises FileNotFoundError, ValueError for more bytes."""
        places = self._open().places(folder, bytes.fromhex(digest)) if self.folder.exists() else []
        for location in places:
            if location.size > most:
                raise ValueError(f"it has more than {most} bytes")
            data = self._data(folder, location)
            if data is not None and (len(places) == 1 or sha256(data).digest() == location.digest):
                return data
        raise FileNotFoundError(digest)

    def stored(self, folder: str) -> list[Stored]:
        """Return all values of a folder."""
        places = self._open().places(folder) if self.folder.exists() else []
        return list(
            {
                location.digest: Stored(location.digest.hex(), location.size, location.written)
                for location in reversed(places)
            }.values()
        )

    def folders(self) -> set[str]:
        """Return all folders that have values."""
        return self._open().folders() if self.folder.exists() else set()

    def erase(self, folder: str, digests: Collection[str] | None = None, before: int | None = None) -> int:
        """Durably erase a folder's values, or some, last written before a time (epoch ms); return how many."""
        if not self.folder.exists():
            return 0
        index = self._open()
        with self._alone():
            self._mend(index)  # the value may be in a pack whose owner could not update the index
        with index.transaction(synced=True):
            gone = [
                location
                for location in index.places(folder)
                if (digests is None or location.digest.hex() in digests)
                and (before is None or location.written < before)
            ]
            for name, some in groupby(sorted(gone, key=lambda location: location.name), lambda location: location.name):
                with suppress(FileNotFoundError), _opened(self.folder / name) as file:
                    for location in some:
                        pack_records.erase(
                            file, location.begin, pack_records.end_of(location.begin, folder, location.size)
                        )
                    os.fsync(file)
            index.remove(folder, gone)
        if gone:
            with self._alone():
                self._mend(index)
        return len({location.digest for location in gone})

    # ---- a pack

    def _has(self, index: pack_records.PackIndex, folder: str, digest: bytes, data: bytes, now: int) -> bool:
        """Return True if a folder has this value, and it was written recently."""
        for location in index.places(folder, digest):
            if self._data(folder, location) == data:
                return location.written > now - FRESH_SECONDS * 1000 or index.touch(folder, digest, now)
        return False

    def _data(self, folder: str, location: pack_records.ValueLocation) -> bytes | None:
        """Return the value at a location; None if it was erased."""
        with suppress(FileNotFoundError), _opened(self.folder / location.name) as file:
            record = pack_records.record_at(file, location.begin)
            if record is not None and (record.folder, record.digest) == (folder, location.digest):
                return pack_records.value_of(file, record)
        return None

    def _append(self, index: pack_records.PackIndex, new: dict[tuple[str, bytes], bytes], now: int) -> None:
        pack = self._open_pack = self._open_pack or self._take(index)
        try:
            written, end = list[pack_records.Record](), pack.end
            for (folder, digest), data in new.items():
                written.append(pack_records.append(pack.file, end, folder, data, digest, now))
                end = written[-1].end
            _sync_data(pack.file)
            index.add(pack.id, written, end)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(pack.file, pack.end)
            self._leave()  # after a failed sync it is unknown what is on disk
            raise
        self._open_pack = pack._replace(end=end)
        if end >= PACK_BYTES:
            self._leave()

    def _take(self, index: pack_records.PackIndex) -> OpenPack:
        """Lock a pack that has room and no owner, or a new pack."""
        with self._alone():
            self._mend(index)
            for known in index.packs():
                if known.known < PACK_BYTES:
                    with suppress(BlockingIOError), ExitStack() as stack:
                        file = stack.enter_context(_locked(self.folder / known.name))
                        pack = index.pack(known.name)
                        if os.fstat(file).st_size == pack.known:
                            self._held.enter_context(stack.pop_all())
                            return OpenPack(file, pack.id, pack.known)
            name = f"{uuid.uuid4().hex}{SUFFIX}"
            file = self._held.enter_context(_locked(self.folder / name))
            sync_folder(self.folder)
            return OpenPack(file, index.pack(name).id, 0)

    def _leave(self) -> None:
        self._open_pack = None
        self._held.close()

    # ---- all packs

    def _open(self) -> pack_records.PackIndex:
        with self._opening:
            if self._index is None:
                new = list(takewhile(lambda folder: not folder.exists(), (self.folder, *self.folder.parents)))
                self.folder.mkdir(parents=True, exist_ok=True)
                for folder in new:
                    sync_folder(folder.parent)
                with self._alone():
                    index = pack_records.PackIndex(self.folder)
                    weakref.finalize(self, index.connection.close)
                    self._mend(index)
                self._index = index
            return self._index

    def _alone(self) -> AbstractContextManager[int]:
        """Keep all other processes from making, repairing and deleting packs."""
        return _locked(self.folder / LOCK, wait=True)

    def _mend(self, index: pack_records.PackIndex) -> None:
        """Repair the packs that have no owner, and delete those without values."""
        known = {pack.name: pack for pack in index.packs()}
        for path in self.folder.glob(f"*{SUFFIX}"):
            pack = known.pop(path.name, None)
            if pack is None or not pack.live or path.stat().st_size != pack.known:
                with suppress(BlockingIOError), _locked(path) as file:
                    _mend_one(index, path, file)
        for pack in known.values():
            index.forget(pack)


def _mend_one(index: pack_records.PackIndex, path: Path, file: int) -> None:
    pack, size = index.pack(path.name), os.fstat(file).st_size
    if size < pack.known:  # the file was replaced by an older file
        index.forget(pack)
        pack = index.pack(path.name)
    whole, end = list[pack_records.Record](), pack.known
    for record in pack_records.records(file, pack.known):
        if record.folder:
            whole.append(record)
        else:  # erased, or its names are incomplete, so that it can't be found
            pack_records.erase(file, record.begin, record.end)
        end = record.end
    os.ftruncate(file, end)
    os.fsync(file)
    index.add(pack.id, whole, end)
    pack = index.pack(path.name)
    if not pack.live:
        path.unlink()
        sync_folder(path.parent)
        index.forget(pack)


@contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | flags, 0o666)
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def _locked(path: Path, *, wait: bool = False) -> Iterator[int]:
    """Open a file, create it if missing, and lock it. Raises BlockingIOError if another process has locked it."""
    with _opened(path, os.O_CREAT) as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield file

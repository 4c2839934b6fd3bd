"""Records on disk that the broker can't take now. Synchronous; `turnmill.publish.delivery` decides when it is used.

    FOLDER/<owner>/lock            held by the process that owns the folder; freed by the system when it dies
    FOLDER/<owner>/<ns>-<owner>.log   a segment: records as `turnmill.publish.spool_segment` writes them, appended only
    FOLDER/<owner>/<ns>-<owner>.ack   up to where the segment is confirmed; without it, records are sent again
    FOLDER/damaged/                bytes that could not be read as a record
    FOLDER/refused.jsonl           records that the broker refused for good, and why

Only the user of the process may read these files, since they contain conversations.

When `append` returns, the operating system has the record: it survives the end of the process, even if it is killed. It
survives a power cut once `fsync_all` of the descriptors of `unsynced` has returned. The delivery calls it at most 0.1 s
later. Segments of dead processes are adopted at the start, in the order of their creation.
"""

import fcntl
import json
import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

from turnmill.clock import now_ms
from turnmill.errors import CallerError
from turnmill.publish.spool_segment import Frame, RecordEnd, Segment, Spooled, encode, opened, scan

SEGMENT_BYTES: Final = 4 * 1024 * 1024
DAMAGED: Final = "damaged"
REFUSED: Final = "refused.jsonl"
LOCK: Final = "lock"  # the system releases it when the process that owns the folder dies

log = logging.getLogger(__name__)


class SpoolFull(Exception):
    """The spool has no room; the message says whether `spool_bytes` is reached or the disk is full."""


class Spool:
    """One process's spool in `folder`, of at most `most_bytes` including adopted segments.

    `adopted`: records of dead processes; `damaged`: regions of segments that could not be read. Raises CallerError if
    the folder can't be used.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder = folder
        self.adopted = 0
        self.damaged = 0
        self._most = most_bytes
        self._segments: deque[Segment] = deque()
        self._live: int | None = None  # descriptor of the last segment
        self._old: list[int] = []  # descriptors of full segments that are to be synced
        self._dirty = False
        self._named = 0
        self._own = folder / f"{os.getpid()}-{uuid4().hex[:8]}"
        try:
            self._lock = own_folder(self._own)
            self._adopt()
        except OSError as error:
            raise CallerError(
                f"the spool {folder} can't be used ({error.strerror or error}): make it writable, or set "
                "TURNMILL_SPOOL to a folder that is"
            ) from error

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def unread(self) -> bool:
        """True if `read` would return records."""
        return bool(self._segments) and self._segments[-1].read < self._segments[-1].size

    def append(self, key: bytes, value: bytes) -> RecordEnd:
        """Append a record. Raises SpoolFull; then no part of it remains in the file."""
        frame = encode(key, value)
        if self.size + len(frame) > self._most:
            raise SpoolFull(f"it holds {self.size:,} of TURNMILL_SPOOL_BYTES={self._most} bytes")
        try:
            segment = self._open_segment()
            self._write(segment, frame)
        except OSError as error:
            raise SpoolFull(error.strerror or repr(error)) from error
        self._dirty = True
        return RecordEnd(segment, segment.size)

    def skip(self) -> None:
        """Make `read` skip the records appended so far, since they are in memory."""
        for segment in self._segments:
            segment.read = segment.size

    def read(self) -> list[Spooled]:
        """Return the next records of a segment, in order; empty if all are read. Damaged bytes go to a file."""
        for segment in list(self._segments):
            if segment.read < segment.size and (records := self._rest_of(segment)):
                return records
        return []

    def ack(self, record_ends: Iterable[RecordEnd]) -> None:
        """Note that these records, given in order, and all before them are confirmed: no process reads them again."""
        for record_end in record_ends:
            record_end.segment.acked = record_end.end
        while self._segments and self._segments[0].acked >= self._segments[0].size:
            segment = self._segments.popleft()
            if not self._segments and self._live is not None:
                os.close(self._live)
                self._live = None
            segment.remove()
        if self._segments and self._segments[0].acked:
            self._segments[0].write_ack()

    def unsynced(self) -> list[int]:
        """Return descriptors for `fsync_all`, which closes them; empty if everything is synced."""
        if not self._dirty:
            return []
        self._dirty = False
        descriptors, self._old = self._old, []
        if self._live is not None:
            descriptors.append(os.dup(self._live))
        return [*descriptors, os.open(self._own, os.O_RDONLY)]

    def refuse(self, key: bytes, value: bytes, reason: str) -> Path:
        """Write a record that the broker refuses for good to a file. Return its path; raises OSError."""
        path = self.folder / REFUSED
        line = {"time": now_ms(), "reason": reason}
        line |= {"key": key.decode("utf-8", "replace"), "value": value.decode("utf-8", "replace")}
        with open(path, "a", opener=_private) as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        return path

    def close(self) -> None:
        """Sync the remaining segments and release them for adoption; without segments, remove the folder."""
        fsync_all(self.unsynced())
        if self._live is not None:
            os.close(self._live)
            self._live = None
        if not self._segments:
            _leave(self._own)
        os.close(self._lock)

    def _open_segment(self) -> Segment:
        if self._live is not None and self._segments[-1].size < SEGMENT_BYTES:
            return self._segments[-1]
        self._named = max(self._named + 1, time.time_ns())
        path = self._own / f"{self._named:020d}-{self._own.name}.log"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        if self._live is not None:
            self._old.append(self._live)
        self._live = descriptor
        self._segments.append(Segment(path))
        return self._segments[-1]

    def _write(self, segment: Segment, frame: bytes) -> None:
        assert self._live is not None  # _open_segment has just opened it
        left = memoryview(frame)
        try:
            while left:
                left = left[os.write(self._live, left) :]
        except OSError:
            os.ftruncate(self._live, segment.size)
            raise
        segment.size += len(frame)

    def _adopt(self) -> None:
        """Move the segments of folders whose owner is dead to our folder, and count their records."""
        for folder in sorted(self.folder.iterdir()):
            if folder != self._own and folder.name != DAMAGED and folder.is_dir():
                adopt(folder, self._own)
        for path in sorted(self._own.glob("*.log")):
            segment = opened(path)
            self._segments.append(segment)
            self.adopted += sum(isinstance(part, Frame) for part in scan(segment.bytes_from(segment.read)))
        self.ack([])
        if self._segments:
            self._named = int(self._segments[-1].path.name.partition("-")[0])
            log.info(
                "the spool %s holds %d records of earlier processes: they are sent first", self.folder, self.adopted
            )

    def _rest_of(self, segment: Segment) -> list[Spooled]:
        """Return a segment's records from `read` to the end.

        Other bytes are moved to a file; at the segment's end, its size no longer includes them.
        """
        begin = last = segment.read
        data = segment.bytes_from(begin)
        records = []
        for part in scan(data):
            if isinstance(part, Frame):
                last = begin + part.end
                records.append(Spooled(part.key, part.value, RecordEnd(segment, last)))
            else:
                self._put_aside(segment, begin + part.start, data[part.start : part.end], torn=part.torn)
        segment.size = segment.read = last
        self.ack([])
        return records

    def _put_aside(self, segment: Segment, start: int, data: bytes, *, torn: bool) -> None:
        self.damaged += 1
        aside = self.folder / DAMAGED / f"{segment.path.stem}-{start}"
        what = "are a record that a crash cut off" if torn else "are damaged"
        log.error("%s: %d bytes from %d %s; they are kept in %s", segment.path, len(data), start, what, aside)
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        aside.parent.chmod(0o700)  # as above
        with open(aside, "wb", opener=_private) as file:
            file.write(data)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def fsync_all(descriptors: Sequence[int]) -> None:
    """Sync files and close them. Call it in a thread, since it may take long."""
    for descriptor in descriptors:
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def own_folder(folder: Path) -> int:
    """Make a folder and lock it. Return the lock's descriptor; closing it releases the lock. Raises OSError.

    Before the folder is locked, another process may think that its owner is dead, and remove it: then it is made again.
    """
    # Independent of the umask: anybody who can write here could add records for a publisher to adopt.
    for above in (folder.parent.parent, folder.parent):
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_there(lock, folder):
            return lock
        os.close(lock)


def _leave(folder: Path) -> None:
    """Remove our folder, which contains only its lock."""
    (folder / LOCK).unlink(missing_ok=True)
    folder.rmdir()


def adopt(folder: Path, target: Path) -> None:
    """Move the segments from `folder` to `own`, unless the owner is alive. Raises OSError."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return  # the folder is just being made or removed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_there(lock, folder):  # else another process has just adopted it
            _move(folder, target)
    except BlockingIOError:
        return  # its owner is alive
    finally:
        os.close(lock)


def _is_there(lock: int, folder: Path) -> bool:
    """Return True if the locked file is still the lock in the folder."""
    try:
        return os.path.samestat(os.fstat(lock), (folder / LOCK).stat())
    except FileNotFoundError:
        return False


def _move(folder: Path, target: Path) -> None:
    for pattern in ("*.ack", "*.log"):  # in this order: a segment moved without its .ack would be sent again
        for path in folder.glob(pattern):
            path.rename(target / path.name)
    (folder / LOCK).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError as error:
        log.warning("%s holds something else than segments, and stays: %s", folder, error.strerror)

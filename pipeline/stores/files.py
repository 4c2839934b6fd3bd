"""Files that are written whole and synced to disk, or not at all."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Final

FRESH: Final = 3600.0  # seconds for which a file counts as written just now

_making: Final = Lock()
_new: Final[set[Path]] = set()  # folders that were made here


def write_file(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file and its folders, and sync them to disk. Raises OSError.

    An existing file of this size stays, unless `replace` is set; one of long ago then counts as written now.
    """
    new = _folder_for(path)
    there = None if replace else _stat(path)
    if there is not None and there.st_size == len(data):
        if there.st_mtime > time.time() - FRESH:  # whoever wrote it may have been killed before it was to stay
            _sync(path.parent)
            _together(path.parent.parent)
            return
        with suppress(FileNotFoundError):  # it is deleted just now, as nothing referred to it
            os.utime(path)
            return
    partial = f"{path}.{uuid.uuid4().hex}"
    try:
        with open(partial, "xb", buffering=0) as file:  # noqa: PTH123  # a Path takes as long as the call
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        os.replace(partial, path)  # noqa: PTH105  # as above
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    _sync(path.parent)
    for folder in new:
        _together(folder.parent)
        _new.discard(folder)


def _folder_for(path: Path) -> list[Path]:
    """Make the folder of a file, and those that it is in -> the new ones, whose own entries are not on disk yet: also
    those that another thread has made just now, or a call that failed then.
    """
    with _making:
        try:
            path.parent.mkdir()
        except FileExistsError:
            pass
        except FileNotFoundError:
            _new.update(takewhile(lambda folder: not folder.exists(), path.parents))
            path.parent.mkdir(parents=True, exist_ok=True)
        else:
            _new.add(path.parent)
        return [folder for folder in path.parents if folder in _new] if _new else []


def _stat(path: Path) -> os.stat_result | None:
    """None where there is no such file, nor can be."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_file(path: Path, most: int) -> bytes:
    """The bytes of a regular file of at most `most` bytes. Raises OSError, ValueError."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")
    if path.stat().st_size > most:
        raise ValueError(f"it has more than {most} bytes")
    return path.read_bytes()


def delete_file(path: Path) -> None:
    """Delete a file if it exists. Raises OSError."""
    path.unlink(missing_ok=True)


def delete_folder(path: Path) -> int:
    """Delete a folder and its content -> the number of its files, 0 where it does not exist. Raises OSError."""
    if not path.exists():
        return 0
    files = sum(found.is_file() for found in path.iterdir())
    shutil.rmtree(path)
    _sync(path.parent)
    return files


def files_under(folder: Path) -> list[str]:
    """The paths of all files below a folder, relative to it; empty where it does not exist. Raises OSError."""
    return [found.relative_to(folder).as_posix() for found in sorted(folder.rglob("*")) if found.is_file()]


def stats_under(folder: Path) -> list[tuple[str, int, int]]:
    """(path, size in bytes, when it was written in epoch ms) of all files below a folder; see `files_under`."""
    found = []
    for path in files_under(folder):
        try:
            stat = (folder / path).stat()
        except FileNotFoundError:  # it was deleted meanwhile
            continue
        found.append((path, stat.st_size, stat.st_mtime_ns // 1_000_000))
    return found


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Together:
    """Syncs folders for many threads at once: those that come while one is being synced wait for the next time, which
    is one for all of them.
    """

    def __init__(self, sync: Callable[[Path], None]) -> None:
        self._sync = sync
        self._lock = Lock()
        self._syncing = Lock()
        self._next: dict[Path, Future[None]] = {}

    def __call__(self, folder: Path) -> None:
        """Returns when all that stood in the folder at the time of this call is on disk. Raises OSError."""
        with self._lock:
            mine = folder not in self._next
            done = self._next.setdefault(folder, Future())
        if mine:
            with self._syncing:
                with self._lock:
                    del self._next[folder]  # who comes now may have written something that this time misses
                try:
                    self._sync(folder)
                except BaseException as error:
                    done.set_exception(error)
                else:
                    done.set_result(None)
        done.result()


_together: Final = Together(_sync)

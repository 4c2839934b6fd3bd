"""Files that are written whole and synced to disk, or not at all."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

FRESH: Final = 3600.0  # seconds for which a file counts as written just now


def write_file(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file and its folders, and sync them to disk. Raises OSError.

    An existing file of this size stays, unless `replace` is set; one of long ago then counts as written now.
    """
    there = None if replace else _stat(path)
    if there is not None and there.st_size == len(data):
        if there.st_mtime > time.time() - FRESH:
            return
        with suppress(FileNotFoundError):  # it is deleted just now, as nothing referred to it
            os.utime(path)
            return
    missing = list(takewhile(lambda folder: not folder.exists(), path.parents))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        with partial.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    for folder in [path.parent, *(folder.parent for folder in missing)]:
        _sync(folder)


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

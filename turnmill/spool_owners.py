"""Whose folder of a spool is whose: a lock that the system frees when its process dies."""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from typing import Final

LOCK: Final = "lock"

log = logging.getLogger("turnmill.spool")


def take(folder: Path) -> int:
    """Make a folder and own it. -> the descriptor of its lock, which is freed when that is closed. Raises OSError.

    Between its making and the lock another process may take the folder for a dead one's and remove it: then once more.
    """
    # Whatever the umask is: who could write here, could put records in for a publisher to adopt.
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


def leave(folder: Path) -> None:
    """Remove an own folder that holds no more than its lock."""
    (folder / LOCK).unlink(missing_ok=True)
    folder.rmdir()


def adopt(folder: Path, own: Path) -> None:
    """Move the segments out of `folder` into `own`, unless the owner lives. Raises OSError where that can't be done."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return  # it is just being made or removed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_there(lock, folder):  # else another process has just adopted it
            _move(folder, own)
    except BlockingIOError:
        return  # its owner lives
    finally:
        os.close(lock)


def _is_there(lock: int, folder: Path) -> bool:
    """Return True if the locked file is still the folder's."""
    try:
        return os.path.samestat(os.fstat(lock), (folder / LOCK).stat())
    except FileNotFoundError:
        return False


def _move(folder: Path, own: Path) -> None:
    for pattern in ("*.ack", "*.log"):  # a segment whose mark stays behind would be sent again
        for path in folder.glob(pattern):
            path.rename(own / path.name)
    (folder / LOCK).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError as error:
        log.warning("%s holds something else than segments, and stays: %s", folder, error.strerror)

"""Ownership of the spool's folders, by a lock that the system releases when the process dies."""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from typing import Final

LOCK: Final = "lock"

log = logging.getLogger("turnmill.publish.spool")


def take(folder: Path) -> int:
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


def leave(folder: Path) -> None:
    """Remove our own folder, which contains only its lock."""
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

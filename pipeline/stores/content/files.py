"""Files that are written completely and synced to disk, or not at all."""

import os
import uuid
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Final

FRESH_SECONDS: Final = 3600.0  # seconds for which a file counts as written just now

_making: Final = Lock()
_new: Final[set[Path]] = set()  # folders that were made here


def write_file(path: Path, data: bytes) -> None:
    """Write a file and its folders, and sync them to disk. An existing file is replaced. Raises OSError."""
    new = _folder_for(path)
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
    sync_folder(path.parent)
    for folder in new:
        sync_folder(folder.parent)
        _new.discard(folder)


def _folder_for(path: Path) -> list[Path]:
    """Make the folder of a file and its parents; return the new ones, whose entries are not on disk yet."""
    with _making:  # folders that another thread, or a call that failed, has just made are returned, too
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


def read_file(path: Path, most: int) -> bytes:
    """Return the bytes of a regular file of at most `most` bytes. Raises OSError, ValueError."""
    if path.exists() and not path.is_file():
        raise ValueError("it is no file")
    if path.stat().st_size > most:
        raise ValueError(f"it has more than {most} bytes")
    return path.read_bytes()


def files_under(folder: Path) -> list[str]:
    """Return the relative paths of all files below a folder; none where it does not exist. Raises OSError."""
    at = len(f"{folder}/")  # a deletion lists the whole archive: `os.walk` takes a quarter of the time of `Path.rglob`
    files = [f"{parent}/{name}"[at:] for parent, _, names in os.walk(folder, onerror=_unless_gone) for name in names]
    return sorted(files, key=lambda path: path.split("/"))


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def sync_folder(folder: Path) -> None:
    """Sync the names of the files and folders in a folder to disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

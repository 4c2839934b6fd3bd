"""Paths: the folder of the project, the cache of downloads, and the folder in which tests write."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache" / "turnmill"
MEMORY: Final = Path("/dev/shm")  # where there is one
MEMORY_BYTES: Final = 6 << 30  # what all tests together write, twice


def temporary() -> Path:
    """-> the folder in which tests write: in memory, if enough is free. A disk takes a third of all their time."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        return MEMORY
    return Path(tempfile.gettempdir())

"""Where things are: the folder of the project, what was downloaded for it, and what tests write."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache" / "turnmill"
MEMORY: Final = Path("/dev/shm")  # where there is one
MEMORY_BYTES: Final = 6 << 30  # what all tests together write, twice


def temporary() -> Path:
    """-> where tests write: memory, where enough is free; a disk takes a third of all their time to make files."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        return MEMORY
    return Path(tempfile.gettempdir())

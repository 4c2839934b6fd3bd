"""The memory of a process as a container bounds it: by a cgroup, whose processes the kernel kills beyond that."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

GROUPS: Final = Path("/sys/fs/cgroup")
INSIDE: Final = 'echo $$ > "$0" && exec "$@"'  # so that all is counted, from the first import on


def within_bound(command: Sequence[str], size: int) -> list[str]:
    """Return the command that runs another one in a cgroup of its own, of `size` bytes. Raises OSError without the
    right to make one.
    """
    first = (GROUPS / "memory").is_dir()  # version 1 has a tree for each resource
    group = GROUPS / ("memory" if first else "") / f"turnmill-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(size))
    return ["/bin/sh", "-c", INSIDE, str(group / "cgroup.procs"), *command]


def emptied() -> None:
    """Remove the groups whose processes have ended."""
    for group in (*GROUPS.glob("turnmill-*"), *GROUPS.glob("memory/turnmill-*")):
        if not (group / "cgroup.procs").read_text():
            group.rmdir()

"""How many cores this process may use: of those of the machine, what its affinity and its cgroups leave it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

OWN: Final = Path("/proc/self/cgroup")
CGROUPS: Final = Path("/sys/fs/cgroup")


def cores(own: Path = OWN, cgroups: Path = CGROUPS) -> int:
    """-> at least 1. A quota of one and a half cores is one: a second process would wait for the first."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        allowed = os.cpu_count() or 1
    return max(1, math.floor(min([allowed, *_quotas(own, cgroups)])))


def _quotas(own: Path, cgroups: Path) -> Iterator[float]:
    """The limits of our cgroup and of those around it, in cores; none where there are no cgroups."""
    for line in _text(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:  # version 2
            for folder in _around(cgroups, path):
                quota, _, period = _text(folder / "cpu.max").partition(" ")
                yield from _cores(quota, period)
        elif "cpu" in controllers.split(","):
            for folder in _around(cgroups / "cpu", path):
                yield from _cores(_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us"))


def _around(root: Path, path: str) -> Iterator[Path]:
    """Our group's folder and its parents. Inside a container the root is our group, and `path` may not be there."""
    folder = root / path.strip("/")
    yield from (folder, *(parent for parent in folder.parents if parent.is_relative_to(root)))


def _cores(quota: str, period: str) -> Iterator[float]:
    try:
        each, of = int(quota), int(period)
    except ValueError:  # `max`, or no such file
        return
    if each > 0 and of > 0:  # version 1 writes -1 for no limit
        yield each / of


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""

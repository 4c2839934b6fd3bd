"""The number of a worker's processes, and the roles of each.

One process uses one core, which its roles share. So the roles that read events and telemetry run in another process
than those that write turns to a store; further processes share the partitions of the same groups.
"""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.worker.host.roles import Role

APART: Final = 2  # processes: one for each kind of role


@dataclass(frozen=True, slots=True)
class Part:
    """The roles of a process. Logs and metrics name the process by `name`."""

    name: str
    roles: tuple[Role, ...]


def usual_processes() -> int:
    """Return the default number of processes of `turnmill worker`: two, unless there is only one core."""
    return min(APART, cores())


def parts(store_url: str, roles: Sequence[Role], processes: int) -> list[Part]:
    """Distribute roles to at most `processes` processes, as evenly as possible.

    There are fewer if more would not help: a SQLite file has one writer at a time, and light roles need only one
    process.
    """
    if processes == 1:
        return [Part("worker", tuple(roles))]
    kinds = [[role for role in roles if role.needs_store is writes] for writes in (False, True)]
    most = [_most(store_url, kind, processes) for kind in kinds]
    counts = [0 for _ in kinds]
    for _ in range(min(processes, sum(most))):
        able = [number for number, count in enumerate(counts) if count < most[number]]
        counts[min(able, key=counts.__getitem__)] += 1
    return [part for kind, count in zip(kinds, counts, strict=True) for part in _alike(kind, count)]


def _most(store_url: str, kind: Sequence[Role], processes: int) -> int:
    """Return the number of processes of these roles that are useful."""
    one_at_a_time = store_url.startswith("sqlite:") and any(role.needs_store for role in kind)
    return min(len(kind), 1) if one_at_a_time or all(role.light for role in kind) else processes


def _alike(roles: Sequence[Role], count: int) -> list[Part]:
    """Return `count` processes of the same roles; only the first has the light ones."""
    heavy = tuple(role for role in roles if not role.light)
    if count <= 1:
        return [Part((heavy or tuple(roles))[0].name, tuple(roles)) for _ in range(count)]
    return [Part(f"{heavy[0].name}-{number}", tuple(roles) if number == 1 else heavy) for number in range(1, count + 1)]


CGROUP: Final = Path("/proc/self/cgroup")
CGROUPS: Final = Path("/sys/fs/cgroup")


def cores(cgroup: Path = CGROUP, cgroups: Path = CGROUPS) -> int:
    """Return the number of usable cores, at least 1.

    A quota of one and a half cores counts as one, since a second process would wait for the first.
    """
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        allowed = os.cpu_count() or 1
    return max(1, math.floor(min([allowed, *_quotas(cgroup, cgroups)])))


def _quotas(cgroup: Path, cgroups: Path) -> Iterator[float]:
    """Yield the limits of our cgroup and its parents, in cores; none without cgroups."""
    for line in _text(cgroup).splitlines():
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
    """Yield our group's folder and its parents. In a container, the root is our group, and `path` may not exist."""
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

"""How much memory processes have, and whether it grows."""

from collections.abc import Sequence
from pathlib import Path


def rss(pid: int) -> int:
    """Bytes of a process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """(seconds, value) -> growth in percent of the mean an hour, by least squares."""
    mean_x = sum(x for x, _ in samples) / len(samples)
    mean_y = sum(y for _, y in samples) / len(samples)
    spread = sum((x - mean_x) ** 2 for x, _ in samples)
    if not spread:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread * 3600 / mean_y * 100

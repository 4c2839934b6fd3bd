"""How many of some times are how long: histograms with logarithmic bins, which can be added and subtracted. Pure.

A bin holds the whole milliseconds that one of them, its value, stands for with an error of at most 2 %. Below 50 ms a
bin holds one value, so those are exact. As the bins are the same for all, a histogram of many is the sum of theirs, and
a percentile by nearest rank is the value of the bin that the measured one is in: within 2 % of it.

As text a histogram is `FIRST.WIDTH.COUNTS`: the first bin that holds one, and the counts from the last bin to the
first, as hexadecimal numbers of WIDTH digits. That is three digits more than any of them needs, so that 4,096 texts of
a width are added up as whole numbers are, and not bin by bin.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pipeline.turns.times import LAST_MS

ERROR: Final = 2  # per cent
ROOM: Final = 3  # hexadecimal digits that are 0 in each count of a text
AT_ONCE: Final = 16**ROOM  # texts that are added up as numbers

Histogram = Counter[int]  # bin -> count


def _bins() -> Iterator[tuple[int, int]]:
    """-> the value of each bin, and the last time in it."""
    last = -1
    while last < LAST_MS:
        first = last + 1
        value = first * (100 + ERROR) // 100
        last = value * 100 // (100 - ERROR)
        yield value, last


BINS: Final = tuple(_bins())
VALUES: Final = tuple(value for value, _ in BINS)
LASTS: Final = tuple(last for _, last in BINS)


def bin_of(ms: int) -> int:
    """The bin of a time, from 0 to LAST_MS."""
    return bisect_left(LASTS, ms)


def of_times(times: Mapping[int, int]) -> Histogram:
    """Time in ms -> how often it was measured; less than 0 where it is taken away."""
    found: Histogram = Counter()
    for ms, count in times.items():
        found[bin_of(ms)] += count
    return found


def percentile(histogram: Mapping[int, int], percent: int) -> int | None:
    """By nearest rank, in ms: within 2 % of a value that was measured. None where nothing was."""
    rank = -(-sum(histogram.values()) * percent // 100)
    for place in sorted(histogram):
        rank -= histogram[place]
        if rank <= 0 < histogram[place]:
            return VALUES[place]
    return None


def text_of(histogram: Mapping[int, int]) -> str:
    """As text; no count is below 0."""
    held = [place for place, count in histogram.items() if count]
    if not held:
        return ""
    first, last = min(held), max(held)
    width = len(f"{max(histogram.values()):x}") + ROOM
    counts = [f"{histogram.get(place, 0):0{width}x}" for place in range(last, first - 1, -1)]
    return f"{first}.{width}." + "".join(counts)


def added(texts: Iterable[str]) -> Histogram:
    """The sum of histograms as text."""
    total: Histogram = Counter()
    sums: dict[str, int] = {}  # by width
    for number, text in enumerate(texts, 1):
        if text:
            first, width, counts = text.split(".")
            sums[width] = sums.get(width, 0) + (int(counts, 16) << 4 * int(width) * int(first))
        if number % AT_ONCE == 0:
            _take(total, sums)
    _take(total, sums)
    return total


def _take(total: Histogram, sums: dict[str, int]) -> None:
    for width, number in sums.items():  # none of which is 0
        step = int(width)
        first = ((number & -number).bit_length() - 1) // (4 * step)  # the bins before it are empty
        digits = f"{number >> 4 * step * first:x}"
        for place, end in enumerate(range(len(digits), 0, -step), first):
            if count := int(digits[max(end - step, 0) : end], 16):
                total[place] += count
    sums.clear()

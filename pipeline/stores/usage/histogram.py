"""Histograms of times with logarithmic bins, which can be added and subtracted. Pure.

A bin contains the whole milliseconds that its value stands for, with an error of at most 2 %. Below 50 ms a bin
contains a single value, so those are exact. All histograms have the same bins, so a total histogram is the sum of its
parts, and a percentile by nearest rank is the value of the bin that contains the measured time: within 2 % of it.

A histogram is an integer: the sum of the count of each bin `n`, times 2 to the power of `64 n`. So histograms are
added and subtracted as integers. A count may temporarily be below 0, when something is subtracted before it is added.

As text it is `FIRST.WIDTH.COUNTS`: the first bin with a count, and the counts from the last bin to the first, as
hexadecimal numbers of WIDTH digits. WIDTH has three digits more than any count needs, so up to 4,096 texts of a width
are summed as integers, and not bin by bin.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from pipeline.turns.times import LAST_MS

ERROR: Final = 2  # per cent
ROOM: Final = 3  # hexadecimal digits that are 0 in each count of a text
AT_ONCE: Final = 16**ROOM  # texts that are added up as numbers
BITS: Final = 64  # of a count
BYTES: Final = BITS // 8
WIDTHS: Final = {4: "H", 8: "I", 16: "Q"}  # hexadecimal digits of a count -> struct's letter for so many

Histogram = int


def _bins() -> Iterator[tuple[int, int]]:
    """Yield the value of each bin, and the last time in it."""
    last = -1
    while last < LAST_MS:
        first = last + 1
        value = first * (100 + ERROR) // 100
        last = value * 100 // (100 - ERROR)
        yield value, last


BINS: Final = tuple(_bins())
VALUES: Final = tuple(value for value, _ in BINS)
LASTS: Final = tuple(last for _, last in BINS)
ZEROS: Final = sum(
    2 ** (BITS - 1) << BITS * number for number in range(len(BINS))
)  # added, so that no count is below 0


def bin_of(ms: int) -> int:
    """Return the bin of a time, from 0 to LAST_MS."""
    return bisect_left(LASTS, ms)


def of_times(times: Mapping[int, int]) -> Histogram:
    """Return the histogram of times in ms -> how often each was measured; below 0 to subtract."""
    counts: dict[int, int] = {}
    for ms, count in times.items():
        number = bin_of(ms)
        counts[number] = counts.get(number, 0) + count
    return sum(count << BITS * number for number, count in counts.items())


def possible(histogram: Histogram) -> bool:
    """Return True if no count is below 0."""
    return histogram == 0 or min(_unpacked(histogram + ZEROS, BYTES)) >= 2 ** (BITS - 1)


def percentiles(histogram: Histogram, percents: Sequence[int]) -> list[int | None]:
    """Return each percentile by nearest rank, in ms: within 2 % of a measured value. None if nothing was measured."""
    if histogram <= 0:
        return [None] * len(percents)
    reached = list(accumulate(_unpacked(histogram, BYTES)))
    return [VALUES[bisect_left(reached, -(-reached[-1] * percent // 100))] for percent in percents]


def text_of(histogram: Histogram) -> str:
    """Return the histogram as text; no count may be below 0."""
    if not histogram:
        return ""
    first = _first(histogram, BITS)
    counts = _unpacked(histogram >> BITS * first, BYTES)
    most = max(counts)
    width = next(width for width in WIDTHS if most < 16 ** (width - ROOM))
    packed = struct.pack(f"<{len(counts)}{WIDTHS[width]}", *counts)
    return f"{first}.{width}.{int.from_bytes(packed, 'little'):0{width * len(counts)}x}"


def added(texts: Iterable[str]) -> Histogram:
    """Return the sum of histograms that are given as text."""
    total: Histogram = 0
    sums: dict[str, int] = {}  # by width
    for number, text in enumerate(texts, 1):
        if text:
            first, width, counts = text.split(".")
            sums[width] = sums.get(width, 0) + (int(counts, 16) << 4 * int(width) * int(first))
        if number % AT_ONCE == 0:
            total += _taken(sums)
    return total + _taken(sums)


def _taken(sums: dict[str, int]) -> Histogram:
    """Return the histogram of these numbers, and remove them from `sums`."""
    total: Histogram = 0
    for width, number in sums.items():  # none of which is 0
        first = _first(number, 4 * int(width))
        counts = _unpacked(number >> 4 * int(width) * first, int(width) // 2)
        total += int.from_bytes(struct.pack(f"<{len(counts)}Q", *counts), "little") << BITS * first
    sums.clear()
    return total


def _first(number: int, bits: int) -> int:
    """Return how many counts of `bits` bits are 0 before the first that isn't."""
    return ((number & -number).bit_length() - 1) // bits


def _unpacked(number: int, size: int) -> tuple[int, ...]:
    """Return the counts of `size` bytes that make up a number of at least 1."""
    length = -(-number.bit_length() // (8 * size))
    return struct.unpack(f"<{length}{WIDTHS[2 * size]}", number.to_bytes(length * size, "little"))

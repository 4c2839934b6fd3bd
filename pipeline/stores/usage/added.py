"""Figures of usage while they are summed, and their conversion to rows of a report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.stores.database.bounded_sum import MAX_INTEGER
from pipeline.stores.usage.histogram import Histogram, percentiles
from pipeline.stores.usage.report import SUMMED, Figures, Percentiles, UsageQuery, UsageRow

PERCENTS: Final = (50, 95, 99)

Names = tuple[str | None, ...]
Key = tuple[int | None, Names]  # a bucket, and the names of a group


@dataclass(slots=True)
class Added:
    """`sums`: in the order of SUMMED."""

    sums: list[int] = field(default_factory=lambda: [0] * len(SUMMED))
    ttft: Histogram = 0
    duration: Histogram = 0

    def add(self, sums: Iterable[int], sign: int = 1) -> None:
        """Add some sums, or subtract them."""
        self.sums = [one + sign * other for one, other in zip(self.sums, sums, strict=True)]

    def join(self, other: Added) -> None:
        """Add another one, including its times."""
        self.add(other.sums)
        self.ttft += other.ttft
        self.duration += other.duration


def figures_of(some: Iterable[Added]) -> Figures:
    """Return the figures of all of these together."""
    total = Added()
    for one in some:
        total.join(one)
    sums: dict[str, Any] = {name: min(value, MAX_INTEGER) for name, value in zip(SUMMED, total.sums, strict=True)}
    ttft, duration = (Percentiles(*percentiles(one, PERCENTS)) for one in (total.ttft, total.duration))
    return Figures(**sums, ttft_ms=ttft, duration_ms=duration)


def named_rows(found: Mapping[Key, Added], query: UsageQuery) -> list[UsageRow]:
    """Return a row for each of the greatest groups, and a row `other` for the rest, for each bucket."""
    held = {key: one for key, one in found.items() if any(one.sums)}
    named = _greatest(held, query)
    rest: dict[int | None, Added] = {}
    rows = []
    for (bucket, names), one in held.items():
        if names in named:
            group = dict(zip(query.group_by, names, strict=True))
            rows.append(UsageRow(bucket, group, other=False, figures=figures_of([one])))
        else:
            rest.setdefault(bucket, Added()).join(one)
    for bucket, one in rest.items():
        nobody: dict[str, str | None] = dict.fromkeys(query.group_by)
        rows.append(UsageRow(bucket, nobody, other=True, figures=figures_of([one])))
    return rows


def _greatest(found: Mapping[Key, Added], query: UsageQuery) -> set[Names]:
    """Return the groups that have rows of their own: those with most of the query's order; of equal ones, by name."""
    place = SUMMED.index("cost_nano_usd" if query.order == "cost_usd" else query.order)
    totals: dict[Names, int] = {}
    for (_, names), one in found.items():
        totals[names] = min(totals.get(names, 0) + one.sums[place], MAX_INTEGER)
    if len(totals) <= query.limit:
        return set(totals)

    def order(names: Names) -> tuple[int, Sequence[tuple[bool, str]]]:
        return -totals[names], [(name is None, name or "") for name in names]

    return set(sorted(totals, key=order)[: query.limit])

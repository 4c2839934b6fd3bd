"""Tallies of usage rows: the sums of `usage_sums` are built from them, and compared with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import CTE, BigInteger, ColumnElement, Select, Text, and_, case, cast, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.costs.rows import ESTIMATED, TOLD
from pipeline.stores.database.expressions import MAX_INTEGER, BoundedSum
from pipeline.stores.database.schema import COUNTED, SUMMED, usage, usage_changes
from pipeline.stores.usage.histogram import Histogram, added, of_times, possible, text_of
from pipeline.stores.usage.time_buckets import HOUR, MINUTE

QUARTER: Final = 15 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY  # begins on Thursday, as 1970 did
SPANS: Final = (QUARTER, HOUR, DAY, WEEK)  # each begins where a shorter span begins; all in UTC
TIMES: Final = {"ttft": "ttft_ms", "duration": "duration_ms"}  # the column of a sum -> that of a row
TALLIED: Final = (*SUMMED, *TIMES)  # the columns of a tally
COLUMNS: Final = ("names", *COUNTED, "cost_kind", *TIMES.values())


class SumKey(NamedTuple):
    """The key of a sum: `start` in epoch ms, `span` in ms, `names` in `usage_names`."""

    span: int
    start: int
    expired: bool
    names: int


@dataclass(slots=True)
class Tally:
    """`sums`: in the order of SUMMED. Subtracted rows count below 0."""

    sums: list[int] = field(default_factory=lambda: [0] * len(SUMMED))
    ttft: Histogram = 0
    duration: Histogram = 0

    @classmethod
    def of(cls, values: Sequence[Any]) -> Tally:
        """Return the tally of a row of `usage_sums`: the values of TALLIED."""
        *sums, ttft, duration = values
        return cls(sums, added([ttft]), added([duration]))

    def add(self, other: Tally) -> None:
        """Add another tally. A sum that has reached MAX_INTEGER stands for any larger sum, and stays."""
        self.sums = [
            MAX_INTEGER if known == MAX_INTEGER else min(known + more, MAX_INTEGER)
            for known, more in zip(self.sums, other.sums, strict=True)
        ]
        self.ttft += other.ttft
        self.duration += other.duration

    def count(self, sums: Iterable[int], sign: int = 1) -> None:
        """Add some sums, or subtract them, also beyond MAX_INTEGER."""
        self.sums = [known + sign * other for known, other in zip(self.sums, sums, strict=True)]

    def join(self, other: Tally) -> None:
        """Add other figures, including their times, also beyond MAX_INTEGER."""
        self.count(other.sums)
        self.ttft += other.ttft
        self.duration += other.duration

    @property
    def empty(self) -> bool:
        """True if nothing remains."""
        return not (any(self.sums) or self.ttft or self.duration)

    @property
    def possible(self) -> bool:
        """True if no sum and no count is below 0."""
        return min(self.sums) >= 0 and possible(self.ttft) and possible(self.duration)

    def columns(self) -> dict[str, Any]:
        """Return the columns of `usage_sums`."""
        return {
            **dict(zip(SUMMED, self.sums, strict=True)),
            "ttft": text_of(self.ttft),
            "duration": text_of(self.duration),
        }


def of_usage(*where: ColumnElement[bool]) -> Select[Any]:
    """Return a query of rows of `usage`, in the shape that `tallies` takes."""
    columns = (usage.c[name] for name in COLUMNS)
    sign, expired = literal(1, BigInteger), literal(value=False)
    return select(usage.c.at, sign.label("sign"), expired.label("expired"), *columns).where(*where)


def of_changes(source: Any = usage_changes, *where: ColumnElement[bool], undone: bool = False) -> Select[Any]:
    """Return a query of `usage_changes`, or of rows like its, in the same shape; `undone`: with opposite signs."""
    columns = (source.c[name] for name in COLUMNS)
    sign = cast(-source.c.sign if undone else source.c.sign, BigInteger)
    return select(source.c.at, sign.label("sign"), source.c.expired, *columns).where(*where)


def value_of(columns: Any, name: str) -> ColumnElement[Any]:
    """Return a column of SUMMED of a row of `usage`, or of `usage_changes`; null counts as 0."""
    match name:
        case "told_nano_usd":
            return case((columns.cost_kind == TOLD, columns.cost_nano_usd), else_=0)
        case "assumed_nano_usd":
            return case((columns.cost_kind == ESTIMATED, columns.cost_nano_usd), else_=0)
        case "differing":
            return case((columns.computed_nano_usd.is_not(None), 1), else_=0)
        case "differing_nano_usd":
            return case((columns.computed_nano_usd.is_not(None), columns.cost_nano_usd), else_=0)
        case "unpriced":
            return case((no_price(columns), 1), else_=0)
    return func.coalesce(columns[name], 0)


def signed(rows: CTE, name: str) -> ColumnElement[int]:
    """Return a column of SUMMED of these rows: below 0 if the row is subtracted."""
    return value_of(rows.c, name) * rows.c.sign


def no_price(columns: Any) -> ColumnElement[bool]:
    """Return the condition that a response has tokens and no known cost."""
    return and_(columns.cost_nano_usd.is_(None), columns.total_tokens > 0)


def signed_time(rows: CTE, name: str) -> ColumnElement[str]:
    """Return a time plus 1 as text, with the row's sign, so that 0 has a sign, too."""
    return cast((rows.c[name] + 1) * rows.c.sign, Text)


def times_in(text: str | None) -> Histogram:
    """Return the histogram of times as `signed_time` has them, with commas between them."""
    times: dict[int, int] = {}
    for value, count in Counter(text.split(",") if text else ()).items():
        number = int(value)
        ms = abs(number) - 1
        times[ms] = times.get(ms, 0) + (count if number > 0 else -count)
    return of_times(times)


def tallied(source: CTE) -> Select[Any]:
    """Return a query of the tallies of these rows, for each quarter of an hour: what `tallies` takes."""
    start = (source.c.at - source.c.at % QUARTER).label("start")
    keys = (start, source.c.expired, source.c.names)
    sums = (func.coalesce(BoundedSum(signed(source, name)), 0).label(name) for name in SUMMED)
    times = (func.aggregate_strings(signed_time(source, name), ",").label(label) for label, name in TIMES.items())
    return select(*keys, *sums, *times).group_by(*keys)


async def tallies(
    connection: AsyncConnection, query: Select[Any], parameters: Mapping[str, int] | None = None
) -> dict[SumKey, Tally]:
    """Return the tallies that a query has."""
    by_key: dict[SumKey, Tally] = {}
    for row in (await connection.execute(query, parameters)).mappings():
        tally = Tally([int(row[name]) for name in SUMMED], times_in(row["ttft"]), times_in(row["duration"]))
        by_key[SumKey(QUARTER, row["start"], bool(row["expired"]), row["names"])] = tally
    return by_key


def of_all_spans(quarters: Mapping[SumKey, Tally]) -> dict[SumKey, Tally]:
    """Return the tallies of hours, days and weeks together with these of quarters of an hour."""
    wholes: dict[SumKey, Tally] = {}
    for key, tally in quarters.items():
        for span in SPANS:
            whole = wholes.setdefault(key._replace(span=span, start=key.start - key.start % span), Tally())
            whole.add(tally)
    return wholes

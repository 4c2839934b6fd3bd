"""Queries of the usage table and their reports: plain, frozen values."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, tzinfo
from typing import Any, Final, Self

from pipeline.stores.usage.time_buckets import STARTS, label, moment, zone
from pipeline.turns.tokens import COUNTS, NANO
from turnmill.errors import CallerError
from turnmill.labels import KINDS

GROUPS: Final = (
    *("model", "provider", "agent", "tenant", "prompt", "origin", "service_tier", "purpose", *KINDS),
    *("thread", "finish_reason"),
)
BUCKETS: Final = tuple(STARTS)
MAX_GROUPS: Final = 10_000
MAX_JUDGED: Final = 10  # names of feedback: each needs a separate look-up
OTHER: Final = "other"
# Spreadsheets read a cell that begins with any of these as a formula (OWASP, "CSV Injection"), unless after a "'"; some
# ignore leading spaces.
FORMULA: Final = tuple("=+-@\t\r\n＝＋－＠'")


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """`start` (inclusive) and `end` (exclusive) in epoch ms; `where`: group -> the values that count.

    The `limit` groups with most of `order` have separate rows, over the whole time; the rest is summed as `other`.
    `feedback`: names of feedback whose mean is wanted, too.
    Raises CallerError for unknown names, and for limits and times out of range.
    """

    group_by: tuple[str, ...] = ()
    bucket: str | None = None
    tz: tzinfo = UTC
    start: int | None = None
    end: int | None = None
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limit: int = 100
    order: str = "total_tokens"
    feedback: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        group_by: Sequence[str],
        bucket: str | None,
        tz: str,
        times: tuple[str | None, str | None],
        where: Mapping[str, Sequence[str]],
        limit: int,
        order: str,
        now: int,
        feedback: Sequence[str] = (),
    ) -> Self:
        """Return a query from users' text: `group_by` also as `a,b`; `times` as in `moment`; `now`: epoch ms."""
        groups = tuple(part.strip() for names in group_by for part in names.split(",") if part.strip())
        within = zone(tz)
        start, end = (None if text is None else moment(text, within, now) for text in times)
        given = {name: tuple(values) for name, values in where.items() if values}
        return cls(groups, bucket, within, start, end, given, limit, order, tuple(dict.fromkeys(feedback)))

    def __post_init__(self) -> None:
        for name in (*self.group_by, *self.where):
            _one_of(name, GROUPS, "usage has no group {!r}: there are {}")
        if self.bucket is not None:
            _one_of(self.bucket, BUCKETS, "no bucket {!r}: there are {}")
        _one_of(self.order, ORDERS, "usage can't be ordered by {!r}: there are {}")
        if len(set(self.group_by)) != len(self.group_by):
            raise CallerError("usage is grouped twice by the same: name each group once")
        if not 1 <= self.limit <= MAX_GROUPS:
            raise CallerError(f"the limit must be from 1 to {MAX_GROUPS:,}")
        if len(self.feedback) > MAX_JUDGED:
            raise CallerError(f"a report has at most {MAX_JUDGED} names of feedback")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise CallerError("the time asked for ends before it begins")


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Nearest-rank percentiles in ms, None without any value; those from sums are within 2 % of a measured value."""

    p50: int | None
    p95: int | None
    p99: int | None


@dataclass(frozen=True, slots=True)
class Judged:
    """Feedback of a name: how many numbers were given, true as 1 and false as 0, and their sum."""

    count: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float | None:
        """The mean; None of nothing."""
        return self.total / self.count if self.count else None

    def document(self) -> dict[str, Any]:
        """Return {"mean", "count"}."""
        return {"mean": self.mean, "count": self.count}


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over some responses, and percentiles of their times."""

    requests: int  # responses of models
    turns: int
    interrupted: int  # of the turns
    errors: int  # of the interrupted ones, those that an error ended
    input_tokens: int
    output_tokens: int
    thinking_tokens: int  # of the output
    cache_read_tokens: int  # of the input
    cache_write_tokens: int  # of the input
    total_tokens: int
    cache_write_1h_tokens: int  # of `cache_write_tokens`: those that are kept for an hour
    input_audio_tokens: int  # of the input
    output_audio_tokens: int  # of the output
    cache_audio_read_tokens: int  # of `cache_read_tokens`
    input_image_tokens: int  # of the input
    output_image_tokens: int  # of the output
    cache_image_read_tokens: int  # of `cache_read_tokens`
    web_searches: int
    storage_searches: int  # of files that the provider stores
    audio_seconds: int
    cost_nano_usd: int  # of the responses with a known cost
    computed_nano_usd: int  # by prices, of the responses that were told another cost
    estimated_tokens: int  # of responses that broke off before their usage was reported, not in the other figures
    estimated_nano_usd: int  # what these cost
    told_nano_usd: int  # of the cost, what streams and providers told
    assumed_nano_usd: int  # of the cost, what is estimated: the price of a sum of calls, as far as it is not known
    differing: int  # responses whose told cost differs from the computed cost by more than 1 %
    differing_nano_usd: int  # what these cost, as told
    unpriced: int  # responses with tokens and without a known cost
    ttft_ms: Percentiles
    duration_ms: Percentiles
    feedback: Mapping[str, Judged] = field(default_factory=dict)  # of each name in the query

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars; None if no response has a known cost, or nothing was told."""
        unknown = self.unpriced or (self.requests and not self.total_tokens)
        return None if unknown and not self.cost_nano_usd else self.cost_nano_usd / NANO

    @property
    def parts_of_cost(self) -> dict[str, float | None]:
        """The parts of the cost in US dollars, by the kinds told, computed, estimated; None as `cost_usd`."""
        computed = self.cost_nano_usd - self.told_nano_usd - self.assumed_nano_usd
        parts = {"told": self.told_nano_usd, "computed": computed, "estimated": self.assumed_nano_usd}
        return {kind: None if self.cost_usd is None else nano / NANO for kind, nano in parts.items()}

    @property
    def estimated_cost_usd(self) -> float | None:
        """The estimated cost in US dollars, which is not included in `cost_usd`; None if no price is known."""
        return None if self.estimated_tokens and not self.estimated_nano_usd else self.estimated_nano_usd / NANO

    def known(self, name: str) -> int | None:
        """Return a figure of SUMMED; None for a count that is 0 where there are responses: told so, or not told."""
        value: int = getattr(self, name)
        return None if name in COUNTS and not value and (self.requests or self.turns) else value


SUMMED: Final = tuple(figure.name for figure in fields(Figures) if not figure.name.endswith(("_ms", "feedback")))
# The name in JSON and CSV of a figure that is kept in billionths of a dollar.
DOLLARS: Final = {"differing_nano_usd": "differing_told_usd", "computed_nano_usd": "differing_computed_usd"}
COSTS: Final = (
    *("cost_nano_usd", "told_nano_usd", "assumed_nano_usd", "estimated_nano_usd", *DOLLARS),
    *("differing", "unpriced"),
)
ORDERS: Final = (*(name for name in SUMMED if name not in COSTS), "cost_usd")


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A row of a report. `bucket`: its beginning, epoch ms; `group`: its names, all None in the row `other`."""

    bucket: int | None
    group: dict[str, str | None]
    other: bool
    figures: Figures


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Rows in order: by time, then the greatest first, `other` last. `unpriced`: model -> responses without a price.

    `unpriced_reasons`: why -> number of these responses, as far as their rows are still stored.
    """

    query: UsageQuery
    rows: tuple[UsageRow, ...]
    total: Figures
    unpriced: dict[str, int]
    unpriced_reasons: dict[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the report as JSON: {"from", "to", "tz", "bucket", "group_by", "rows", "total", "unpriced", …}."""
        query = self.query
        return {
            "from": None if query.start is None else label(query.start, query.tz),
            "to": None if query.end is None else label(query.end, query.tz),
            "tz": str(query.tz),
            "bucket": query.bucket,
            "group_by": list(query.group_by),
            "rows": [
                ({} if row.bucket is None else {"bucket": label(row.bucket, query.tz)})
                | row.group
                | ({"other": row.other} if row.group else {})
                | _json(row.figures)
                for row in self.rows
            ],
            "total": _json(self.total),
            "unpriced": self.unpriced,
            "unpriced_reasons": self.unpriced_reasons,
        }

    def table(self) -> Iterator[tuple[Any, ...]]:
        """Yield the lines of a table: the header, then the rows; the `other` groups' row has that as its names."""
        query = self.query
        head = () if query.bucket is None else ("bucket",)
        yield (*head, *query.group_by, *_flat(_json(self.total)))
        for row in self.rows:
            start = () if row.bucket is None else (label(row.bucket, query.tz),)
            names = tuple(OTHER if row.other else row.group[name] for name in query.group_by)
            yield (*start, *names, *_flat(_json(row.figures)).values())

    def csv(self) -> str:
        """Return the report as CSV (RFC 4180), with an apostrophe before formulas and apostrophes."""
        out = io.StringIO()
        csv.writer(out).writerows([_plain(cell) for cell in line] for line in self.table())
        return out.getvalue()


def _plain(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip().startswith(FORMULA) else cell


def _json(figures: Figures) -> dict[str, Any]:
    counts = {name: figures.known(name) for name in SUMMED if name not in COSTS}
    times = {
        name: {p: getattr(getattr(figures, name), p) for p in ("p50", "p95", "p99")}
        for name in ("ttft_ms", "duration_ms")
    }
    costs = {name: getattr(figures, name) for name in ("cost_usd", "estimated_cost_usd")}
    costs |= {f"cost_{kind}_usd": part for kind, part in figures.parts_of_cost.items()}
    costs |= {name: getattr(figures, of) / NANO for of, name in DOLLARS.items()}
    costs |= {name: getattr(figures, name) for name in ("differing", "unpriced")}
    judged = {name: mean.document() for name, mean in figures.feedback.items()}
    return {**counts, **costs, **times, **({"feedback": judged} if judged else {})}


def _flat(figures: Mapping[str, Any]) -> dict[str, Any]:
    """{"ttft_ms": {"p50": …}} -> {"ttft_ms_p50": …}."""
    flat: dict[str, Any] = {}
    for name, value in figures.items():
        below = _flat(value) if isinstance(value, dict) else None
        flat |= {name: value} if below is None else {f"{name}_{p}": figure for p, figure in below.items()}
    return flat


def _one_of(name: str, known: tuple[str, ...], message: str) -> None:
    if name not in known:
        raise CallerError(message.format(name[:80], ", ".join(known)))

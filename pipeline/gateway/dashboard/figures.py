"""Figures of the last minutes, second by second, summed for each model, agent and tenant. Pure.

Memory is bounded: a ring of seconds, each with MAX_SERIES series, and some more for tenants that have few. Further ones
are summed in one series of their tenant, whose model and agent are `other`, so the many names of one tenant don't
displace the figures of another.

`Intake` makes them of the records of four topics; unreadable records are ignored. Tokens are counted from telemetry, as
responses end; turns, their errors and their cost from finished turns, priced as in the store. A repeated record counts
once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from pipeline.dialects import text_of
from pipeline.gateway.live.event_record import EventRecord
from pipeline.observability.metrics import OTHER
from pipeline.observability.telemetry_meter import MODEL, Seen
from pipeline.policies.pools import COUNTED, FIGURES
from pipeline.policies.prices import NONE, Prices
from pipeline.stores.costs.rows import usage_rows
from pipeline.turns import tokens
from pipeline.turns.tokens import Reading
from topics import telemetry, turn_record
from topics.catalog import DEAD_LETTERS, TELEMETRY, TURNS
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord
from turnmill.limits import NAME_CHARACTERS
from turnmill.remembered import Remembered

WINDOW_SECONDS: Final = 900  # seconds in the ring
MAX_SERIES: Final = 300  # of one second
TENANT_SHARES: Final = 10  # a tenth of them is granted to each tenant, as long as there are fewer than twice as many
FIELDS: Final = (
    "events",
    "input_tokens",
    "output_tokens",
    "cost_nano_usd",
    "unpriced",
    "turns",
    "interrupted",
    "errors",
    "dead_letters",
)
INDEX: Final = {name: number for number, name in enumerate(FIELDS)}
TOTAL: Final = "total"

By = Literal["total", "model", "agent", "tenant"]
SERIES_BYTES: Final = 700  # of the figures of a series
TAIL_CHARACTERS: Final = 160  # characters kept of a run's text, at its end


class Series(NamedTuple):
    """The keys that figures are summed by; None if a record has none."""

    model: str | None
    agent: str | None
    tenant: str | None


ANY: Final = Series(None, None, None)


def like(series: Series, only: Series) -> bool:
    """Return True if `series` matches `only`; in `only`, None matches anything, and "" a missing name."""
    return all(wanted in (None, value or "") for value, wanted in zip(series, only, strict=True))


@dataclass(slots=True)
class _Second:
    at: int  # epoch seconds
    sums: dict[Series, list[int]] = field(default_factory=dict)
    tenants: Counter[str | None] = field(default_factory=Counter)  # number of series of each

    def room(self, series: Series, most: int) -> Series:
        """Return the series under which `series` is summed."""
        if series in self.sums:
            return series
        room = most if len(self.sums) < most else most // TENANT_SHARES if len(self.sums) < 2 * most else 0
        if self.tenants[series.tenant] >= room:
            series = Series(OTHER, OTHER, series.tenant)
            if series not in self.sums and len(self.sums) >= 3 * most:
                # Beyond this limit the tenant is dropped, too; tokens of a tenant don't see a series without one.
                return Series(OTHER, OTHER, None)
        self.tenants[series.tenant] += series not in self.sums
        return series


class Figures:
    """The ring. Times are epoch seconds."""

    def __init__(self, window: int = WINDOW_SECONDS, series: int = MAX_SERIES) -> None:
        self._window = window
        self._series = series
        self._ring: Remembered[int, _Second] = Remembered(FIGURES, lambda second: SERIES_BYTES * len(second.sums))

    def add(self, at: int, series: Series, figures: Mapping[str, int]) -> None:
        """Add figures, by the names of FIELDS, to the second `at`; seconds older than the ring are ignored."""
        slot = self._ring.get("", at % self._window)
        if slot is not None and at < slot.at:
            return
        if slot is None or at > slot.at:
            self._ring.pop("", at % self._window)
            slot = _Second(at)
        counted = slot.room(series, self._series)
        if (sums := slot.sums.get(counted)) is None:
            sums = slot.sums[counted] = [0] * len(FIELDS)
            self._ring.put("", at % self._window, slot)
        for name, count in figures.items():
            sums[INDEX[name]] += count

    def seconds(self, first: int, last: int) -> Iterable[tuple[int, Mapping[Series, list[int]]]]:
        """Yield (second, {series: sums in the order of FIELDS}) of each second with figures, ascending."""
        for at in range(max(first, last - self._window + 1), last + 1):
            slot = self._ring.get("", at % self._window)
            if slot is not None and slot.at == at:
                yield at, slot.sums


class FiguresReading:
    """One reader's view: the series that match `only`, in at most `groups` groups.

    A group keeps its number for as long as the reading lasts; groups beyond the limit are summed as `other`.
    """

    def __init__(self, figures: Figures, by: By, only: Series = ANY, groups: int = 8) -> None:
        self._figures = figures
        self._by = by
        self._only = only
        self._room = groups
        self.groups: list[str | None] = []
        self._numbers: dict[str | None, int] = {}

    def rows(self, first: int, last: int) -> list[list[int]]:
        """Return rows [second, group, *sums in the order of FIELDS]; group -1 is `other`."""
        held = list(self._figures.seconds(first, last))
        self._name_groups(held)
        rows = []
        for at, sums in held:
            by_group: dict[int, list[int]] = {}
            for series, counts in sums.items():
                if like(series, self._only):
                    number = self._numbers.get(self._group(series), -1)
                    row = by_group.setdefault(number, [0] * len(FIELDS))
                    by_group[number] = [a + b for a, b in zip(row, counts, strict=True)]
            rows += [[at, number, *row] for number, row in sorted(by_group.items())]
        return rows

    def _group(self, series: Series) -> str | None:
        return TOTAL if self._by == "total" else getattr(series, self._by)

    def _name_groups(self, held: Iterable[tuple[int, Mapping[Series, list[int]]]]) -> None:
        """Give new groups their numbers, the greatest first: by tokens, then by events."""
        if len(self.groups) == self._room:
            return
        size: dict[str | None, tuple[int, ...]] = {}
        for _, sums in held:
            for series, counts in sums.items():
                group = self._group(series)
                if like(series, self._only) and group not in self._numbers:
                    counted = counts[INDEX["input_tokens"]] + counts[INDEX["output_tokens"]], counts[INDEX["events"]]
                    size[group] = tuple(a + b for a, b in zip(size.get(group, (0, 0)), counted, strict=True))
        for group in sorted(size, key=lambda name: size[name], reverse=True)[: self._room - len(self.groups)]:
            self._numbers[group] = len(self.groups)
            self.groups.append(group)


class Intake:
    """The figures of the last minutes; a gateway makes them once."""

    def __init__(self, prices: Prices = NONE) -> None:
        """Begin without figures; `prices`: those of the settings."""
        self._prices = prices
        self.figures = Figures()
        self._telemetry = Seen(20_000)
        self._turns: Remembered[tuple[str, str], bool] = Remembered(COUNTED)  # (thread_id, turn_id)
        self._handlers: Final[dict[str, Callable[[bytes, int], None]]] = {
            TELEMETRY.name: self._usage,
            TURNS.name: self._turn,
            DEAD_LETTERS.name: lambda _, at: self.figures.add(at // 1000, ANY, {"dead_letters": 1}),
        }

    def take(self, topic: str, value: bytes | None, at: int) -> None:
        """Take one record of a topic other than events; `at`: its time by the broker, epoch ms."""
        try:
            self._handlers[topic](value or b"", at)
        except (InvalidRecord, ValueError, TypeError, KeyError, AttributeError):
            return  # malformed: the worker's stage that reads it makes a dead letter, or logs it

    def event(self, record: EventRecord) -> None:
        """Take one record of the events topic, and keep the end of its run's text."""
        envelope, run = record.envelope, record.run
        if envelope is not None and run is not None and not run.imported:
            if text := text_of(envelope["dialect"], envelope["events"]):
                run.text = (run.text + text)[-TAIL_CHARACTERS:]
            series = Series(run.model, run.agent_id, run.key.tenant)
            self.figures.add(record.at // 1000, series, {"events": len(envelope["events"])})

    def _usage(self, value: bytes, at: int) -> None:
        record = telemetry.decode(value)
        data = record["data"]
        if record["type"] != "data-sys-usage" or not isinstance(data, dict) or not self._telemetry.first(record):
            return
        reading = Reading(data)
        known = tokens.read(reading)
        figures = {name: known.get(name, 0) for name in ("input_tokens", "output_tokens")}
        model = reading.text(MODEL) or record.get("model_name")
        self.figures.add(
            at // 1000, Series(_name(model), _name(record["agent_id"]), _name(record.get("tenant"))), figures
        )

    def _turn(self, value: bytes, at: int) -> None:
        record = turn_record.decode(value)
        if record.get("imported"):
            return
        thread = ThreadKey.of(record["thread_id"], record.get("tenant"))
        turn = thread.thread_id, record["turn_id"]
        if self._turns.get(thread.tenant, turn):  # a repetition or a revision
            return
        self._turns.put(thread.tenant, turn, value=True)
        for row in usage_rows(record, self._prices):
            figures = {name: int(row[name] or 0) for name in ("turns", "interrupted", "errors", "cost_nano_usd")}
            figures["unpriced"] = int(row["cost_nano_usd"] is None and bool(row["total_tokens"]))
            self.figures.add(at // 1000, Series(_name(row["model"]), _name(row["agent_id"]), row["tenant"]), figures)


def _name(value: object) -> str | None:
    return value[:NAME_CHARACTERS] if isinstance(value, str) and value else None

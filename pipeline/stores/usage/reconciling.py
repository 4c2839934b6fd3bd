"""Comparison of a provider's own usage with the store's report, by day and model. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, Self

from pipeline.stores.costs.rows import IMPORT
from pipeline.stores.usage.provider_exports import Billed, Number
from pipeline.stores.usage.report import UsageRow
from pipeline.turns.tokens import COST, NANO

GROUP_BY: Final = ("model", "provider", "origin", "service_tier")  # of the store's report
DATED: Final = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8})$")  # the date in the name of a model's version
Counts = dict[str, Number | None]
Model = tuple[str, ...]


@dataclass(slots=True)
class Side:
    """What the provider counts of a day and a model: in all, by its keys, and in which service tiers."""

    counts: dict[str, Number] = field(default_factory=dict)
    keys: dict[str, dict[str, Number]] = field(default_factory=dict)
    tiers: set[str] = field(default_factory=set)

    def add(self, billed: Billed) -> None:
        """Add a result."""
        _add(self.counts, billed.counts)
        if billed.key is not None:
            _add(self.keys.setdefault(billed.key, {}), billed.counts)
        self.tiers.add(billed.tier or "")


@dataclass(slots=True)
class Export:
    """All that a provider's export counts. `names`: the counts that it has."""

    days: dict[str, dict[Model, Side]] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    uncounted: int = 0  # results of a kind that the store has no count for

    @classmethod
    def of(cls, results: Iterable[Billed]) -> Self:
        """Sum up an export's results."""
        export = cls()
        for billed in results:
            sides = export.days.setdefault(billed.day, {})
            if billed.counts:
                export.names |= dict.fromkeys(billed.counts)
                sides.setdefault(billed.models, Side()).add(billed)
            elif not billed.empty:
                export.uncounted += 1
        return export


@dataclass(frozen=True, slots=True)
class Line:
    """A day and a model, on both sides; `model` None: all models, for counts that the provider doesn't tell by model.

    `provider`, `store`: the counts, None where unknown; empty: nothing is known there of this model on this day. The
    counts of `keys` are the provider's, since the store doesn't know keys. `reasons`: why the sides may differ.
    """

    day: str
    model: str | None
    provider: Counts
    store: Counts
    keys: Mapping[str, Mapping[str, Number]]
    reasons: tuple[str, ...]
    responses: int = 0  # in the store

    @property
    def state(self) -> str:
        """`equal`, `differs`, `not in the store` or `not at the provider`."""
        if not self.differing:
            return "equal"
        if not self.store:
            return "not in the store"
        return "differs" if self.provider else "not at the provider"

    @property
    def differing(self) -> tuple[str, ...]:
        """The counts that differ; costs only by more than what rounding each response to 10⁻⁹ dollars explains."""
        return tuple(name for name in {**self.provider, **self.store} if self._differs(name))

    def _differs(self, name: str) -> bool:
        told, stored = self.provider.get(name, 0), self.store.get(name, 0)
        if told is None or stored is None:
            return told != stored
        rounded = max(self.responses, 1) if name == COST else 0
        return bool(abs(Decimal(told) - stored) > rounded)

    def document(self) -> dict[str, Any]:
        """Return the line as JSON."""
        names = {**self.provider, **self.store}
        counts = {
            _named(name): {
                "provider": _json(name, self.provider.get(name)),
                "store": _json(name, self.store.get(name)),
                "differs": self._differs(name),
            }
            for name in names
        }
        keys = {key: {_named(name): _json(name, n) for name, n in of.items()} for key, of in self.keys.items()}
        return {
            "day": self.day,
            "model": self.model,
            "state": self.state,
            "counts": counts,
            "keys": keys,
            "reasons": list(self.reasons),
        }


def compare(export: Export, day: str, rows: Iterable[UsageRow], provider: str) -> Iterator[Line]:
    """Yield the lines of a day, in order of models. `rows`: of the store's report of this day, by GROUP_BY.

    A response counts as the provider's if it names it, also as `openai.responses`; or if it names no provider, and the
    export has its model.
    """
    sides = export.days.get(day, {})
    together = sides[()].counts if () in sides else {}  # the counts that are told for all models at once
    stored: dict[Model, list[UsageRow]] = {models: [] for models in sides if models}
    elsewhere: dict[Model, list[UsageRow]] = {}
    unnamed = 0
    for row in rows:
        model, by = row.group["model"] or "", row.group["provider"] or ""
        models = _told(model, sides)
        unnamed += 0 if model else row.figures.requests
        if by.partition(".")[0].lower() == provider or (models and not by):
            stored.setdefault(models or (model,), []).append(row)
        elif models:
            elsewhere.setdefault(models, []).append(row)
    apart = [name for name in export.names if name not in together]
    for models in sorted(stored):
        side, known = sides.get(models, Side()), stored[models]
        told: Counts = {name: side.counts[name] for name in apart if name in side.counts}
        ours = {name: count for name, count in _stored(known, apart).items() if name in told or count != 0}
        if told or ours:
            why = _reasons(models, side, known, elsewhere.get(models, []), unnamed)
            yield _line(day, models[0], (told, ours), side.keys, why, known)
    if together:
        everything = [row for known in stored.values() for row in known]
        whole = Side(tiers={tier for side in sides.values() for tier in side.tiers})
        for side in sides.values():
            _add(whole.counts, {name: count for name, count in side.counts.items() if name in together})
        why = _reasons((), whole, everything, [], unnamed)
        yield _line(day, None, ({**whole.counts}, _stored(everything, together)), sides[()].keys, why, everything)


def _line(
    day: str,
    model: str | None,
    counts: tuple[Counts, Counts],
    keys: Mapping[str, Mapping[str, Number]],
    why: Iterator[str],
    rows: Sequence[UsageRow],
) -> Line:
    line = Line(day, model, *counts, keys, (), sum(row.figures.requests for row in rows))
    return replace(line, reasons=tuple(why)) if line.differing else line


def _told(model: str, known: Iterable[Model]) -> Model | None:
    """Return the provider's names of a model: its own, or the only ones that differ from it by a date at their end."""
    undated = []
    for models in known:
        if model in models:
            return models
        if DATED.sub("", model) in {DATED.sub("", name) for name in models}:
            undated.append(models)
    return undated[0] if len(undated) == 1 else None


def _stored(rows: Sequence[UsageRow], names: Iterable[str]) -> Counts:
    if not rows:
        return {}
    counts: Counts = {name: sum(int(getattr(row.figures, name)) for row in rows) for name in names}
    if COST in counts and not counts[COST] and any(row.figures.unpriced for row in rows):
        counts[COST] = None
    return counts


def _reasons(
    models: Model, side: Side, rows: Sequence[UsageRow], elsewhere: Sequence[UsageRow], unnamed: int
) -> Iterator[str]:
    """Yield what is known of why the sides may differ."""
    for by in sorted({row.group["provider"] or "" for row in elsewhere}):
        count = sum(row.figures.requests for row in elsewhere if row.group["provider"] == by)
        yield f"responses of this model are stored as of provider {by}: {count:,}"
    if unnamed:
        yield f"stored responses of the day that name no model: {unnamed:,}"
    if not side.counts:
        yield "the provider counts none: they were paid by another account, or are told under another name"
        return
    requests = sum(row.figures.requests for row in rows)
    calls = side.counts.get("requests")
    if not rows and not elsewhere:
        yield "no response of this model is stored for the day: its calls were not captured, or name another model"
    elif rows and calls is not None and calls > requests:
        yield f"calls without a stored response (not captured, refused, or broken off): {calls - requests:,}"
    elif calls is not None and calls < requests:
        yield f"more responses are stored than the provider has calls: {requests - calls:,}"
    if other := sorted({row.group["model"] or "no name" for row in rows} - {*models}) if models else []:
        yield f"stored as: {', '.join(other)}"
    yield from _figures_reasons(rows)
    tiers = {row.group["service_tier"] or "" for row in rows}
    if rows and any(side.tiers) and side.tiers != tiers:
        yield f"service tiers: {_listed(side.tiers)} at the provider, {_listed(tiers)} in the store"


def _figures_reasons(rows: Sequence[UsageRow]) -> Iterator[str]:
    def total(name: str, of: Sequence[UsageRow] = rows) -> int:
        return sum(getattr(row.figures, name) for row in of)

    if tokens := total("estimated_tokens"):
        yield f"tokens of responses that broke off before their usage was told, by estimate: {tokens:,}"
    if imported := total("requests", [row for row in rows if row.group["origin"] == IMPORT]):
        yield f"imported responses, perhaps not paid by a key of this account: {imported:,}"
    if unpriced := total("unpriced"):
        yield f"responses without a known price: {unpriced:,}"
    if total("assumed_nano_usd"):
        yield "a part of the stored cost is the price of sums of calls, and an estimate"


def _listed(tiers: Iterable[str]) -> str:
    return ", ".join(sorted(tier or "standard" for tier in tiers)) or "none"


def _add(sums: dict[str, Number], counts: Mapping[str, Number]) -> None:
    for name, count in counts.items():
        sums[name] = sums.get(name, 0) + count


def _named(name: str) -> str:
    return "cost_usd" if name == COST else name


def _json(name: str, count: Number | None) -> int | float | None:
    if count is None:
        return None
    return float(Decimal(count) / NANO) if name == COST else int(count)

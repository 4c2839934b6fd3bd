"""Configured prices of tokens by model, provider, tenant and time, and factors (discounts) for other prices. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, Final

from pipeline.policies.entries import entries
from turnmill.limits import PRICES

MILLION: Final = 1_000_000
# The last two cost as much as input, unless they are given.
KINDS: Final = ("input", "output", "cache_read", "cache_write")
SCOPE: Final = ("model", "provider", "tenant", "from")
CACHE_SIZE: Final = 4_096  # combinations of model, provider and tenant
EXPECTED: Final = (
    '{"model", "provider"?, "tenant"?, "from"?} and either {"input", "output", "cache_read"?, "cache_write"?} in US '
    'dollars for a million tokens, or {"times"}'
)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of calls from `since` (epoch ms) on.

    `model` is a pattern, as `gpt-5*`; `provider`, `tenant` ("" for calls without one): None is all. `rates`: US dollars
    per token, in the order of KINDS; without `rates`, the cost known otherwise is multiplied by `times`.
    """

    model: str
    provider: str | None
    tenant: str | None
    since: int
    rates: tuple[Decimal, ...] | None
    times: Decimal | None

    @property
    def rank(self) -> tuple[bool, bool, bool, int]:
        """The rank among prices for the same call; the highest applies."""
        return self.tenant is not None, self.provider is not None, "*" not in self.model, self.since

    def is_for(self, model: str, provider: str | None, tenant: str) -> bool:
        """Return True if the price applies to such calls, at any time."""
        return self.tenant in (None, tenant) and self.provider in (None, provider) and fnmatchcase(model, self.model)

    @property
    def source(self) -> str:
        """The name of the price, stored with a cost. It has no tenant's name, since tenants may be erased."""
        at, of = f" at {self.provider}" if self.provider else "", "" if self.tenant is None else " of its tenant"
        since = datetime.fromtimestamp(self.since / 1000, UTC) if self.since else None
        return f"own price: {self.model}{at}{of}" + (since.strftime(" from %Y-%m-%dT%H:%M:%SZ") if since else "")


@dataclass(eq=False, slots=True)
class Prices:
    """All configured prices, with a cache of those that apply to a model, provider and tenant."""

    all: tuple[Price, ...] = ()
    _fitting: dict[tuple[str, str | None, str], tuple[Price, ...]] = field(default_factory=dict)

    def of(self, model: str, provider: str | None, tenant: str | None, at: int) -> tuple[Price | None, Price | None]:
        """Return the price and the factor for a call at this time (epoch ms); each may be None."""
        if not self.all:
            return None, None
        call = model, provider, tenant or ""
        if call not in self._fitting:
            if len(self._fitting) >= CACHE_SIZE:
                self._fitting.clear()
            fitting = [price for price in self.all if price.is_for(*call)]
            self._fitting[call] = tuple(sorted(fitting, key=lambda price: price.rank, reverse=True))
        fit = [price for price in self._fitting[call] if price.since <= at]
        factor = next((price for price in fit if price.times is not None), None)
        return next((price for price in fit if price.rates), None), factor


NONE: Final = Prices()


def cost(rates: tuple[Decimal, ...], counts: Mapping[str, int]) -> Decimal:
    """Return the cost of these counts in US dollars; `input_tokens` includes cached tokens."""
    read, written = counts.get("cache_read_tokens", 0), counts.get("cache_write_tokens", 0)
    fresh = counts.get("input_tokens", 0) - read - written
    taken = fresh, counts.get("output_tokens", 0), read, written
    return sum((rate * count for rate, count in zip(rates, taken, strict=True)), Decimal(0))


def parse(text: str) -> Prices:
    """Return the prices of a JSON list. Raises ValueError, which names the wrong entry."""
    return Prices(entries(text, _price, _twin, "prices", PRICES, Decimal))


def _twin(price: Price) -> tuple[object, str]:
    """Return what no other price (or no other factor) may share: for which calls it is, and from which time on."""
    shared = price.model, price.provider, price.tenant, price.since, price.rates is None
    return shared, "another entry is for the same model, provider, tenant and time"


def _price(row: Any) -> Price:
    if type(row) is not dict or row.keys() - {*SCOPE, *KINDS, "times"} or "model" not in row:
        raise ValueError(f"{EXPECTED} is expected")
    for key in SCOPE:
        if type(row.get(key, "")) is not str:
            raise ValueError(f"{key!r} is a string")
    rates = {kind: _dollars(row, kind) for kind in KINDS if kind in row}
    if ("times" in row) == bool(rates) or (rates and not {"input", "output"} <= rates.keys()):
        raise ValueError(f"{EXPECTED} is expected")
    default = rates.get("input", Decimal(0))
    return Price(
        row["model"],
        row.get("provider"),
        row.get("tenant"),
        _since(row.get("from")),
        tuple(rates.get(kind, default) / MILLION for kind in KINDS) if rates else None,
        _dollars(row, "times") if "times" in row else None,
    )


def _dollars(row: Mapping[str, Any], key: str) -> Decimal:
    value = row[key]
    if type(value) is not Decimal or not 0 <= value < MILLION:
        raise ValueError(f"{key!r} is a number from 0 on")
    return value


def _since(text: str | None) -> int:
    if text is None:
        return 0
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'from' is a time, as 2026-11-24T12:00:00Z, not {text!r:.50}") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)

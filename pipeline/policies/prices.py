"""Configured prices of tokens by model, provider, tenant and time, and factors (discounts) for other prices. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from sys import getsizeof
from typing import Any, Final

from pipeline.policies.entries import entries
from pipeline.policies.pools import FITTING
from turnmill.limits import PRICES
from turnmill.remembered import Remembered

MILLION: Final = 1_000_000
# The kind of a rate -> its count, and the kind that it costs as much as, unless it is given.
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "input": ("input_tokens", ""),
    "output": ("output_tokens", ""),
    "thinking": ("thinking_tokens", "output"),
    "cache_read": ("cache_read_tokens", "input"),
    "cache_write": ("cache_write_tokens", "input"),
    "cache_write_1h": ("cache_write_1h_tokens", "cache_write"),
    "input_audio": ("input_audio_tokens", "input"),
    "output_audio": ("output_audio_tokens", "output"),
    "cache_audio_read": ("cache_audio_read_tokens", "cache_read"),
    "input_image": ("input_image_tokens", "input"),
    "output_image": ("output_image_tokens", "output"),
    "cache_image_read": ("cache_image_read_tokens", "cache_read"),
}
# What is no token has a price for each, and none unless it is given.
CALLS: Final = {"web_search": "web_searches", "storage_search": "storage_searches", "audio_second": "audio_seconds"}
# A count -> the counts that include it: the rate of its tokens is what they cost above the rates of those.
INCLUDED_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "thinking_tokens": ("output_tokens",),
    "cache_read_tokens": ("input_tokens",),
    "cache_write_tokens": ("input_tokens",),
    "cache_write_1h_tokens": ("input_tokens", "cache_write_tokens"),
    "input_audio_tokens": ("input_tokens",),
    "output_audio_tokens": ("output_tokens",),
    "cache_audio_read_tokens": ("input_tokens", "cache_read_tokens", "input_audio_tokens"),
    "input_image_tokens": ("input_tokens",),
    "output_image_tokens": ("output_tokens",),
    "cache_image_read_tokens": ("input_tokens", "cache_read_tokens", "input_image_tokens"),
}
SCOPE: Final = ("model", "provider", "tenant", "tier", "from")
EXPECTED: Final = (
    '{"model", "provider"?, "tenant"?, "tier"?, "from"?} and either {"input", "output", '
    + ", ".join(f'"{kind}"?' for kind in (*KINDS, *CALLS) if kind not in ("input", "output"))
    + '} in US dollars, for a million tokens or for a call, or {"times"}'
)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of calls from `since` (epoch ms) on.

    `model` is a pattern, as `gpt-5*`; `provider`, `tenant` ("" for calls without one): None is all. `tier`: of calls in
    this service tier; None is the standard tier. `rates`: US dollars by the name of a count, each above the rates of
    the counts that include it; without `rates`, the cost known otherwise is multiplied by `times`.
    """

    model: str
    provider: str | None
    tenant: str | None
    tier: str | None
    since: int
    rates: Mapping[str, Decimal] | None
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
        at += f" in tier {self.tier}" if self.tier else ""
        since = datetime.fromtimestamp(self.since / 1000, UTC) if self.since else None
        return f"own price: {self.model}{at}{of}" + (since.strftime(" from %Y-%m-%dT%H:%M:%SZ") if since else "")


@dataclass(eq=False, slots=True)
class Prices:
    """All configured prices, with a cache of those that apply to a model, provider and tenant."""

    all: tuple[Price, ...] = ()
    _fitting: Remembered[tuple[str, str | None], Sequence[Price]] = field(
        default_factory=lambda: Remembered(FITTING, getsizeof)
    )

    def of(
        self, model: str, provider: str | None, tenant: str | None, tier: str | None, at: int
    ) -> tuple[Price | None, list[Price]]:
        """Return the price, if there is one, and the factors on it, for a call at this time (epoch ms).

        A call in a tier has the price of that tier; else the standard price, with a factor for the tier.
        """
        if not self.all:
            return None, []
        scope, call = tenant or "", (model, provider)
        if (fitting := self._fitting.get(scope, call)) is None:
            fitting = [price for price in self.all if price.is_for(*call, scope)]
            fitting.sort(key=lambda price: price.rank, reverse=True)
            self._fitting.put(scope, call, fitting)
        fit = [price for price in fitting if price.since <= at]
        tiers = (tier, None) if tier else (None,)
        price = next((p for wanted in tiers for p in fit if p.rates is not None and p.tier == wanted), None)
        if price is not None and price.tier is not None:
            tiers = (None,)
        factors = [next((p for p in fit if p.times is not None and p.tier == wanted), None) for wanted in tiers]
        return price, [factor for factor in factors if factor is not None]


NONE: Final = Prices()


def parse(text: str) -> Prices:
    """Return the prices of a JSON list. Raises ValueError, which names the wrong entry."""
    return Prices(entries(text, _price, _twin, "prices", PRICES, Decimal))


def _twin(price: Price) -> tuple[object, str]:
    """Return what no other price (or no other factor) may share: for which calls it is, and from which time on."""
    shared = price.model, price.provider, price.tenant, price.tier, price.since, price.rates is None
    return shared, "another entry is for the same model, provider, tenant, tier and time"


def _price(row: Any) -> Price:
    if type(row) is not dict or row.keys() - {*SCOPE, *KINDS, *CALLS, "times"} or "model" not in row:
        raise ValueError(f"{EXPECTED} is expected")
    for key in SCOPE:
        if type(row.get(key, "")) is not str:
            raise ValueError(f"{key!r} is a string")
    given = {kind: _dollars(row, kind) for kind in (*KINDS, *CALLS) if kind in row}
    if ("times" in row) == bool(given) or (given and not {"input", "output"} <= given.keys()):
        raise ValueError(f"{EXPECTED} is expected")
    return Price(
        row["model"],
        row.get("provider"),
        row.get("tenant"),
        row.get("tier") or None,
        _since(row.get("from")),
        _rates(given) if given else None,
        _dollars(row, "times") if "times" in row else None,
    )


def _rates(given: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return the rates by count, each above the rates of the counts that include it."""
    rates = {name: given[kind] for kind, name in CALLS.items() if kind in given}
    full = dict(given)
    for kind, (name, same_as) in KINDS.items():
        full.setdefault(kind, full[same_as] if same_as else Decimal(0))
        rates[name] = full[kind] / MILLION - sum((rates[part] for part in INCLUDED_IN.get(name, ())), Decimal(0))
    return rates


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

"""The rates of a price of the `genai-prices` package per token of each kind, computed from a few calls of it.

The package computes a price as a sum of counts, each times the rate of its kind. The rates may depend on the input:
above some number of tokens other rates apply to all of them. Between two such numbers the sum is linear, so a few calls
give all rates there, exactly: prices are decimal numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

PRICED: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
STEP: Final = 1_000  # tokens between two calls
LARGEST: Final = 10**15  # tokens; a larger count may be rounded by the package


@dataclass(frozen=True, slots=True)
class Rates:
    """In US dollars: `base` for the response, and the price of a token of each kind, in the order of PRICED."""

    base: Decimal
    tokens: tuple[Decimal, ...]


@dataclass(slots=True)
class _Known:
    """Keeps `price` alive, so that its `id()` can't be reused. `starts`: the inputs above which other rates apply."""

    price: ModelPrice
    starts: list[int]
    rates: dict[int, Rates | None] = field(default_factory=dict)


_known: dict[int, _Known] = {}  # by the id of the price: as many as the package has


def total_price(price: ModelPrice, counts: Mapping[str, int]) -> Decimal:
    """Return the price of counts of PRICED, in US dollars; the input includes cached tokens.

    Raises ValueError.
    """
    known = _known.get(id(price)) or _known.setdefault(id(price), _Known(price, _starts(price)))
    tier = bisect_left(known.starts, counts.get("input_tokens", 0))
    if tier not in known.rates:
        known.rates[tier] = _rates(known, tier)
    rates = known.rates[tier]
    if rates is None or not all(0 <= count < LARGEST for count in counts.values()):
        return _asked(price, counts)
    total = rates.base
    for name, rate in zip(PRICED, rates.tokens, strict=True):
        if count := counts.get(name):
            total += rate * count
    return total


def _starts(price: ModelPrice) -> list[int]:
    from genai_prices.types import TieredPrices  # noqa: PLC0415  # slow to import, and only the store needs it

    tiered = (value for value in vars(price).values() if isinstance(value, TieredPrices))
    return sorted({int(tier.start) for value in tiered for tier in value.tiers})


def _rates(known: _Known, tier: int) -> Rates | None:
    """Return the rates of a tier; None if it is too narrow to compute them."""
    low = known.starts[tier - 1] + 1 if tier else 0
    if tier < len(known.starts) and known.starts[tier] < low + STEP:
        return None

    def step(name: str) -> Decimal:
        """Return the price of a token of this kind."""
        start = {"input_tokens": low if name == "input_tokens" else low + STEP}
        more = start | {name: start.get(name, 0) + STEP}
        return (_asked(known.price, more) - _asked(known.price, start)) / STEP

    tokens = tuple(map(step, PRICED))
    return Rates(_asked(known.price, {"input_tokens": low}) - low * tokens[0], tokens)


def _asked(price: ModelPrice, counts: Mapping[str, int]) -> Decimal:
    from genai_prices import Usage  # noqa: PLC0415  # as above

    return price.calc_price(Usage(**counts))["total_price"]

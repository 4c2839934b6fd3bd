"""The cost of a response whose stream does not report it: by own prices, or by those of `genai-prices` for its day.

A model or a provider that the package does not know has no price here; none is guessed. Models and rates are looked up
once and cached, since a call of the package takes 80 µs for a response.

The package computes a price as a sum of counts, each times the rate of its kind. The rates may depend on the input:
above some number of tokens other rates apply to all of them. Between two such numbers the sum is linear, so a few calls
of the package give all rates there, exactly: prices are decimal numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from pipeline.policies.prices import NONE, Prices, cost
from pipeline.turns.tokens import NANO

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

PRICED: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
STEP: Final = 1_000  # tokens between two calls
LARGEST: Final = 10**15  # tokens; a larger count may be rounded by the package
STREAM: Final = "stream"  # the price source of a cost that the stream reported
CACHE_SIZE: Final = 4_096  # names that are cached, with the package's model for each
MAX_NAME_CHARACTERS: Final = 200  # of a model's name; longer texts are not looked up


@cache
def source() -> str:
    """Return the price list in use, as `genai-prices 0.2.3`: a release has the prices known on its day."""
    return f"genai-prices {version('genai-prices')}"


def cost_nano_usd(row: Mapping[str, Any], prices: Prices = NONE) -> tuple[int, str] | None:
    """Return the cost of a usage row in 10⁻⁹ US dollars, and the price that it follows from; None if it is unknown.

    It follows from the row's tenant, model, provider, counts and time; own prices are used before those of the package.
    `input_tokens` include the cached ones, as in ThreadProtocol; where they are fewer, the cached ones are added.
    """
    model, counts = row["model"], {name: row[name] for name in PRICED if row[name] is not None}
    if not model or len(model) > MAX_NAME_CHARACTERS or not counts.keys() & {"input_tokens", "output_tokens"}:
        return None
    cached = counts.get("cache_read_tokens", 0) + counts.get("cache_write_tokens", 0)
    if cached > counts.get("input_tokens", 0):
        counts["input_tokens"] = counts.get("input_tokens", 0) + cached
    price, factor = prices.of(model, row["provider"], row["tenant"], row["at"]) if prices.all else (None, None)
    total = _listed(row, counts) if price is None or price.rates is None else cost(price.rates, counts)
    if total is None:
        return None
    of = source() if price is None else price.source
    if factor is not None and factor.times is not None:
        total, of = total * factor.times, f"{of}, times {factor.times} by {factor.source}"
    nano = round(total * NANO)
    return (nano, of) if 0 <= nano < 2**53 else None


def _listed(row: Mapping[str, Any], counts: Mapping[str, int]) -> Decimal | None:
    """Return the cost by the package's prices, in US dollars."""
    listed = _model(row["model"], row["provider"])
    if listed is None:
        return None
    try:
        return total_price(listed.get_prices(datetime.fromtimestamp(row["at"] / 1000, UTC)), counts)
    except (LookupError, ValueError, OverflowError, OSError):  # impossible numbers and times
        return None


@lru_cache(maxsize=CACHE_SIZE)
def _model(model: str, provider: str | None) -> ModelInfo | None:
    """Return the model that the package finds for these names; whether it has a price then depends on no time."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415  # slow to import, and only the store needs it

    try:
        return get_snapshot().find_provider_model(model, None, provider, None)[1]
    except (LookupError, ValueError):
        return None


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
    """Return the price of counts of PRICED, in US dollars; the input includes cached tokens. Raises ValueError."""
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

"""The cost of a response whose stream does not report it: by own prices, or by those of `genai-prices` for its day.

A model or a provider that the package does not know has no price here; none is guessed. Models and rates are looked up
once and cached, since a call of the package takes 80 µs for a response.

The package computes a price as a sum of counts, each times the rate of its kind. The rates may depend on the input:
above some number of tokens other rates apply to all of them. Between two such numbers the sum is linear, so a few calls
of the package give all rates there, exactly: prices are decimal numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pipeline.policies.pools import LISTED
from pipeline.policies.prices import CALLS, INCLUDED_IN, KINDS, NONE, Prices
from pipeline.turns.tokens import NANO
from turnmill.remembered import Remembered

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

PRICED: Final = (*(name for name, _ in KINDS.values()), *CALLS.values())  # those that have a price
PRICEABLE: Final = ("input_tokens", "output_tokens", *CALLS.values())  # without any of which nothing was used
ASKED_AS: Final = {"thinking_tokens": "output_reasoning_tokens"}  # the package's name, where it differs
PRICE_KEYS: Final = {
    "web_searches": "web_searches_kcount",
    "storage_searches": "storage_searches_kcount",
    "audio_seconds": "audio_hours",
}
STEP: Final = 1_000  # tokens between two calls
LARGEST: Final = 10**15  # tokens; a larger count may be rounded by the package
STREAM: Final = "stream"  # the price source of a cost that the stream reported
UNPRICED: Final = "no price: "  # followed by the reason, instead of the source of a price
OF_BEDROCK: Final = re.compile(r"(arn:aws\S*:|[a-z-]+\.)?[a-z0-9]+\.[a-z]")  # eu.anthropic.claude-…, amazon.nova-…
MAX_NAME_CHARACTERS: Final = 200  # of a model's name; longer texts are not looked up


@cache
def source() -> str:
    """Return the price list in use, as `genai-prices 0.2.3`: a release has the prices known on its day."""
    return f"genai-prices {version('genai-prices')}"


class Cost(NamedTuple):
    """What a response cost in 10⁻⁹ US dollars, and by which price; if unknown, None, and UNPRICED with the reason.

    `estimated`: the price depends on the size or number of calls, and only the sum of several is known.
    """

    nano_usd: int | None
    source: str
    estimated: bool = False


def cost_of(row: dict[str, Any], prices: Prices = NONE) -> Cost:
    """Return the cost of a usage row by its tenant, model, provider, service tier, counts and time.

    Own prices are used before those of the package. `input_tokens` include the cached ones, as in ThreadProtocol; where
    they are fewer, the cached ones are added. `row["summed"]`: the counts are the sum of an unknown number of calls.
    """
    model = row["model"]
    counts: dict[str, int] = {name: count for name in PRICED if (count := row.get(name)) is not None}
    if not any(name in counts for name in PRICEABLE):
        return Cost(None, f"{UNPRICED}no count was told")
    if not model or len(model) > MAX_NAME_CHARACTERS:
        return Cost(None, f"{UNPRICED}no model is named")
    cached = counts.get("cache_read_tokens", 0) + counts.get("cache_write_tokens", 0)
    if cached > counts.get("input_tokens", 0):
        counts["input_tokens"] = counts.get("input_tokens", 0) + cached
    for name in list(counts):
        for whole in INCLUDED_IN.get(name, ()):
            if counts[name] > counts.get(whole, 0):
                counts[whole] = counts[name]
    tier = row.get("service_tier")
    price, factors = prices.of(model, row["provider"], row["tenant"], tier, row["at"])
    if tier and (price is None or price.tier is None) and not any(factor.tier for factor in factors):
        return Cost(None, f"{UNPRICED}none for service tier {tier}")
    total = _listed(row, counts) if price is None else _own(price.source, price.rates or {}, counts)
    if isinstance(total, str):
        return Cost(None, f"{UNPRICED}{total}")
    dollars, source, estimated = total
    for factor in factors:
        dollars, source = dollars * (factor.times or 0), f"{source}, times {factor.times} by {factor.source}"
    nano = round(dollars * NANO)
    return Cost(nano, source, estimated) if 0 <= nano < 2**53 else Cost(None, f"{UNPRICED}the counts are impossible")


Total = tuple[Decimal, str, bool]  # US dollars, the name of the price, and whether they are an estimate


def _own(source: str, rates: Mapping[str, Decimal], counts: Mapping[str, int]) -> Total | str:
    for name in counts:
        if name not in rates:
            return f"none for {name}"
    return sum((rates[name] * count for name, count in counts.items()), Decimal(0)), source, False


def _listed(row: Mapping[str, Any], counts: Mapping[str, int]) -> Total | str:
    """Return the cost by the package's prices, or the reason why they have none."""
    listed, by_name = _model(row["model"], row["provider"])
    if listed is None:
        return "the model is not in the price list"
    try:
        price = listed.get_prices(datetime.fromtimestamp(row["at"] / 1000, UTC))
        known = _known_of(price)
        for name in CALLS.values():
            if counts.get(name) and not known.has(name):
                return f"none for {name}"
        summed = row.get("summed") is True
        above = summed and known.starts and counts.get("input_tokens", 0) > known.starts[0]
        total = total_price(price, counts, tier=0 if above else None)
    except (LookupError, ValueError, OverflowError, OSError):  # impossible numbers and times
        return "the counts or the time are impossible"
    by_call = summed and price.requests_kcount is not None
    return total, f"{source()} by name" if by_name else source(), bool(above or by_call)


def _model(model: str, provider: str | None) -> tuple[ModelInfo | None, bool]:
    if (known := _models.get(provider, model)) is None:
        _models.put(provider, model, known := _looked_up(model, provider))
    return known


_models: Final[Remembered[str, tuple[ModelInfo | None, bool]]] = Remembered(LISTED, getsizeof)  # by provider


def _looked_up(model: str, provider: str | None) -> tuple[ModelInfo | None, bool]:
    """Return the model that the package has for these names, and whether only by the model's.

    A provider that the package does not know is a private host, a gateway or a framework: the model's maker has a
    price, and Bedrock has that of a model with a name as Bedrock gives it.
    """
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415  # slow to import, and only the store needs it

    snapshot, name = get_snapshot(), model.rpartition("/")[2]  # of `publishers/google/models/gemini-3-pro`
    known = provider is not None and _is_known(provider)
    hosts = ("aws", provider, None) if OF_BEDROCK.match(name) else (provider, None)
    for maker in (provider,) if known else hosts:
        for named in (model, name):
            try:
                return snapshot.find_provider_model(named, None, maker, None)[1], maker != provider
            except (LookupError, ValueError):
                continue
    return None, False


def _is_known(provider: str) -> bool:
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415  # as above

    try:
        get_snapshot().find_provider(None, provider, None)
    except (LookupError, ValueError):
        return False
    return True


class _Known:
    """Keeps `price` alive, so that its `id()` can't be reused. `starts`: the inputs above which other rates apply.

    `rates`: by tier, US dollars by the name of a count, each above the rates of the counts that include it; "" is the
    price of the response itself.
    """

    def __init__(self, price: ModelPrice) -> None:
        self.price = price
        self.starts = _starts(price)
        self.rates: dict[int, Mapping[str, Decimal] | None] = {}

    def has(self, name: str) -> bool:
        """Return True if the price has a rate for such calls."""
        return getattr(self.price, PRICE_KEYS[name], None) is not None


_known: dict[int, _Known] = {}  # by the id of the price: as many as the package has


def _known_of(price: ModelPrice) -> _Known:
    return _known.get(id(price)) or _known.setdefault(id(price), _Known(price))


def total_price(price: ModelPrice, counts: Mapping[str, int], tier: int | None = None) -> Decimal:
    """Return the price of counts of PRICED, in US dollars; each count includes its parts. Raises ValueError.

    `tier`: that of the input by default; the tiers are those of the size of the input.
    """
    known = _known_of(price)
    if tier is None:
        tier = bisect_left(known.starts, counts.get("input_tokens", 0))
    if tier not in known.rates:
        known.rates[tier] = _rates(known, tier)
    rates = known.rates[tier]
    if rates is None or not all(0 <= count < LARGEST for count in counts.values()):
        return _asked(price, counts)
    total = rates[""]
    for name, count in counts.items():
        if count:
            total += rates[name] * count
    return total


def _starts(price: ModelPrice) -> list[int]:
    from genai_prices.types import TieredPrices  # noqa: PLC0415  # slow to import, and only the store needs it

    tiered = (value for value in vars(price).values() if isinstance(value, TieredPrices))
    return sorted({int(tier.start) for value in tiered for tier in value.tiers})


def _rates(known: _Known, tier: int) -> Mapping[str, Decimal] | None:
    """Return the rates of a tier; None if it is too narrow to compute them."""
    low = known.starts[tier - 1] + 1 if tier else 0
    if tier < len(known.starts) and known.starts[tier] < low + 2 * STEP:
        return None

    def step(name: str) -> Decimal:
        """Return the price of a token of this kind, or of a call."""
        start = {"input_tokens": low} if name == "input_tokens" else {"input_tokens": low + 2 * STEP}
        start |= {part: STEP for part in INCLUDED_IN.get(name, ()) if part != "input_tokens"}
        start.setdefault(name, 0)
        return (_asked(known.price, start | {name: start[name] + STEP}) - _asked(known.price, start)) / STEP

    rates = {name: step(name) for name in PRICED}
    return {**rates, "": _asked(known.price, {"input_tokens": low}) - low * rates["input_tokens"]}


def _asked(price: ModelPrice, counts: Mapping[str, int]) -> Decimal:
    from genai_prices import Usage  # noqa: PLC0415  # as above

    usage = Usage(**{ASKED_AS.get(name, name): count for name, count in counts.items()})
    return price.calc_price(usage)["total_price"]

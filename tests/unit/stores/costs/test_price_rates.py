"""Costs are those that the package computes, for each of its models, at any time, for any counts."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelPrice, StartDateConstraint, TieredPrices, TimeOfDateConstraint
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.costs import prices
from pipeline.stores.costs.prices import OF_BEDROCK, PRICED, cost_of
from pipeline.turns.tokens import NANO

PLAIN: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
BEGIN: Final = datetime(2024, 1, 1, tzinfo=UTC)
MODELS: Final = [(provider, model) for provider in get_snapshot().providers for model in provider.models]
COUNT: Final = st.none() | st.integers(0, 5_000) | st.integers(0, 3_000_000) | st.integers(0, 2**62)


def nano(row: dict[str, Any]) -> int | None:
    return cost_of(row).nano_usd


def by_the_package(row: dict[str, Any]) -> int | None:
    """As `cost_of` would, when it asked for each response anew."""
    counts = {name: row[name] for name in PLAIN if row[name] is not None}
    if not counts.keys() & {"input_tokens", "output_tokens"}:
        return None
    cached = counts.get("cache_read_tokens", 0) + counts.get("cache_write_tokens", 0)
    if cached > counts.get("input_tokens", 0):
        counts["input_tokens"] = counts.get("input_tokens", 0) + cached
    try:
        if row["provider"] is None and OF_BEDROCK.match(row["model"]):
            get_snapshot().find_provider_model(row["model"], None, "aws", None)
            row = {**row, "provider": "aws"}
    except LookupError:
        pass
    try:
        get_snapshot().find_provider_model(row["model"], None, row["provider"], None)
    except (LookupError, ValueError):
        row = {**row, "model": row["model"].rpartition("/")[2]}
    try:
        at = datetime.fromtimestamp(row["at"] / 1000, UTC)
        found = calc_price(Usage(**counts), row["model"], provider_id=row["provider"], genai_request_timestamp=at)
    except (LookupError, ValueError, OverflowError, OSError):
        return None
    cost = round(found.total_price * NANO)
    return cost if 0 <= cost < 2**53 else None


def row_of(provider: str | None, model: str, at: datetime, counts: dict[str, int | None]) -> dict[str, Any]:
    return {"model": model, "provider": provider, "tenant": None, "at": int(at.timestamp() * 1000), **counts}


def turning_points(model: Any) -> tuple[list[datetime], list[int]]:
    """The times at which another price of a model begins, and the inputs behind which it does."""
    conditional = [] if isinstance(model.prices, ModelPrice) else model.prices
    days, held = [datetime(2026, 1, 1, tzinfo=UTC)], [one.prices for one in conditional] or [model.prices]
    for one in conditional:
        if isinstance(one.constraint, StartDateConstraint):
            days.append(datetime.combine(one.constraint.start_date, datetime.min.time(), UTC))
        elif isinstance(one.constraint, TimeOfDateConstraint):
            days += [datetime.combine(BEGIN, t) for t in (one.constraint.start_time, one.constraint.end_time)]
    tiered = [value for price in held for value in vars(price).values() if isinstance(value, TieredPrices)]
    return days, sorted({tier.start for value in tiered for tier in value.tiers})


def test_every_model_costs_what_the_package_says_on_both_sides_of_each_change() -> None:
    rng = random.Random(7)
    seen = 0
    for provider, model in MODELS:
        days, starts = turning_points(model)
        inputs = [0, 1, 12_345, *(start + more for start in starts for more in (-1, 0, 1, 2))]
        for day in days:
            for at in (day - timedelta(seconds=1), day, day + timedelta(seconds=1)):
                counts = dict(zip(PLAIN, (rng.choice(inputs), rng.randrange(9_999), None, None), strict=True))
                if counts["input_tokens"] and rng.random() < 0.7:
                    counts["cache_read_tokens"] = rng.randrange(counts["input_tokens"] + 1)
                    counts["cache_write_tokens"] = rng.choice([None, 0, 1, counts["input_tokens"]])
                row = row_of(provider.id, model.id, at, counts)
                assert nano(row) == by_the_package(row), row
                seen += 1
    assert seen >= len(MODELS) * 3 > 300


@given(st.sampled_from(MODELS), st.integers(0, 3 * 365 * 86_400), st.tuples(COUNT, COUNT, COUNT, COUNT), st.booleans())
def test_any_counts_cost_what_the_package_says(
    which: Any, seconds: int, some: tuple[int | None, ...], named: Any
) -> None:
    provider, model = which
    counts = dict(zip(PLAIN, some, strict=True))
    row = row_of(provider.id if named else None, model.id, BEGIN + timedelta(seconds=seconds), counts)
    assert nano(row) == by_the_package(row)


def test_a_model_is_looked_up_once_and_so_is_one_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    right = get_snapshot().find_provider_model
    monkeypatch.setattr(get_snapshot(), "find_provider_model", lambda *names: asked.append(names) or right(*names))
    counts: dict[str, int | None] = {**dict.fromkeys(PLAIN), "input_tokens": 10}
    for name in ("gpt-5-2025-08-07", "no-model-but-here") * 3:  # of which no other test asks
        row = row_of("openai", name, BEGIN + timedelta(days=900), counts)
        assert (nano(row) is None) == (name == "no-model-but-here")
    names = ["gpt-5-2025-08-07", "no-model-but-here", "no-model-but-here"]  # with and without its path
    assert [first for first, *_ in asked] == names


def test_a_price_is_asked_a_few_times_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    (price,) = [model.prices for provider, model in MODELS if (provider.id, model.id) == ("openai", "gpt-5")]
    assert isinstance(price, ModelPrice)
    prices._known.pop(id(price), None)
    asked: list[Any] = []
    right = ModelPrice.calc_price
    monkeypatch.setattr(ModelPrice, "calc_price", lambda self, usage: asked.append(usage) or right(self, usage))
    for n in range(50):
        prices.total_price(price, {"input_tokens": 100 + n, "output_tokens": n})
    assert len(asked) == 2 * len(PRICED) + 1


@given(st.sampled_from(MODELS), st.data())
def test_parts_of_the_counts_cost_what_the_package_says(which: Any, data: Any) -> None:
    """Caches for an hour, thoughts, audio and searches: each price of a model, with each count inside its whole."""
    _, model = which
    held = [model.prices] if isinstance(model.prices, ModelPrice) else [each.prices for each in model.prices]
    counts = {"input_tokens": data.draw(st.sampled_from((0, 900, 50_000, 199_999, 300_000)))}
    counts["output_tokens"] = data.draw(st.integers(0, 9_000))

    def part(name: str, most: int) -> int:
        counts[name] = data.draw(st.integers(0, most))
        return counts[name]

    read = part("cache_read_tokens", counts["input_tokens"])
    written = part("cache_write_tokens", counts["input_tokens"] - read)
    part("cache_write_1h_tokens", written)
    heard = part("input_audio_tokens", counts["input_tokens"] - read - written)
    part("cache_audio_read_tokens", min(read, heard))
    part("thinking_tokens", counts["output_tokens"] - part("output_audio_tokens", counts["output_tokens"]))
    part("web_searches", 5)
    for price in held:
        asked = {"output_reasoning_tokens" if name == "thinking_tokens" else name: n for name, n in counts.items()}
        assert prices.total_price(price, counts) == price.calc_price(Usage(**asked))["total_price"]

"""What a response costs: by the prices of its day, and nothing where they are not known."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from pipeline.stores.costs.prices import PRICED, UNPRICED, cost_of, source
from pipeline.turns.tokens import NANO

MILLION = 1_000_000


def cost(
    model: Any = "claude-sonnet-4-6", provider: Any = "anthropic", at: Any = "2026-06-01", **counts: int
) -> int | None:
    ms = int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() * 1000) if isinstance(at, str) else at
    row = {"tenant": None, "model": model, "provider": provider, "at": ms, **dict.fromkeys(PRICED), **counts}
    return cost_of(row).nano_usd


def test_the_price_is_that_of_the_day_of_the_response() -> None:
    """Until 13 March 2026 this model cost more where over 200,000 tokens went in; from then on it did not."""
    after = cost(at="2026-03-13", input_tokens=300_000)
    before = cost(at="2026-03-12T23:59:59", input_tokens=300_000)
    assert after == 300_000 * 3 * NANO // MILLION
    assert before is not None
    assert before > after
    assert cost(at="2026-03-12T23:59:59", input_tokens=1000) == cost(at="2026-03-13", input_tokens=1000)


def test_each_kind_of_token_has_its_price_and_cached_ones_are_part_of_the_input() -> None:
    assert cost(input_tokens=MILLION, output_tokens=0) == 3 * NANO
    assert cost(input_tokens=0, output_tokens=MILLION) == 15 * NANO
    assert cost(input_tokens=100_000, cache_read_tokens=100_000) == 30 * NANO // 1000
    assert cost(input_tokens=100_000, cache_write_tokens=100_000) == 375 * NANO // 1000
    apart = cost(input_tokens=50_000, cache_read_tokens=100_000)  # more than went in: the wire counts them apart
    assert apart == cost(input_tokens=150_000, cache_read_tokens=100_000)


def test_a_single_token_is_not_rounded_away() -> None:
    assert cost(input_tokens=1) == 3000


@pytest.mark.parametrize(
    "unknown",
    [
        {"model": "house-model"},
        {"model": None},
        {"model": ""},
        {"model": "claude" * 1000},
        {"model": "\0\ud800"},
        {"at": 10**18},
        {"at": -(10**18)},
    ],
)
def test_what_is_not_known_is_not_guessed(unknown: dict[str, Any]) -> None:
    assert cost(**unknown, input_tokens=10, output_tokens=10) is None


def test_without_tokens_there_is_no_cost() -> None:
    assert cost() is None
    assert cost(cache_read_tokens=5) is None


def test_a_model_without_a_provider_costs_what_its_maker_asks() -> None:
    assert cost(provider=None, input_tokens=MILLION) == 3 * NANO


def test_a_host_of_ones_own_costs_what_the_models_maker_asks_and_that_is_said() -> None:
    row = {"tenant": None, "model": "claude-sonnet-4-6", "provider": "someone-elses-proxy", "at": 1790000000000}
    assert cost_of({**row, "input_tokens": MILLION}) == (3 * NANO, f"{source()} by name", False)
    assert cost_of({**row, "provider": "openai", "input_tokens": MILLION}).nano_usd is None, "which has no such model"


@pytest.mark.parametrize(
    ("model", "provider", "dollars"),
    [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", "3.3"),
        ("global.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws_bedrock", "3"),
        ("arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4-5-20250929-v1:0", "aws", "3.3"),
        ("claude-sonnet-4-5@20250929", "vertex_ai", "3"),
        ("publishers/google/models/gemini-2.5-flash", "vertex", "0.3"),
        ("models/gemini-2.5-flash", None, "0.3"),
        ("gpt-4o-2024-08-06", "azure", "2.5"),
    ],
)
def test_models_are_named_as_clouds_name_them(model: str, provider: str | None, dollars: str) -> None:
    assert cost(model, provider, input_tokens=100_000) == int(Decimal(dollars) * NANO / 10)


def test_what_is_kept_for_an_hour_costs_more_than_for_five_minutes() -> None:
    written = {"cache_write_tokens": 100_000, "cache_write_1h_tokens": 80_000, "cache_read_tokens": 50_000}
    counts = {"input_tokens": 151_000, "output_tokens": 500, **written}
    assert cost("claude-sonnet-4-5", at="2026-11-01", **counts) == 580_500_000


def test_audio_and_searches_have_their_prices() -> None:
    counts = {"input_tokens": 10_200, "input_audio_tokens": 10_000, "output_tokens": 20}
    assert cost("gemini-2.5-flash", "google", "2026-11-01", **counts) == 10_110_000
    found = cost("gpt-5.4", "openai", "2026-11-01", input_tokens=1_000, output_tokens=0, web_searches=3)
    assert found == 2_500_000 + 30_000_000


def test_a_search_without_a_price_makes_the_response_unpriced() -> None:
    row = {"tenant": None, "model": "claude-sonnet-4-5@20250929", "provider": "google", "at": 1790000000000}
    assert cost_of({**row, "input_tokens": 5, "web_searches": 1}) == (None, f"{UNPRICED}none for web_searches", False)


def test_a_service_tier_has_its_own_price_or_none() -> None:
    row = {"tenant": None, "model": "gpt-5.4", "provider": "openai", "at": 1790000000000, "input_tokens": 100_000}
    assert cost_of({**row, "service_tier": "flex"}) == (None, f"{UNPRICED}none for service tier flex", False)


def test_a_sum_of_calls_is_an_estimate_below_the_tier() -> None:
    row = {"tenant": None, "model": "claude-sonnet-4-5", "provider": "anthropic", "at": 1790000000000}
    counts = {"input_tokens": 300_050, "output_tokens": 0}
    assert cost_of({**row, **counts, "summed": True}) == (900_150_000, source(), True)
    assert cost_of({**row, **counts}) == (1_800_300_000, source(), False)
    assert cost_of({**row, "input_tokens": 200_000, "summed": True}).estimated is False, "no call can be above it"


@pytest.mark.parametrize(
    "region", ["us.", "eu.", "apac.", "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us."]
)
def test_a_model_of_bedrock_has_the_price_of_its_region(region: str) -> None:
    """In a region Anthropic's models cost a tenth more than everywhere; a profile's ARN ends with the model's id."""
    model = "anthropic.claude-opus-4-5-20251101-v1:0"
    everywhere = cost(f"global.{model}", "bedrock", input_tokens=1000, output_tokens=1000)
    assert everywhere == (5 + 25) * 1000 * NANO // MILLION
    assert cost(region + model, "bedrock", input_tokens=1000, output_tokens=1000) == everywhere * 11 // 10


@pytest.mark.parametrize("provider", [None, "a-framework"])
def test_a_name_as_bedrock_gives_it_has_bedrocks_price_whoever_asked(provider: str | None) -> None:
    row = {"tenant": None, "provider": provider, "at": 1790000000000, "input_tokens": 1000, "output_tokens": 1000}
    in_europe = cost_of({**row, "model": "eu.anthropic.claude-opus-4-5-20251101-v1:0"})
    assert in_europe == ((5 + 25) * 1000 * NANO // MILLION * 11 // 10, f"{source()} by name", False)
    assert cost_of({**row, "model": "amazon.nova-pro-v1:0"}).nano_usd == 4 * NANO // 1000
    assert cost_of({**row, "model": "llama3.2"}).nano_usd is None, "a file on one's own machine"

"""What a response costs: by the prices of its day, and nothing where they are not known."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.stores.costs.prices import PRICED, cost_nano_usd
from pipeline.turns.tokens import NANO

MILLION = 1_000_000


def cost(
    model: Any = "claude-sonnet-4-6", provider: Any = "anthropic", at: Any = "2026-06-01", **counts: int
) -> int | None:
    ms = int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() * 1000) if isinstance(at, str) else at
    row = {"tenant": None, "model": model, "provider": provider, "at": ms, **dict.fromkeys(PRICED), **counts}
    found = cost_nano_usd(row)
    return None if found is None else found[0]


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
        {"provider": "someone-elses-proxy"},
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

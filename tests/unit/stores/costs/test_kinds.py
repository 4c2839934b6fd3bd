"""Three kinds of cost: told by the stream, computed from prices, estimated; and calls beside the answer."""

from typing import Any

import pytest

from pipeline.policies.prices import NONE
from pipeline.stores.costs.rows import COMPUTED, ESTIMATED, TOLD, usage_rows
from tests.unit.stores.costs.test_rows import record, response

SONNET = {"model_name": "claude-sonnet-4-5", "provider_name": "anthropic"}


def row_of(usage: dict[str, Any], **names: Any) -> dict[str, Any]:
    (row,) = usage_rows(record([response(1, usage=usage, **(names or SONNET))]))
    return row


def test_a_cost_that_is_told_is_used_and_compared() -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    row = row_of(usage | {"cost": 6.0})
    assert (row["cost_nano_usd"], row["cost_kind"], row["price_source"]) == (6_000_000_000, TOLD, "stream")
    assert row["computed_nano_usd"] is None, "above the tier it costs as much"
    row = row_of(usage | {"cost": 5.9})
    assert (row["cost_nano_usd"], row["computed_nano_usd"]) == (5_900_000_000, 6_000_000_000)
    assert row_of(usage | {"cost": 5.95})["computed_nano_usd"] is None, "less than 1 %"
    assert row_of(usage | {"cost": 1.0}, model_name="house")["computed_nano_usd"] is None


@pytest.mark.parametrize(
    ("told", "nano"),
    [
        ({"is_byok": True, "cost": 0, "cost_details": {"upstream_inference_cost": 0.0285}}, 28_500_000),
        ({"is_byok": True, "cost": 0.001425, "cost_details": {"upstream_inference_cost": 0.0285}}, 29_925_000),
        ({"is_byok": False, "cost": 0.03, "cost_details": {"upstream_inference_cost": 0.0285}}, 30_000_000),
        ({"is_byok": True, "cost": 0, "cost_details": {"upstream_inference_cost": None}}, None),
        ({"estimated_cost": 0.00012}, 120_000),  # DeepInfra
        ({"cost": {"input_tokens_cost": 0.0, "total_cost": 0.006}}, 6_000_000),  # Perplexity
        ({"cost_in_usd_ticks": 37_756_000}, 3_775_600),  # xAI: 10⁻¹⁰ dollars
    ],
)
def test_each_spelling_of_a_told_cost(told: dict[str, Any], nano: int | None) -> None:
    assert row_of({"input_tokens": 7, "output_tokens": 1, **told}, model_name="house")["cost_nano_usd"] == nano


def test_what_has_no_price_says_why() -> None:
    row = row_of({"input_tokens": 7, "output_tokens": 1, "service_tier": "flex"}, model_name="gpt-5.4")
    assert (row["cost_nano_usd"], row["cost_kind"], row["service_tier"]) == (None, None, "flex")
    assert row["price_source"] == "no price: none for service tier flex"
    assert row_of({}, model_name="house")["price_source"] is None, "nothing was used"


@pytest.mark.parametrize("tier", [None, "default", "standard", "auto", "ON_DEMAND"])
def test_the_standard_tier_has_the_listed_price(tier: str | None) -> None:
    assert row_of({"input_tokens": 1_000, "output_tokens": 0, "service_tier": tier})["cost_nano_usd"] == 3_000_000


def test_a_sum_of_calls_is_estimated() -> None:
    row = row_of({"input_tokens": 300_050, "output_tokens": 0, "meta:summed": True})
    assert (row["cost_nano_usd"], row["cost_kind"]) == (900_150_000, ESTIMATED)


def test_a_sum_of_calls_that_cost_something_each_is_estimated() -> None:
    """sonar-pro costs $3 and $15 for a million tokens, and $0.014 for each request (genai-prices 0.2.3)."""
    usage = {"input_tokens": 1_000, "output_tokens": 500}
    names = {"model_name": "sonar-pro", "provider_name": "perplexity"}
    row = row_of(usage, **names)
    assert (row["cost_nano_usd"], row["cost_kind"]) == (24_500_000, COMPUTED)
    row = row_of(usage | {"meta:summed": True}, **names)
    assert (row["cost_nano_usd"], row["cost_kind"]) == (24_500_000, ESTIMATED)


def test_a_total_of_several_responses_is_estimated_and_of_one_is_not() -> None:
    total = {"input_tokens": 300_000, "output_tokens": 0}
    *_, rest = usage_rows(record([response(1, **SONNET), response(2, **SONNET)], total))
    assert (rest["cost_nano_usd"], rest["cost_kind"]) == (900_000_000, ESTIMATED)
    *_, rest = usage_rows(record([response(1, **SONNET)], total))
    assert (rest["cost_nano_usd"], rest["cost_kind"]) == (1_800_000_000, COMPUTED)


def test_responses_that_broke_off_are_priced_each_as_its_model() -> None:
    """claude-haiku-4-5 costs $1 for a million tokens of input, gpt-5.4 $2.50, and $5 above 272,000 tokens."""
    usages = [{"input_tokens": size, "output_tokens": 0} for size in (200_000, 280_000, 100_000)]
    names = [{"model_name": "gpt-5.4"}, {"model_name": "gpt-5.4"}, {"model_name": "claude-haiku-4-5"}]
    cut = [response(2, usage=usage, **name) for usage, name in zip(usages, names, strict=True)]
    turn = record([response(1, usage={"input_tokens": 9}, **SONNET)], {"input_tokens": 580_009}, status="interrupted")
    turn["turn"] |= {"meta:partial": {"messages": cut}}
    rows = usage_rows(turn)
    priced = [(row["model"], row["requests"], row["cost_nano_usd"], row["cost_kind"]) for row in rows[1:]]
    assert priced == [
        ("gpt-5.4", 0, 500_000_000, COMPUTED),
        ("gpt-5.4", 0, 1_400_000_000, COMPUTED),
        ("claude-haiku-4-5", 0, 100_000_000, COMPUTED),
    ]
    assert sum(row["input_tokens"] for row in rows) == 580_009
    turn["turn"]["total_usage"] = {"input_tokens": 9}
    assert [row["input_tokens"] for row in usage_rows(turn)] == [9], "the total has none of them"


def test_two_models_in_a_usage_are_priced_apart() -> None:
    entries = [
        {"model": "claude-sonnet-4-5", "inputTokens": 100_000, "outputTokens": 0},
        {"model": "gpt-5.4", "inputTokens": 100_000, "outputTokens": 0},
    ]
    usage = {"input_tokens": 200_000, "output_tokens": 0, "models": entries}
    rows = usage_rows(record([response(1, usage=usage, model_name="claude-sonnet-4-5")], usage), NONE)
    assert [(row["model"], row["cost_nano_usd"], row["requests"]) for row in rows] == [
        ("claude-sonnet-4-5", 300_000_000, 1),
        ("gpt-5.4", 250_000_000, 0),
    ]


def test_a_call_beside_the_answer_is_a_row_with_its_purpose() -> None:
    beside = response(2, usage={"input_tokens": 1_000, "output_tokens": 0}, **SONNET, **{"meta:purpose": "compaction"})
    answer = response(1, usage={"input_tokens": 2_000, "output_tokens": 0}, **SONNET)
    rows = usage_rows(record([answer, beside], {"input_tokens": 3_000, "output_tokens": 0}))
    assert [(row["purpose"], row["input_tokens"]) for row in rows] == [("", 2_000), ("compaction", 1_000)]


def test_the_told_cost_of_a_turn_is_compared_as_a_whole() -> None:
    calls = [response(n, usage={"input_tokens": 100_000, "output_tokens": 0}, **SONNET) for n in (1, 2)]
    total = {"input_tokens": 200_000, "output_tokens": 0}
    told = usage_rows(record(calls, {**total, "cost": 0.6}))
    assert sum(row["cost_nano_usd"] or 0 for row in told) == 600_000_000
    assert all(row["computed_nano_usd"] is None for row in told)
    told = usage_rows(record(calls, {**total, "cost": 0.5}))
    assert sum(row["computed_nano_usd"] or 0 for row in told) == 600_000_000

"""Chat Completions: what servers tell of tokens, tiers and costs, and what is billed of it."""

from typing import Any

import pytest

from tests.support.assembled import Assembled
from tests.support.bills import bill, billed
from tests.support.chat_chunks import DONE, chunk, run

COUNTS = ("input_tokens", "output_tokens", "thinking_tokens", "cache_read_tokens", "cache_write_tokens")


def told(usage: dict[str, Any], **more: Any) -> Assembled:
    return run(chunk({"content": "x"}, "stop"), {**chunk(), "choices": [], "usage": usage, **more}, DONE)


def test_moonshot_tells_tokens_in_the_choice_and_cached_ones_at_the_top_level() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30, "cached_tokens": 15}
    last = chunk({}, "stop")
    last["choices"][0]["usage"] = usage
    got = run(chunk({"content": "Hello"}), last, DONE)
    assert billed(got, *COUNTS) == (20, 10, None, 15, None)


@pytest.mark.parametrize(
    ("usage", "right"),
    [
        pytest.param((20, 198, 623, {}), (20, 603, 405, None, None), id="thoughts without details"),
        pytest.param(
            (100, 42, 712, {"cache_read_input_tokens": 500, "cache_creation_input_tokens": 70}),
            (670, 42, None, 500, 70),
            id="caches of Anthropic behind Portkey",
        ),
        pytest.param(
            (100, 42, 742, {"cache_read_input_tokens": 600, "completion_tokens_details": {"reasoning_tokens": 30}}),
            (700, 42, 30, 600, None),
            id="caches beside, thoughts in the output",
        ),
        pytest.param(
            (20, 603, 623, {"completion_tokens_details": {"reasoning_tokens": 405}}),
            (20, 603, 405, None, None),
            id="thoughts are in the output already",
        ),
        pytest.param(
            (20, 198, 623, {"completion_tokens_details": {"reasoning_tokens": 405}}),
            (20, 603, 405, None, None),
            id="xAI's thoughts beside the output",
        ),
        pytest.param(
            (20, 198, 240, {"completion_tokens_details": {"reasoning_tokens": 50}}),
            (20, 198, 50, None, None),
            id="a rest that is no count",
        ),
        pytest.param((20, 198, 100, {}), (20, 198, None, None, None), id="a total that is too small"),
    ],
)
def test_the_total_tells_what_the_counts_leave_out(usage: tuple[int, int, int, Any], right: tuple[int, ...]) -> None:
    asked, said, total, more = usage
    got = told({"prompt_tokens": asked, "completion_tokens": said, "total_tokens": total, **more})
    assert billed(got, *COUNTS, "total_tokens") == (*right, total)


def test_the_input_includes_the_caches_whatever_the_total_says() -> None:
    caches = {"cache_read_input_tokens": 500, "cache_creation_input_tokens": 70}
    got = told({"prompt_tokens": 100, "completion_tokens": 42, "total_tokens": 142, **caches})
    assert billed(got, *COUNTS, "total_tokens") == (670, 42, None, 500, 70, 712)
    got = told({"prompt_tokens": 670, "completion_tokens": 42, "total_tokens": 712, **caches})
    assert billed(got, *COUNTS, "total_tokens") == (670, 42, None, 500, 70, 712)


def test_a_zero_behind_a_count_changes_nothing() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 15}}
    zeros = {"prompt_tokens": 0, "completion_tokens": 12, "total_tokens": 0, "prompt_tokens_details": None}
    got = run(chunk({"content": "x"}, usage=usage), chunk({}, "stop", usage=zeros), DONE)
    assert billed(got, *COUNTS) == (20, 12, None, 15, None)


@pytest.mark.parametrize(("tier", "known"), [("priority", "priority"), ("flex", "flex"), ("default", "")])
def test_the_tier_is_beside_the_usage(tier: str, known: str) -> None:
    usage = {"prompt_tokens": 100_000, "completion_tokens": 10_000, "total_tokens": 110_000}
    (row,) = bill(told(usage, service_tier=tier, model="gpt-5.4"))
    assert row["service_tier"] == known
    early = run(chunk({"content": "x"}, service_tier=tier), chunk({}, "stop"), chunk(usage=usage), DONE)
    assert [row["service_tier"] for row in bill(early)] == [known]


@pytest.mark.parametrize(
    ("usage", "nano"),
    [
        # OpenRouter: `cost` is the fee, and the provider bills the caller's key.
        ({"is_byok": True, "cost": 0, "cost_details": {"upstream_inference_cost": 0.0285}}, 28_500_000),
        ({"is_byok": True, "cost": 0.001425, "cost_details": {"upstream_inference_cost": 0.0285}}, 29_925_000),
        ({"is_byok": False, "cost": 0.0285, "cost_details": {"upstream_inference_cost": 0.027}}, 28_500_000),
        ({"estimated_cost": 0.0012}, 1_200_000),  # DeepInfra
        ({"cost": {"input_tokens_cost": 0.001, "request_cost": 0.005, "total_cost": 0.006}}, 6_000_000),  # Perplexity
        ({"cost_in_usd_ticks": 37_756_000}, 3_775_600),  # xAI: 1e-10 dollars
    ],
)
def test_costs_as_servers_spell_them(usage: dict[str, Any], nano: int) -> None:
    counts = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
    (row,) = bill(told(counts | usage))
    assert (row["cost_nano_usd"], row["price_source"]) == (nano, "stream")

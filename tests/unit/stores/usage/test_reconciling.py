"""A provider's usage and the store's, side by side: what is equal, missing and different, and why."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pipeline.stores.usage.provider_exports import Billed
from pipeline.stores.usage.reconciling import GROUP_BY, Export, Line, compare
from pipeline.stores.usage.report import SUMMED, Figures, Percentiles, UsageRow

DAY = "2026-01-20"
NONE = Percentiles(None, None, None)


def row(
    model: str | None, provider: str | None = "openai", origin: str = "", tier: str = "", **counts: Any
) -> UsageRow:
    figures = Figures(**{**dict.fromkeys(SUMMED, 0), "requests": 1, **counts}, ttft_ms=NONE, duration_ms=NONE)
    return UsageRow(None, dict(zip(GROUP_BY, (model, provider, origin, tier), strict=True)), False, figures)


def billed(*models: str, key: str | None = None, tier: str | None = None, **counts: Any) -> Billed:
    return Billed(DAY, models, key, tier, counts)


def lines(results: Sequence[Billed], *rows: UsageRow, provider: str = "openai") -> list[Line]:
    return list(compare(Export.of(results), DAY, rows, provider))


def test_equal_sides_of_several_keys_and_hours() -> None:
    told = [billed("gpt-5", key=key, requests=1, input_tokens=50, output_tokens=5) for key in ("a", "b", "a")]
    [line] = lines(told, row("gpt-5", requests=3, input_tokens=150, output_tokens=15, thinking_tokens=3))
    assert (line.state, line.differing, line.reasons) == ("equal", (), ())
    assert line.keys == {
        "a": {"requests": 2, "input_tokens": 100, "output_tokens": 10},
        "b": {"requests": 1, "input_tokens": 50, "output_tokens": 5},
    }


def test_what_differs_and_why() -> None:
    told = [
        billed("gpt-5", requests=7, input_tokens=900),
        billed("gpt-5", tier="batch", requests=1, input_tokens=100),
    ]
    [line] = lines(
        told,
        row("gpt-5", requests=3, input_tokens=500, interrupted=1, estimated_tokens=70),
        row("gpt-5", origin="import", requests=2, input_tokens=20, unpriced=2),
    )
    assert (line.state, line.differing) == ("differs", ("requests", "input_tokens"))
    assert line.document()["counts"]["input_tokens"] == {"provider": 1000, "store": 520, "differs": True}
    assert line.reasons == (
        "calls without a stored response (not captured, refused, or broken off): 3",
        "tokens of responses that broke off before their usage was told, by estimate: 70",
        "imported responses, perhaps not paid by a key of this account: 2",
        "responses without a known price: 2",
        "service tiers: batch, standard at the provider, standard in the store",
    )


def test_what_is_missing_on_either_side() -> None:
    found = lines(
        [billed("gpt-5", input_tokens=10), billed("gpt-5-mini", input_tokens=20)],
        row("gpt-5", "azure", input_tokens=10, requests=4),
        row("gpt-4.1", input_tokens=30),
        row("claude-opus-5", "anthropic", input_tokens=40),
        row("", None, input_tokens=50, requests=6),
    )
    assert [(line.model, line.state) for line in found] == [
        ("gpt-4.1", "not at the provider"),
        ("gpt-5", "not in the store"),
        ("gpt-5-mini", "not in the store"),
    ]
    assert found[1].reasons == (
        "responses of this model are stored as of provider azure: 4",
        "stored responses of the day that name no model: 6",
    )
    assert found[2].reasons[-1].startswith("no response of this model is stored for the day")


def test_which_responses_are_the_providers() -> None:
    [line] = lines(
        [billed("gpt-5-2025-08-07", input_tokens=60)],
        row("gpt-5-2025-08-07", "openai.responses", input_tokens=10),
        row("gpt-5", "OpenAI", input_tokens=20),
        row("gpt-5-2025-08-07", None, input_tokens=30),
    )
    assert line.state == "equal"
    both = [billed("gpt-5-2025-08-07", input_tokens=60), billed("gpt-5-2025-10-06", input_tokens=60)]
    assert [(line.model, line.state) for line in lines(both, row("gpt-5", input_tokens=120))] == [
        ("gpt-5", "not at the provider"),
        ("gpt-5-2025-08-07", "not in the store"),
        ("gpt-5-2025-10-06", "not in the store"),
    ], "which of both it was is not known"


def test_names_of_openrouter() -> None:
    told = [billed("openai/gpt-4.1", "openai/gpt-4.1-2025-04-14", requests=2, cost_nano_usd=Decimal("27000000.5"))]
    rows = [
        row(name, "openrouter", cost_nano_usd=13_500_000) for name in ("openai/gpt-4.1", "openai/gpt-4.1-2025-04-14")
    ]
    [line] = lines(told, *rows, provider="openrouter")
    assert line.state == "equal", "half a billionth of a dollar is how each response is rounded"


def test_counts_that_are_told_for_all_models_at_once() -> None:
    found = lines(
        [billed("gpt-5", input_tokens=10), billed("o3", input_tokens=20), billed(cost_nano_usd=Decimal(10**9))],
        row("gpt-5", input_tokens=10, cost_nano_usd=3 * 10**8),
        row("o3", input_tokens=20, cost_nano_usd=6 * 10**8),
    )
    assert [(line.model, line.state) for line in found] == [("gpt-5", "equal"), ("o3", "equal"), (None, "differs")]
    assert found[2].document()["counts"] == {"cost_usd": {"provider": 1.0, "store": 0.9, "differs": True}}


def test_unknown_is_never_0() -> None:
    [line] = lines([billed("gpt-5", cost_nano_usd=Decimal(0))], row("gpt-5", input_tokens=10, unpriced=1))
    assert line.document()["counts"]["cost_usd"] == {"provider": 0.0, "store": None, "differs": True}
    assert line.reasons == ("responses without a known price: 1",)


def test_a_count_that_the_provider_has_for_other_models_alone() -> None:
    told = [billed("a", input_tokens=5, web_searches=2), billed("b", input_tokens=5)]
    found = lines(told, row("a", input_tokens=5, web_searches=2), row("b", input_tokens=5, web_searches=1))
    assert [(line.model, line.differing) for line in found] == [("a", ()), ("b", ("web_searches",))]

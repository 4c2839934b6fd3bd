"""Own prices: which holds for a call, and a bill by hand."""

import json
from datetime import datetime
from fractions import Fraction
from typing import Any

import pytest

from pipeline.policies.prices import NONE, Price, parse
from pipeline.stores.costs.prices import PRICED, cost_of, source
from turnmill.limits import PRICES

NOON = "2026-11-24T12:00:00Z"
NOON_MS = int(datetime.fromisoformat(NOON).timestamp() * 1000)
HOUSE = {"model": "house-*", "input": 1.1, "output": 3.3}


def cost(prices: list[dict[str, Any]], at: int = NOON_MS, **row: Any) -> tuple[int, str] | None:
    counts = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}
    found = {"tenant": None, "model": "house-7", "provider": None, "at": at, **dict.fromkeys(PRICED), **counts, **row}
    known = cost_of(found, parse(json.dumps(prices)))
    return None if known.nano_usd is None else (known.nano_usd, known.source)


def nano(*sums: tuple[int, str]) -> int:
    """The bill by hand: so many tokens at so many dollars a million, each."""
    return int(sum(Fraction(tokens) * Fraction(dollars) for tokens, dollars in sums) * 1000)


def test_a_model_that_the_package_does_not_know() -> None:
    assert cost([]) is None
    assert cost([HOUSE]) == (4_400_000_000, "own price: house-*")
    assert cost([HOUSE], model="gpt-house") is None


def test_cached_tokens_cost_what_is_said_else_what_the_input_does() -> None:
    counts = {"input_tokens": 10_001, "output_tokens": 7, "cache_read_tokens": 9_000, "cache_write_tokens": 500}
    assert cost([HOUSE], **counts) == (nano((10_001, "1.1"), (7, "3.3")), "own price: house-*")
    found = cost([HOUSE | {"cache_read": 0.123, "cache_write": 2}], **counts)
    assert found is not None
    assert found[0] == nano((501, "1.1"), (7, "3.3"), (9_000, "0.123"), (500, "2"))


def test_a_change_at_noon() -> None:
    prices = [HOUSE, HOUSE | {"from": NOON, "input": 2}]
    assert [cost(prices, at)[0] for at in (NOON_MS - 1, NOON_MS)] == [4_400_000_000, 5_300_000_000]  # type: ignore[index]
    assert cost(prices[1:], NOON_MS - 1) is None
    assert cost(prices, NOON_MS)[1] == "own price: house-* from 2026-11-24T12:00:00Z"  # type: ignore[index]


def test_a_tenants_discount_on_the_list_and_on_own_prices() -> None:
    listed = cost([], model="gpt-4o", provider="openai")
    assert listed is not None
    assert listed[1] == source()
    discount = {"model": "*", "tenant": "acme", "times": 0.85}
    found = cost([discount], model="gpt-4o", provider="openai", tenant="acme")
    assert found == (listed[0] * 85 // 100, f"{source()}, times 0.85 by own price: * of its tenant")
    assert cost([discount], model="gpt-4o", provider="openai", tenant="globex") == listed
    assert cost([discount, HOUSE], tenant="acme") == (
        3_740_000_000,
        "own price: house-*, times 0.85 by own price: * of its tenant",
    )
    assert cost([discount], tenant="acme") is None, "a discount on nothing"


@pytest.mark.parametrize(
    "best",
    [
        [{"tenant": "acme"}, {"provider": "p", "model": "house-7", "from": NOON}],
        [{"provider": "p"}, {"model": "house-7", "from": NOON}],
        [{"model": "house-7"}, {"from": NOON}],
        [{"from": NOON}, {}],
        [{"tenant": "acme", "from": NOON}, {"tenant": "acme"}],
    ],
)
def test_the_one_that_says_more_holds(best: list[dict[str, Any]]) -> None:
    winner, loser = ({**HOUSE, **one, "input": place, "output": 0} for place, one in enumerate(best, 1))
    for prices in ([winner, loser], [loser, winner]):
        found = cost(prices, tenant="acme", provider="p")
        assert found is not None
        assert found[0] == 1_000_000_000


def test_the_price_of_those_without_a_tenant() -> None:
    prices = [HOUSE | {"tenant": ""}]
    assert cost(prices) is not None
    assert cost(prices, tenant="acme") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "a JSON list"),
        ("[", "a JSON list"),
        (json.dumps([HOUSE] * (PRICES + 1)), "at most"),
        (json.dumps([HOUSE, HOUSE]), "entry 2: another entry"),
        ('[{"input": 1, "output": 2}]', 'entry 1: {"model"'),
        ('[{"model": "a"}]', "is expected"),
        ('[{"model": "a", "input": 1}]', "is expected"),
        ('[{"model": "a", "input": 1, "output": 1, "times": 2}]', "is expected"),
        ('[{"model": "a", "inputs": 1, "output": 1}]', "is expected"),
        ('[{"model": 5, "times": 1}]', "'model' is a string"),
        ('[{"model": "a", "times": -1}]', "'times' is a number"),
        ('[{"model": "a", "times": "1"}]', "'times' is a number"),
        ('[{"model": "a", "times": true}]', "'times' is a number"),
        ('[{"model": "a", "times": NaN}]', "'times' is a number"),
        ('[{"model": "a", "times": 1, "from": "noon"}]', "'from' is a time"),
    ],
)
def test_what_is_no_price(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("{", r"\{").replace("*", r"\*")):
        parse(text)


def test_who_sets_none_has_none() -> None:
    assert parse("[]").all == ()
    assert NONE.of("gpt-4o", None, None, None, 0) == (None, [])
    assert Price("a", None, None, None, 0, {}, None).rates == {}


def test_a_tier_has_a_price_or_a_factor() -> None:
    tiers = [HOUSE, HOUSE | {"tier": "flex", "input": 0.5, "output": 1}, {"model": "*", "tier": "batch", "times": 0.5}]
    assert cost(tiers, service_tier="flex") == (1_500_000_000, "own price: house-* in tier flex")
    assert cost(tiers, service_tier="batch") == (
        2_200_000_000,
        "own price: house-*, times 0.5 by own price: * in tier batch",
    )
    assert cost(tiers) == (4_400_000_000, "own price: house-*")
    assert cost(tiers, service_tier="priority") is None
    discount = {"model": "*", "tenant": "acme", "times": 0.5}
    found = cost([*tiers, discount], service_tier="batch", tenant="acme")
    assert found is not None
    assert found[0] == 1_100_000_000, "of the tier, and of the tenant"


def test_each_part_of_a_count_has_its_rate() -> None:
    rates = {
        "cache_write": 2,
        "cache_write_1h": 4,
        "cache_read": 0.1,
        "input_audio": 5,
        "thinking": 9,
        "web_search": 0.01,
    }
    counts = {"input_tokens": 1_000, "output_tokens": 100, "cache_read_tokens": 200, "cache_write_tokens": 300}
    parts = {"cache_write_1h_tokens": 50, "input_audio_tokens": 400, "thinking_tokens": 60, "web_searches": 2}
    found = cost([HOUSE | rates], **counts, **parts)
    assert found is not None
    bill = nano((100, "1.1"), (200, "0.1"), (250, "2"), (50, "4"), (400, "5"), (40, "3.3"), (60, "9"))
    assert found[0] == bill + 20_000_000
    assert cost([HOUSE], web_searches=1) is None

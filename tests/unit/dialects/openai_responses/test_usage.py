"""The Responses API: tiers, caches and searches, and what they are billed. Names of fields: openai 3.57."""

import json
from typing import Any

import pytest

from pipeline.policies.prices import parse
from pipeline.stores.costs.prices import UNPRICED
from pipeline.stores.costs.rows import usage_rows
from tests.support.assembled import START, Assembled, assembled
from tests.support.bills import bill, billed

Fields = dict[str, Any]
USAGE: Fields = {"input_tokens": 100_000, "output_tokens": 10_000, "total_tokens": 110_000}
TEXT: Fields = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
SEARCH: Fields = {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}}
LATER: int = START + 300 * 86_400_000  # November 2026


def answered(*output: Fields, streamed: bool = False, **response: Any) -> Assembled:
    """A run of one call, whose items come in its last event, or before it."""
    items = [{"id": f"item_{number}", **item} for number, item in enumerate((*output, TEXT))]
    done = [{"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(items)]
    last = {"id": "resp_1", "object": "response", "model": "gpt-5.4", "usage": USAGE, **response}
    end = {"type": "response.completed", "response": {**last, "output": [] if streamed else items}}
    return assembled("openai-responses", [*(done if streamed else ()), end], ts=LATER)


@pytest.mark.parametrize(("tier", "known"), [("flex", "flex"), ("priority", "priority"), ("default", ""), (None, "")])
def test_the_tier_of_a_response(tier: str | None, known: str) -> None:
    (row,) = bill(answered(service_tier=tier))
    assert row["service_tier"] == known
    # 100,000 × $2.50 + 10,000 × $15 per million; the prices of other tiers are the operator's
    assert row["cost_nano_usd"] == (None if known else 400_000_000)


@pytest.mark.parametrize("streamed", [False, True])
def test_searches_are_counted_but_not_pages_that_are_read(*, streamed: bool) -> None:
    read = [{**SEARCH, "action": {"type": kind, "url": "https://x.y"}} for kind in ("open_page", "find_in_page")]
    old = {"type": "web_search_call", "status": "completed"}
    files = {"type": "file_search_call", "status": "completed", "queries": ["a", "b"]}
    got = answered(SEARCH, *read, SEARCH, old, files, streamed=streamed)
    assert billed(got, "web_searches", "storage_searches") == (3, 1)
    # $10 for a thousand searches of the web, $2.50 for a thousand of files
    assert billed(got, "cost_nano_usd") == (400_000_000 + 3 * 10_000_000 + 2_500_000,)


def test_openais_own_count_of_searches_is_used() -> None:
    got = answered(SEARCH, SEARCH, tool_usage={"web_search": {"num_requests": 1}})
    assert billed(got, "web_searches") == (1,)
    assert billed(answered(tool_usage={"web_search": {"num_requests": 0}}), "web_searches") == (None,)


def test_caches_are_part_of_the_input() -> None:
    details = {"cached_tokens": 60_000, "cache_write_tokens": 30_000}
    short = {"cache_write_tokens_details": {"ttl_30m_tokens": 30_000, "ttl_12h_tokens": 0}}
    got = answered(model="gpt-5.6-sol", usage=USAGE | {"input_tokens_details": details | short})
    assert billed(got, "input_tokens", "cache_read_tokens", "cache_write_tokens") == (100_000, 60_000, 30_000)
    (row,) = bill(got)
    assert (row["service_tier"], row["cost_kind"]) == ("", 1)


def test_a_cache_of_twelve_hours_has_no_price_but_the_operators() -> None:
    written = {"ttl_30m_tokens": 10_000, "ttl_12h_tokens": 20_000}
    details = {"cached_tokens": 0, "cache_write_tokens": 30_000, "cache_write_tokens_details": written}
    got = answered(model="gpt-6-sol", usage=USAGE | {"input_tokens_details": details})
    (row,) = bill(got)
    assert (row["cost_nano_usd"], row["price_source"]) == (None, f"{UNPRICED}none for service tier 12h cache")
    price = {"input": 2, "output": 10, "cache_write": 2.5, "cache_write_1h": 5}
    (record,) = [record for record in got.records if record["turn"]["turn_type"] == "agent"]
    own = json.dumps([{"model": "gpt-6-*", "tier": "12h cache", **price}])
    (row,) = usage_rows(record, parse(own))
    assert row["cost_nano_usd"] == 140_000_000 + 25_000_000 + 100_000_000 + 100_000_000

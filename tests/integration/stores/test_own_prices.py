"""A bill by hand, with own prices, a change of prices at noon, an interrupted run and a tenant's discount."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from pipeline.policies.prices import parse
from pipeline.stores.sql import ThreadStore
from pipeline.stores.usage_report import UsageQuery
from tests.support.turn_records import make_record

NOON = "2026-01-20T12:00:00Z"  # records begin at 10 o'clock
PRICES = [
    {"model": "house-1", "input": 1.1, "output": 3.3, "cache_read": 0.11},
    {"model": "house-1", "input": 0.9, "output": 3.3, "from": NOON},
    {"model": "*", "tenant": "acme", "times": 0.85},
]


def response(chat: str, seconds: int, usage: dict[str, int | float], **more: Any) -> Any:
    made = make_record(chat, f"r{seconds}", seconds=seconds, model="house-1", **more)
    made["turn"]["messages"][0]["usage"] = usage
    return made


def dollars(*parts: tuple[int, str]) -> Fraction:
    return sum((Fraction(tokens) * Fraction(price) / 1_000_000 for tokens, price in parts), Fraction(0))


async def test_the_bill_of_a_day(store_url: str) -> None:
    records = [
        response("plain", 60, {"input_tokens": 1_234, "output_tokens": 567, "cache_read_tokens": 1_000}),
        response("plain", 7_199, {"input_tokens": 10, "output_tokens": 1}),
        response("plain", 7_200, {"input_tokens": 10, "output_tokens": 1}),
        response("acme-chat", 7_201, {"input_tokens": 1_000_000, "output_tokens": 3}, tenant="acme"),
        response("cut-off", 8_000, {"input_tokens": 77, "output_tokens": 5}, status="interrupted"),
        response("told", 9_000, {"input_tokens": 77, "output_tokens": 5, "cost": 0.5}),
    ]
    plain = dollars((234, "1.1"), (1_000, "0.11"), (567, "3.3"), (10, "1.1"), (1, "3.3"), (10, "0.9"), (1, "3.3"))
    acme = dollars((1_000_000, "0.9"), (3, "3.3")) * Fraction("0.85")
    cut_off = dollars((77, "0.9"), (5, "3.3"))
    async with await ThreadStore.open(store_url, migrate=True, prices=parse(json.dumps(PRICES))) as store:
        await store.write(records)
        report = await store.usage(UsageQuery(group_by=("tenant",)))
        by_tenant = {row.group["tenant"]: row.figures.cost_nano_usd for row in report.rows}
        assert by_tenant == {None: round((plain + cut_off + Fraction("0.5")) * 10**9), "acme": round(acme * 10**9)}
        assert report.total.unpriced == 0

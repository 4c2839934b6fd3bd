"""A bill by hand, with own prices, a change of prices at noon, an interrupted run and a tenant's discount."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from pipeline.policies.prices import parse
from pipeline.stores.sql import ThreadStore
from pipeline.stores.usage_report import UsageQuery
from tests.support.turn_records import make_record
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

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


def broke_off(chat: str, seconds: int, **more: Any) -> Any:
    """A turn whose first response has its usage, 0.25 US dollars, and whose second one broke off before it came."""
    made = response(
        chat, seconds, {"input_tokens": 100, "output_tokens": 50, "cost": 0.25}, status="interrupted", **more
    )
    [first] = made["turn"]["messages"]
    told = {
        "message_type": "request",
        "timestamp": first["timestamp"],
        "parts": [{"part_kind": "tool-return", "content": "12345678"}],
    }
    made["turn"]["messages"].append(told)
    shown = {**first, "parts": [{"part_kind": "text", "content": "ten chars."}]}
    del shown["usage"]
    made["turn"]["meta:partial"] = {"messages": [shown]}
    return made


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
        await store.write([broke_off("guessed", 8_100), broke_off("guessed-too", 60, tenant="acme")])
        report = await store.usage(UsageQuery(group_by=("tenant",)))
        by_tenant = {row.group["tenant"]: row.figures.cost_nano_usd for row in report.rows}
        assert by_tenant == {
            None: round((plain + cut_off + Fraction("0.75")) * 10**9),
            "acme": round((acme + Fraction("0.25")) * 10**9),
        }
        assert report.total.unpriced == 0
        # 8 characters of a tool's answer behind 100 + 50 tokens are 152 to read; 10 characters of an answer are 3.
        guessed = {row.group["tenant"]: row.figures.estimated_nano_usd for row in report.rows}
        after, before = dollars((152, "0.9"), (3, "3.3")), dollars((152, "1.1"), (3, "3.3")) * Fraction("0.85")
        assert guessed == {None: round(after * 10**9), "acme": round(before * 10**9)}
        assert report.total.estimated_tokens == 2 * 155
        assert report.document()["total"]["estimated_cost_usd"] == sum(guessed.values()) / 10**9
        while await store.sum_up():
            pass
        summed = await store.usage(UsageQuery(group_by=("tenant",)))
        assert summed.rows == report.rows
        [turn] = (await store.turn_usage(ThreadKey.of(thread_uuid("guessed")[0], None))).values()
        assert turn.estimated_cost_usd == guessed[None] / 10**9
        assert f"estimate by own price: house-1 from {NOON}" in turn.prices

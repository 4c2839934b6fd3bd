"""A bill by hand, with own prices, a change of prices at noon, an interrupted run and a tenant's discount."""

import asyncio
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.policies.prices import parse
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.rows import reprice, turn_usage
from pipeline.stores.usage.summing import sum_up
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


async def test_costs_are_computed_anew_on_purpose(store_url: str) -> None:
    records = [
        response("a", 60, {"input_tokens": 1_000, "output_tokens": 10}),
        response("a", 7_300, {"input_tokens": 1_000, "output_tokens": 10}),
        response("told", 7_400, {"input_tokens": 77, "output_tokens": 5, "cost": 0.5}),
        broke_off("guessed", 8_100),
    ]
    async with await ThreadStore.open(store_url, migrate=True) as store:
        await write_turns(store, records)
        assert (await usage_report(store, UsageQuery())).total.cost_nano_usd == 750_000_000, (
            "nobody knows the house's prices"
        )
    noon = 1_768_910_400_000
    async with await ThreadStore.open(store_url, prices=parse(json.dumps(PRICES))) as store:
        seen = [one async for one in reprice(store, noon, noon + 86_400_000, dry_run=True)]
        assert (await usage_report(store, UsageQuery())).total.cost_nano_usd == 750_000_000, "so far only looked at"
        done = [one async for one in reprice(store, noon, noon + 86_400_000, dry_run=False)]
        assert sorted(done, key=str) == sorted(seen, key=str)
        source = f"own price: house-1 from {NOON}"
        after, guessed = dollars((1_000, "0.9"), (10, "3.3")) * 10**9, dollars((152, "0.9"), (3, "3.3")) * 10**9
        assert sorted(done, key=lambda one: one.after or 0) == [
            ("house-1", None, None, round(guessed), f"estimate by {source}"),
            ("house-1", None, "no price: the model is not in the price list", round(after), source),
        ]
        total = (await usage_report(store, UsageQuery())).total
        computed = dollars((77, "0.9"), (5, "3.3")) + dollars((100, "0.9"), (50, "3.3"))  # of the two that were told
        assert (total.differing, total.differing_nano_usd) == (2, 750_000_000)
        assert total.computed_nano_usd == round(computed * 10**9)
        for _ in range(2):  # from rows and changes, then from sums
            total = (await usage_report(store, UsageQuery())).total
            assert (total.cost_nano_usd, total.estimated_nano_usd) == (750_000_000 + round(after), round(guessed))
            while await sum_up(store):
                pass
        assert [one async for one in reprice(store, noon, noon + 86_400_000, dry_run=False)] == []
        [line] = (await list_threads(store, wanted=ListQuery(search="a", min_cost=0.0009))).threads[-1:]
        assert line.cost_usd == round(after) / 10**9
        assert len([one async for one in reprice(store, 0, noon, dry_run=False)]) == 1


def test_the_command_shows_what_changes(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNMILL_STORE", store_url)
    monkeypatch.setenv("TURNMILL_HOME", str(tmp_path))

    async def fill() -> None:
        async with await ThreadStore.open(store_url, migrate=True) as store:
            await write_turns(store, [response("a", 60, {"input_tokens": 1_000, "output_tokens": 10})])

    asyncio.run(fill())
    monkeypatch.setenv("TURNMILL_PRICES", json.dumps(PRICES))
    given = ["usage", "recompute", "--since", "2026-01-01", "--until", "2026-02-01"]
    unpriced = "no price: the model is not in the price list"
    for more, done in ((["--dry-run"], "would change"), ([], "changed")):
        said = CliRunner().invoke(cli, [*given, *more], standalone_mode=False)
        assert said.exception is None
        assert said.stdout.splitlines() == [
            f"house-1: 1 response, – by {unpriced} -> $0.001133000 by own price: house-1",
            f"1 response {done}: – -> $0.001133000",
        ]
    assert "usage.recompute" in CliRunner().invoke(cli, ["audit"], standalone_mode=False).stdout


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
        await write_turns(store, records)
        await write_turns(store, [broke_off("guessed", 8_100), broke_off("guessed-too", 60, tenant="acme")])
        report = await usage_report(store, UsageQuery(group_by=("tenant",)))
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
        while await sum_up(store):
            pass
        summed = await usage_report(store, UsageQuery(group_by=("tenant",)))
        assert summed.rows == report.rows
        [turn] = (await turn_usage(store, ThreadKey.of(thread_uuid("guessed")[0], None)))[0].values()
        assert turn.estimated_cost_usd == guessed[None] / 10**9
        assert f"estimate by own price: house-1 from {NOON}" in turn.prices

"""A month's bill by hand: what each call costs, to a billionth of a dollar, and what reports, sums and commands say.

Nothing here asks the pipeline for a price.
"""

import asyncio
import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.policies.prices import parse
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import SUMMED, UsageQuery
from pipeline.stores.usage.rows import Repriced, reprice, turn_usage
from pipeline.stores.usage.summing import compare_sums, sum_up
from pipeline.stores.usage.time_buckets import zone
from tests.support.month import at, forks, month, sent, turns_of
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

NANO = 10**9
BERLIN = "Europe/Berlin"
YEAR = (at("01-01T00:00"), at("12-31T00:00"))
OCTOBER = (at("09-30T22:00"), at("10-31T23:00"))  # in Berlin
UNLISTED = "the model is not in the price list"

# US dollars for a million tokens, or for a search or request, as genai-prices 0.2.3 lists the prices of the providers
# (anthropic.com/pricing, platform.openai.com/docs/pricing, ai.google.dev/pricing and their kin) for October 2026.
RATES: dict[str, dict[str, str]] = {
    "claude-sonnet-4-5": {"fresh": "3", "read": "0.30", "minutes": "3.75", "hour": "6", "out": "15", "search": "0.01"},
    "claude-sonnet-4-5 above 200,000": {"fresh": "6", "read": "0.60", "out": "22.50"},
    "claude-opus-4-8": {"fresh": "5", "out": "25"},
    "claude-haiku-4-5": {"fresh": "1", "out": "5"},
    "gpt-5.4": {"fresh": "2.50", "read": "0.25", "out": "15", "thought": "15"},
    "gpt-5.4-mini": {"fresh": "0.75", "read": "0.075", "out": "4.50", "search": "0.01", "file": "0.0025"},
    "gpt-audio": {"fresh": "2.50", "audio": "32", "out": "10", "spoken": "64"},
    "gemini-2.5-flash": {"fresh": "0.30", "audio": "1", "out": "2.50", "thought": "2.50"},
    "gemini-2.5-pro above 200,000": {"fresh": "2.50", "read": "0.25", "out": "15", "search": "0.035"},
    "gemini-3-pro-preview": {"fresh": "2", "out": "12", "search": "0.014"},
    "anthropic/claude-sonnet-4.5": {"fresh": "3", "out": "15"},  # at OpenRouter
    "sonar-pro": {"fresh": "3", "out": "15", "request": "0.014"},
    "deepseek-chat": {"fresh": "0.27", "read": "0.07", "out": "1.10"},
    "deepseek-chat by night": {"fresh": "0.135", "read": "0.035", "out": "0.55"},  # from 16:30 to 00:30 in UTC
    "kimi-k2.5": {"fresh": "0.60", "out": "3", "thought": "3"},  # at Moonshot, its maker
    # own prices
    "claude-opus-4-8 fast": {"fresh": "30", "hour": "30", "out": "150"},  # with no rates of caches: those of the input
    "gpt-6-sol 12h cache": {"fresh": "2", "minutes": "2.5", "hour": "5", "out": "10"},
    "house-large": {"fresh": "1.1", "read": "0.11", "out": "3.3"},
    "house-large batch": {"fresh": "0.5", "out": "1.5"},
    "house-large from 16 October": {"fresh": "0.9", "out": "3"},
    "mystery-9b from 16 October": {"fresh": "0.2", "out": "0.4"},
}
PRICES: list[dict[str, Any]] = [
    {"model": "house-*", "input": 1.1, "output": 3.3, "cache_read": 0.11},
    {"model": "house-*", "tier": "batch", "input": 0.5, "output": 1.5},
    {"model": "gpt-5.4", "tier": "flex", "times": 0.5},
    {"model": "gpt-5.4", "tier": "priority", "times": 2},
    {"model": "claude-*", "tier": "batch", "times": 0.5},
    {"model": "claude-opus-4-8", "tier": "fast", "input": 30, "output": 150},
    {"model": "gpt-6-sol", "tier": "12h cache", "input": 2, "output": 10, "cache_write": 2.5, "cache_write_1h": 5},
    {"model": "*", "tenant": "acme", "times": 0.85},
]
FROM = "2026-10-16T00:00:00Z"
CHANGED = [
    *PRICES,
    {"model": "house-*", "from": FROM, "input": 0.9, "output": 3},
    {"model": "mystery-9b", "from": FROM, "input": 0.2, "output": 0.4},
    {"model": "gpt-5.4", "tier": "priority", "from": FROM, "times": 2.5},
    {"model": "*", "tenant": "acme", "from": FROM, "times": 0.8},
]
# A part of what a call uses, which has a rate -> the counts of reports that it is in.
PARTS: dict[str, tuple[str, ...]] = {
    "fresh": ("input_tokens",),
    "read": ("input_tokens", "cache_read_tokens"),
    "minutes": ("input_tokens", "cache_write_tokens"),
    "hour": ("input_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
    "audio": ("input_tokens", "input_audio_tokens"),
    "out": ("output_tokens",),
    "thought": ("output_tokens", "thinking_tokens"),
    "spoken": ("output_tokens", "output_audio_tokens"),
    "search": ("web_searches",),
    "file": ("storage_searches",),
    "request": (),
}
EACH = ("search", "file", "request")  # all other parts are tokens


def usd(rates: str, times: str = "1", **parts: int) -> Decimal:
    """-> dollars of these parts at the rates of that name."""
    of = RATES[rates]
    dollars = (Decimal(of[part]) * count / (1 if part in EACH else 1_000_000) for part, count in parts.items())
    return sum(dollars, Decimal(0)) * Decimal(times)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the bill; `figures`: what it adds to each figure of a report; `reason`: why it has no price."""

    run: str
    when: str
    names: dict[str, str | None]
    figures: dict[str, int]
    reason: str


def call(
    run: str,
    when: str,
    of: str = "",
    *,
    rates: str | None = None,
    times: str = "1",
    told: str | None = None,
    computed: Decimal | None = None,
    why: str | None = None,
    assumed: bool = False,
    tenant: str | None = None,
    tier: str = "",
    purpose: str = "",
    origin: str = "",
    requests: int = 1,
    turns: int = 1,
    interrupted: int = 0,
    errors: int = 0,
    guessed: tuple[int, Decimal] = (0, Decimal(0)),
    **parts: int,
) -> Line:
    """Return the line of a call.

    `of`: provider, if one was named, and model. `told`: dollars; `computed`: by prices, where that differs by more than
    1 %. `why`: it has no price. `assumed`: its cost is an estimate. `guessed`: tokens and dollars of what broke off.
    """
    provider, _, model = of.rpartition(" ")
    figures = dict.fromkeys(SUMMED, 0) | {"requests": requests, "turns": turns}
    figures |= {"interrupted": interrupted, "errors": errors}
    for part, count in parts.items():
        for name in PARTS[part]:
            figures[name] += count
    figures["total_tokens"] = figures["input_tokens"] + figures["output_tokens"]
    priced = why is None and bool(parts)
    dollars = Decimal(told) if told else usd(rates or model, times, **parts) if priced else Decimal(0)
    figures["cost_nano_usd"] = nano = round(dollars * NANO)
    figures |= {"told_nano_usd": nano if told else 0, "assumed_nano_usd": nano if assumed else 0}
    if computed is not None:
        figures |= {"differing": 1, "differing_nano_usd": nano, "computed_nano_usd": round(computed * NANO)}
    figures |= {"estimated_tokens": guessed[0], "estimated_nano_usd": round(guessed[1] * NANO)}
    figures["unpriced"] = int(why is not None)
    names = {"model": model or None, "provider": provider or None, "tenant": tenant}
    return Line(run, when, {**names, "service_tier": tier, "purpose": purpose, "origin": origin}, figures, why or "")


SONNET, OPUS, HAIKU = "claude-sonnet-4-5", "claude-opus-4-8", "claude-haiku-4-5"
GPT, MINI, HOUSE = "openai gpt-5.4", "openai gpt-5.4-mini", "house house-large"
DEEPSEEK, BY_NIGHT = "deepseek deepseek-chat", "deepseek-chat by night"
NO_TIER = "none for service tier priority"
BATCH: dict[str, Any] = {"rates": "house-large batch", "tier": "batch"}
THOUGHT: dict[str, Any] = {"fresh": 60_000, "read": 40_000, "out": 6_000, "thought": 4_000}
KEPT: dict[str, Any] = {"fresh": 70_000, "minutes": 10_000, "hour": 20_000, "out": 10_000}
LONG: dict[str, Any] = {"fresh": 150_000, "read": 100_000, "out": 1_000, "search": 1}
SMALL: dict[str, Any] = {"fresh": 700, "out": 100}


def bill(*, changed: bool = False) -> list[Line]:
    """Return the bill of `tests.support.month.month`, with PRICES or, for what came later, with CHANGED."""
    later = "house-large from 16 October" if changed else "house-large"
    less = "0.8" if changed else "0.85"
    by_hour: dict[str, Any] = {"fresh": 1_000, "read": 50_000, "minutes": 20_000, "hour": 80_000, "out": 500}
    through = "openrouter anthropic/claude-sonnet-4.5"
    fee = usd("anthropic/claude-sonnet-4.5", fresh=4_500, out=1_000)
    sonar = usd("sonar-pro", fresh=1_000, out=500, request=1)
    mystery: dict[str, Any] = {"rates": "mystery-9b from 16 October"} if changed else {"why": UNLISTED}
    # 8 characters of a tool's result behind 1,000 + 50 tokens are 1,052 to read; 10 characters of an answer are 3.
    guessed = 1_055, usd(later, fresh=1_052, out=3)
    return [
        call("september", "09-30T21:59:59", SONNET, **by_hour),
        call("first", "09-30T22:00", SONNET, fresh=10_000, out=1_000, search=2, times="0.85", tenant="acme"),
        call("caches", "10-01T09:00", SONNET, **by_hour),
        call("large", "10-02T09:00", SONNET, rates=f"{SONNET} above 200,000", fresh=150_000, read=60_000, out=2_000),
        call("batch", "10-03T09:00", SONNET, fresh=100_000, out=10_000, times="0.5", tier="batch", tenant="globex"),
        call("fast", "10-04T09:00", OPUS, rates=f"{OPUS} fast", fresh=10_000, hour=5_000, out=1_000, tier="fast"),
        call("hurried", "10-04T10:00", HAIKU, fresh=7_000, out=70, tier="priority", why=NO_TIER),
        call("compacted", "10-05T09:00", OPUS, fresh=23_000, out=1_000),
        call("compacted", "10-05T09:00", OPUS, fresh=180_000, out=3_500, purpose="compaction", turns=0),
        call("flex", "10-06T09:00", GPT, fresh=100_000, out=10_000, times="0.425", tier="flex", tenant="acme"),
        call("prior", "10-06T10:00", GPT, **THOUGHT, times="2", tier="priority"),
        call("searching", "10-07T09:00", MINI, fresh=20_000, out=1_000, search=2, file=1),
        call("kept", "10-08T09:00", "openai gpt-6-sol", **KEPT, rates="gpt-6-sol 12h cache", tier="12h cache"),
        call("spoken", "10-09T09:00", "google gemini-2.5-flash", fresh=200, audio=10_000, out=20, thought=30),
        call("long", "10-09T10:00", "google gemini-2.5-pro", **LONG, rates="gemini-2.5-pro above 200,000"),
        call("grounded", "10-09T11:00", "google gemini-3-pro-preview", fresh=3_000, out=500, search=2),
        call("fee", "10-10T09:00", through, fresh=4_500, out=1_000, told="0.029925", computed=fee),
        call("free", "10-10T10:00", through, fresh=4_500, out=1_000, told="0.0285"),
        call("dear", "10-11T09:00", "perplexity sonar-pro", fresh=1_000, out=500, told="0.02", computed=sonar),
        call("told", "10-11T10:00", "deepinfra oven-9b", fresh=1_000, out=100, told="0.0012", tenant="acme"),
        call("ticks", "10-11T11:00", "x-ai grok-4", fresh=1_000, out=52, told="0.00378"),  # as by prices
        call("by day", "10-12T12:00", DEEPSEEK, fresh=6_000, read=4_000, out=1_000),
        call("by night", "10-12T20:00", DEEPSEEK, rates=BY_NIGHT, fresh=6_000, read=4_000, out=1_000),
        # the thoughts are in the total alone
        call("hosted", "10-13T09:00", "vllm-berlin kimi-k2.5", fresh=20, out=198, thought=405, tenant="globex"),
        call("unknown", "10-13T10:00", "vllm-berlin mystery-9b", fresh=5_000, out=100, why=UNLISTED),
        call("voices", "10-14T09:00", "openai gpt-audio", fresh=100, audio=900, out=100, spoken=600),
        call("house", "10-14T10:00", HOUSE, fresh=4_000, read=6_000, out=1_000),
        call("house batch", "10-15T23:59:59", HOUSE, **BATCH, fresh=10_001, out=1_003, times="0.85", tenant="acme"),
        call("house later", "10-16T00:00", HOUSE, rates=later, fresh=10_000, out=1_000),
        call("unknown later", "10-17T10:00", "vllm-berlin mystery-9b", fresh=5_000, out=100, **mystery),
        call("cut off", "10-18T09:00", HOUSE, rates=later, fresh=1_000, out=50, interrupted=1),
        call("cut off", "10-18T09:00", HOUSE, requests=0, turns=0, guessed=guessed),
        call("failed", "10-18T10:00", HAIKU, fresh=30_000, out=1, requests=0, interrupted=1, errors=1),
        call("retried", "10-18T11:00", HAIKU, fresh=30_000, out=100),
        call("retried", "10-18T11:00", HAIKU, fresh=30_000, out=1, purpose="retry", turns=0),
        # five calls, of which none is known to be above 272,000
        call("summed", "10-19T09:00", GPT, fresh=300_000, out=1_000, requests=5, assumed=True),
        call("two models", "10-19T10:00", turns=0),
        call("two models", "10-19T10:00", GPT, fresh=100_000),
        call("two models", "10-19T10:00", MINI, fresh=1_000_000, requests=0, turns=0),
        # told as sums since the program began: 0.4917, then 0.5193, with 0.0012 for the small model
        call(
            "prompts", "10-20T09:00", f"anthropic {SONNET}", fresh=1_000, hour=80_000, out=500, told="0.4905", turns=0
        ),
        call("prompts", "10-20T09:00", f"anthropic {SONNET}", fresh=100, read=81_000, out=200, told="0.0276"),
        call("prompts", "10-20T09:00", f"anthropic {HAIKU}", **SMALL, told="0.0012", purpose="background", turns=0),
        call("summary", "10-21T09:00", f"anthropic {SONNET}", fresh=2_000, out=300),
        call("summary", "10-21T09:00", f"anthropic {HAIKU}", fresh=40_000, out=800, purpose="summary", turns=0),
        call("steps", "10-22T09:00", MINI, fresh=2_000, read=6_000, out=40, turns=0),
        call("steps", "10-22T09:00", MINI, fresh=8_100, out=60, told="0.0063"),  # 0.7 % from 0.006345
        call("house acme", "10-23T09:00", HOUSE, rates=later, fresh=7_001, out=13, times=less, tenant="acme"),
        call("summer", "10-25T00:30", HAIKU, fresh=1_000, out=10),
        call("winter", "10-25T01:30", HAIKU, fresh=2_000, out=20),
        call("midnight", "10-31T22:59:30", HAIKU, fresh=4_000, out=100, turns=0),
        call("midnight", "10-31T23:00:30", HAIKU, fresh=5_000, out=200),
        call("november", "10-31T23:00", HAIKU, fresh=3_000, out=30),
    ]


def bill_of_forks() -> list[Line]:
    """Return the bill of `tests.support.month.forks`: each answer once, though two files have copies."""
    answer: dict[str, Any] = {"fresh": 3, "read": 100, "out": 20}
    imported = [call("oven", "10-29T10:00:02", f"anthropic {SONNET}", **answer, origin="import") for _ in range(3)]
    return [call("another thread", "10-28T09:00", HAIKU, fresh=600, out=20), *imported]


def repriced() -> list[Repriced]:
    """Return what changes with CHANGED: what came from FROM on."""
    old, new, model = "own price: house-*", f"own price: house-* from {FROM}", "house-large"
    tenant = "by own price: * of its tenant"
    cheaper = f"{old}, times 0.85 {tenant}", f"{new}, times 0.8 {tenant} from {FROM}"
    return [
        Repriced(model, 14_300_000, old, 12_000_000, new),  # 10,000 × 1.1 + 1,000 × 3.3; 10,000 × 0.9 + 1,000 × 3
        Repriced(model, 1_265_000, old, 1_050_000, new),  # 1,000 and 50
        Repriced(model, 1_167_100, f"estimate by {old}", 955_800, f"estimate by {new}"),  # 1,052 and 3
        Repriced(model, 6_582_400, cheaper[0], 5_071_920, cheaper[1]),  # 7,001 and 13, × 0.85; × 0.8
        Repriced("mystery-9b", None, f"no price: {UNLISTED}", 1_040_000, f"own price: mystery-9b from {FROM}"),
    ]


# ---- reports, and what they should be

GROUPED = ("model", "provider", "tenant", "service_tier", "purpose", "origin")
BUCKETS = {"hour": "%Y-%m-%dT%H:00:00%z", "day": "%Y-%m-%d", "month": "%Y-%m"}
Figures = dict[str, int]


def local(milliseconds: int, form: str) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, ZoneInfo(BERLIN)).strftime(form)


def added(lines: Iterable[Line]) -> Figures:
    figures = [line.figures for line in lines]
    return {name: sum(one[name] for one in figures) for name in SUMMED}


def by(lines: Iterable[Line], groups: Sequence[str], bucket: str | None = None) -> dict[Any, Figures]:
    """Return the sums of each group, and of each time in Berlin."""
    parts: dict[Any, list[Line]] = {}
    for line in lines:
        start = None if bucket is None else local(at(line.when), BUCKETS[bucket])
        parts.setdefault((start, *(line.names[name] for name in groups)), []).append(line)
    return {key: added(some) for key, some in parts.items()}


ASKED: list[tuple[tuple[str, ...], str | None]] = [
    *(((name,), None) for name in GROUPED),
    (("model", "service_tier", "purpose"), None),
    (("tenant", "model"), "month"),
    *(((), bucket) for bucket in BUCKETS),
]


async def check_reports(store: ThreadStore, lines: list[Line]) -> None:
    """Compare reports of all that is stored, and of October in Berlin."""
    october = [line for line in lines if OCTOBER[0] <= at(line.when) < OCTOBER[1]]
    for some, (start, end) in ((lines, (None, None)), (october, OCTOBER)):
        for groups, bucket in ASKED:
            report = await usage_report(store, UsageQuery(groups, bucket, zone(BERLIN), start, end, limit=1_000))
            rows = {
                (
                    None if row.bucket is None else local(row.bucket, BUCKETS[bucket or ""]),
                    *(row.group[name] for name in groups),
                ): {name: getattr(row.figures, name) for name in SUMMED}
                for row in report.rows
            }
            assert rows == by(some, groups, bucket), (groups, bucket)
            assert {name: getattr(report.total, name) for name in SUMMED} == added(some)
            unpriced = [line for line in some if line.figures["unpriced"]]
            assert report.unpriced == {m: n for (_, m), f in by(unpriced, ("model",)).items() if (n := f["unpriced"])}
            reasons = [line.reason for line in unpriced]
            assert report.unpriced_reasons == {reason: reasons.count(reason) for reason in reasons}


async def check_threads(store: ThreadStore, lines: list[Line]) -> None:
    for run, tenant in {(line.run, line.names["tenant"]) for line in lines if not line.names["origin"]}:
        _, usage = await turn_usage(store, ThreadKey.of(thread_uuid(run, tenant)[0], tenant))
        figures = added(line for line in lines if line.run == run)
        assert round((usage.cost_usd or 0) * NANO) == figures["cost_nano_usd"], run
        assert (usage.input_tokens or 0, usage.output_tokens or 0) == (
            figures["input_tokens"],
            figures["output_tokens"],
        )


def exact(value: Any) -> int | None:
    """-> nano dollars of a figure in JSON or CSV."""
    return None if value in (None, "") else int(Decimal(str(value)) * NANO)


def check_commands(lines: list[Line]) -> None:
    """Compare what `turnmill usage` prints as JSON and CSV."""
    october = [line for line in lines if OCTOBER[0] <= at(line.when) < OCTOBER[1]]
    asked = ["usage", "--group-by", "model", "--tz", BERLIN, "--since", "2026-10-01", "--until", "2026-11-01"]

    def printed(form: str) -> str:
        said = CliRunner().invoke(cli, [*asked, form], standalone_mode=False)
        assert said.exception is None
        return said.stdout

    document = json.loads(printed("--json"), parse_float=Decimal)
    right = {model or "": figures for (_, model), figures in by(october, ("model",)).items()}
    for rows in (document["rows"], list(csv.DictReader(io.StringIO(printed("--csv"))))):
        assert {row["model"] or "" for row in rows} == right.keys()
        for row in rows:
            check_printed(row, right[row["model"] or ""])
    check_printed(document["total"], added(october))


def check_printed(row: dict[str, Any], right: Figures) -> None:
    names = {"cost_usd": "cost_nano_usd", "cost_told_usd": "told_nano_usd", "cost_estimated_usd": "assumed_nano_usd"}
    unknown = not right["cost_nano_usd"]
    assert {name: exact(row[name]) for name in names} == {
        name: None if unknown else right[figure] for name, figure in names.items()
    }
    computed = right["cost_nano_usd"] - right["told_nano_usd"] - right["assumed_nano_usd"]
    assert exact(row["cost_computed_usd"]) == (None if unknown else computed)
    assert exact(row["differing_told_usd"]) == right["differing_nano_usd"]
    assert exact(row["differing_computed_usd"]) == right["computed_nano_usd"]
    assert exact(row["estimated_cost_usd"]) == right["estimated_nano_usd"]
    for name in ("input_tokens", "cache_write_1h_tokens", "input_audio_tokens", "web_searches"):
        assert int(row[name] or 0) == right[name]


async def test_the_bill_is_the_one_by_hand(store_url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNMILL_STORE", store_url)
    monkeypatch.setenv("TURNMILL_HOME", str(tmp_path))

    async def check(store: ThreadStore, lines: list[Line]) -> None:
        await check_reports(store, lines)  # from rows and changes
        while await sum_up(store):
            pass
        await check_reports(store, lines)  # from sums of hours, days and weeks
        assert not (await compare_sums(store)).wrong
        await check_threads(store, lines)
        await asyncio.to_thread(check_commands, lines)

    first, later = sent(month()), forks()
    lines = bill()
    async with await ThreadStore.open(store_url, migrate=True, prices=parse(json.dumps(PRICES))) as store:
        await write_turns(store, turns_of(first))
        await check(store, lines)
        again = await write_turns(store, turns_of(first))  # a replay of everything
        assert (again.inserted, again.updated) == (0, 0)
        await check(store, lines)
        lines += bill_of_forks()
        await write_turns(store, turns_of([*first, *later]))
        await check(store, lines)
    async with await ThreadStore.open(store_url, prices=parse(json.dumps(CHANGED))) as store:
        seen = [one async for one in reprice(store, *YEAR, dry_run=True)]
        assert sorted(seen, key=str) == sorted(repriced(), key=str)
        await check(store, lines)
        assert [one async for one in reprice(store, *YEAR, dry_run=False)] == seen
        lines = [*bill(changed=True), *bill_of_forks()]
        await check(store, lines)
        await write_turns(store, turns_of([*first, *later]))
        await check(store, lines)

"""Usage reports: the same from SQLite and Postgres, and what plain Python makes of the same rows."""

import asyncio
import csv
import io
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.__main__ import cli
from pipeline.stores.costs.rows import ESTIMATED, TOLD
from pipeline.stores.database.schema import DERIVED
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.threads.rows import record_rows
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import BUCKETS, GROUPS, SUMMED, Figures, Percentiles, UsageQuery, UsageReport
from pipeline.stores.usage.time_buckets import edges, moment, zone
from tests.support.stored_threads import thread_keys
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid
from turnmill.labels import SINGLE

CHAT = thread_uuid("chat")[0]
COLUMNS = {"agent": "agent_id", "thread": "thread_id"}
CENTS = 10_000_000  # nano dollars


def sums(figures: Figures) -> dict[str, int]:
    return {name: getattr(figures, name) for name in SUMMED}


def nearest_rank(values: Sequence[int], percent: int) -> int | None:
    ordered = sorted(values)
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else None


def expected(rows: Sequence[dict[str, Any]]) -> Figures:
    """What plain Python makes of usage rows."""
    unpriced = sum(row["cost_nano_usd"] is None and (row["total_tokens"] or 0) > 0 for row in rows)
    summed = {name: sum(row[name] or 0 for row in rows) for name in SUMMED if name not in DERIVED}
    cost, kinds = "cost_nano_usd", {"told_nano_usd": TOLD, "assumed_nano_usd": ESTIMATED}
    summed |= {name: sum(row[cost] for row in rows if row["cost_kind"] == kind) for name, kind in kinds.items()}
    differing = [row for row in rows if row["computed_nano_usd"] is not None]
    summed |= {"differing": len(differing), "differing_nano_usd": sum(row[cost] for row in differing)}
    times = {
        name: Percentiles(
            *(nearest_rank([row[name] for row in rows if row[name] is not None], p) for p in (50, 95, 99))
        )
        for name in ("ttft_ms", "duration_ms")
    }
    return Figures(**summed, unpriced=unpriced, **times)  # type: ignore[arg-type]


def many_records(record: Any) -> list[dict[str, Any]]:
    """Turns of several models, tenants and agents, in several hours; some interrupted, some without known tokens."""
    found = []
    for n in range(160):
        timing = {"ttft_ms": None if n % 5 == 0 else n * 7 % 90, "duration_ms": n * 13 % 900}
        status = "interrupted" if n % 6 == 0 else "complete"
        turn = record(
            f"chat{n % 11}",
            f"r{n}",
            seconds=n * 97,
            tokens=n * 3,
            model=[None, "", "m1", "m2", "gpt-5", "other"][n % 6],
            agent_id=f"a{n % 4}",
            status=status,
            timings=[timing],
            **({"tenant": f"t{n % 3}"} if n % 3 else {}),
        )
        message = turn["turn"]["messages"][0]
        message["finish_reason"] = ["stop", "tool_call", None][n % 3]
        message["provider_name"] = ["openai", "provider-1", None][n % 3]
        if n % 4 == 0:
            message["usage"].pop("cost")
        message["usage"] |= {"service_tier": "flex"} if n % 7 == 0 else {"web_searches": n % 3}
        message |= {"meta:purpose": "compaction"} if n % 8 == 0 else {}
        if n % 13 == 0:
            message.pop("usage")
        if status == "interrupted":
            turn["turn"]["interruption"] = {"reason": "error" if n % 12 else "timeout"}
        if n % 18 == 0:
            turn["turn"]["messages"] = []
        labels = {"user": f"u{n % 5}", "tags": [f"tag{m}" for m in range(n % 3)]} if n % 2 else {}
        labels |= {"environment": "production", "project": f"p{n % 2}", "branch": f"b{n % 4}"} if n % 5 else {}
        turn["thread"] |= {"meta:labels": labels}
        found.append(turn)
    return found


def rows_of(records: Sequence[Any]) -> list[dict[str, Any]]:
    """The rows of usage of records, with what each report groups by; `tag` as the list of all."""
    rows = []
    for one in records:
        labels = one["thread"].get("meta:labels", {})
        named = {"thread_id": one["thread_id"], "prompt": None, **dict.fromkeys(SINGLE), **labels}
        rows += [row | named | {"tag": labels.get("tags") or [None]} for row in record_rows(one).usage]
    return rows


async def test_any_grouping_is_what_python_says_and_sums_to_the_total(store: ThreadStore, record: Any) -> None:
    records = many_records(record)
    await write_turns(store, records)
    await write_turns(store, records)  # a replay
    rows = rows_of(records)
    total = expected(rows)
    assert (total.turns, total.interrupted, total.errors) == (160, 27, 13)
    groupings = [combination for size in (1, 2) for combination in itertools.combinations(GROUPS, size)]
    groupings += list(itertools.combinations(GROUPS, 3))[::4]
    for number, names in enumerate([*groupings, GROUPS]):
        bucket = [None, "hour", "minute", "day"][number % 4]
        query = UsageQuery(tuple(names), bucket, limit=200)
        report = await usage_report(store, query)
        assert report.total == total
        starts = edges(bucket, min(r["at"] for r in rows), max(r["at"] for r in rows), query.tz) if bucket else []

        def keys(row: dict[str, Any], names: Sequence[str] = names, starts: list[int] = starts) -> Any:
            start = max((edge for edge in starts if edge <= row["at"]), default=None)
            each = (row["tag"] if name == "tag" else [row[COLUMNS.get(name, name)]] for name in names)
            return [(start, group) for group in itertools.product(*each)]

        groups: dict[Any, list[dict[str, Any]]] = {}
        for row in rows:
            for key in keys(row):
                groups.setdefault(key, []).append(row)
        assert {(row.bucket, tuple(row.group.values())): row.figures for row in report.rows} == {
            name: expected(some) for name, some in groups.items()
        }
        assert not any(row.other for row in report.rows)
        for name in SUMMED if "tag" not in names else ():
            assert sum(sums(row.figures)[name] for row in report.rows) == sums(total)[name]


async def test_the_rest_is_summed_as_other_in_each_bucket(store: ThreadStore, record: Any) -> None:
    records = many_records(record)
    await write_turns(store, records)
    rows = rows_of(records)
    tokens: dict[str, int] = {}
    for row in rows:
        tokens[row["thread_id"]] = tokens.get(row["thread_id"], 0) + (row["total_tokens"] or 0)
    top = sorted(tokens, key=lambda thread: (-tokens[thread], thread))[:3]
    report = await usage_report(store, UsageQuery(("thread",), limit=3))
    assert [row.group["thread"] for row in report.rows] == [*top, None]
    assert [row.other for row in report.rows] == [False] * 3 + [True]
    assert report.rows[3].figures == expected([row for row in rows if row["thread_id"] not in top])
    hourly = await usage_report(store, UsageQuery(("thread",), "hour", limit=3))
    for name in SUMMED:
        assert sum(sums(row.figures)[name] for row in hourly.rows) == sums(report.total)[name]
    others = [row.bucket for row in hourly.rows if row.other]
    assert len(others) == len(set(others))
    by_errors = await usage_report(store, UsageQuery(("agent",), limit=1, order="errors"))
    most = max(sums(row.figures)["errors"] for row in (await usage_report(store, UsageQuery(("agent",)))).rows)
    assert by_errors.rows[0].figures.errors == most


async def test_filters_and_times(store: ThreadStore, record: Any) -> None:
    records = many_records(record)
    await write_turns(store, records)
    rows = rows_of(records)
    start, end = moment("2026-01-20T11:00", zone("UTC"), 0), moment("2026-01-20T12:30", zone("UTC"), 0)
    report = await usage_report(
        store, UsageQuery((), start=start, end=end, where={"model": ("m1", "m2"), "tenant": ("t2", "no such")})
    )
    kept = [r for r in rows if start <= r["at"] < end and r["model"] in ("m1", "m2") and r["tenant"] == "t2"]
    assert kept
    assert report.total == expected(kept)
    hostile = UsageQuery(("model",), "month", where={"model": ("n\0ul", "\ud800", "'; DROP TABLE usage; --" * 200)})
    nothing = await usage_report(store, hostile)
    assert (nothing.rows, nothing.total.turns) == ((), 0)


async def test_a_month_begins_when_it_does_in_the_zone(store: ThreadStore, record: Any) -> None:
    """31 January, 23:30 UTC: in Berlin it is February already."""
    late = record(run="late", tokens=5)
    late["turn"]["messages"][0]["timestamp"] = "2026-01-31T23:30:00.000Z"
    early = record(run="early", tokens=7)
    early["turn"]["messages"][0]["timestamp"] = "2026-01-31T22:30:00.000Z"
    await write_turns(store, [late, early])

    async def months(tz: str) -> list[tuple[str, int]]:
        document = (await usage_report(store, UsageQuery((), "month", zone(tz)))).document()
        return [(row["bucket"], row["input_tokens"]) for row in document["rows"]]

    assert await months("UTC") == [("2026-01-01T00:00:00+00:00", 12)]
    assert await months("Europe/Berlin") == [("2026-01-01T00:00:00+01:00", 7), ("2026-02-01T00:00:00+01:00", 5)]


async def test_models_without_a_price_are_named_and_a_price_keeps_its_source(
    store: ThreadStore, record: Any, tables: Any
) -> None:
    def priced(run: str, model: str, provider: str | None, **usage: Any) -> Any:
        made = record(run=run, model=model)
        made["turn"]["messages"][0] |= {"usage": usage, "provider_name": provider}
        return made

    await write_turns(
        store,
        [
            priced("r1", "gpt-5", "openai", input_tokens=1_000_000, output_tokens=0),
            priced("r2", "house-model", None, input_tokens=10),
            priced("r3", "house-model", None, input_tokens=10),
            priced("r4", "gpt-5", "someone-elses-proxy", input_tokens=10),
            priced("r5", "house-model", None, input_tokens=10, cost=0.25),
            priced("r6", "no-tokens", None),
        ],
    )
    report = await usage_report(store, UsageQuery(("model",)))
    assert report.unpriced == {"house-model": 2}
    assert report.unpriced_reasons == {"the model is not in the price list": 2}
    figures = {row.group["model"]: row.figures for row in report.rows}
    assert (figures["gpt-5"].cost_nano_usd, figures["gpt-5"].unpriced) == (1_250_012_500, 0), "a host of one's own, too"
    assert figures["no-tokens"].cost_usd is None
    assert (figures["house-model"].cost_nano_usd, figures["house-model"].unpriced) == (25 * CENTS, 2)
    sources = {row["source"] for row in (await tables())["price_sources"]}
    assert "stream" in sources
    listed = sorted(str(source) for source in sources if str(source).startswith("genai-prices "))
    assert [source.endswith(" by name") for source in listed] == [False, True]


def test_what_can_not_be_asked_is_refused() -> None:
    refused: list[dict[str, Any]] = [
        {"group_by": ("colour",)},
        {"group_by": ("model", "model")},
        {"where": {"colour": ("red",)}},
        {"bucket": "year"},
        {"limit": 0},
        {"order": "colour"},
        {"start": 5, "end": 5},
    ]
    for options in refused:
        with pytest.raises(CallerError):
            UsageQuery(**options)


async def test_too_many_rows_are_refused(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record(run="r1"), record(run="r2", seconds=3600)])
    with pytest.raises(CallerError, match="fewer groups"):
        await usage_report(store, UsageQuery(("model",), "minute", limit=10_000))
    old = record(run="r3")
    old["turn"]["messages"][0]["timestamp"] = "1971-01-01T00:00:00.000Z"
    await write_turns(store, [old])
    with pytest.raises(CallerError, match="larger buckets"):
        await usage_report(store, UsageQuery((), "hour"))


async def test_sums_over_any_grouping_equal_the_total(store: ThreadStore, record: Any) -> None:
    """Any turns, in any revisions, asked for in any way."""
    loop = asyncio.get_running_loop()
    counts = st.integers(0, 2**40) | st.none()
    usages = st.fixed_dictionaries({}, optional=dict.fromkeys(("input_tokens", "output_tokens", "cost"), counts))

    async def asked(records: list[Any], query: UsageQuery) -> UsageReport:
        for key in [key async for key in thread_keys(store)]:
            await delete_thread(store, key)
        for one in records:
            await write_turns(store, [one])
        return await usage_report(store, query)

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.data())
    def check(data: st.DataObject) -> None:
        records = []
        for n in range(data.draw(st.integers(0, 6))):
            made = record(f"chat{n % 2}", f"r{n % 4}", seconds=data.draw(st.integers(0, 9999)), revision=n)
            one = made["turn"]["messages"][0]
            pairs = st.tuples(st.sampled_from(["m1", "m2", None]), usages)
            made["turn"]["messages"] = [
                one | {"model_name": model, "usage": used} for model, used in data.draw(st.lists(pairs, max_size=3))
            ]
            total = data.draw(usages | st.none())
            if total is not None:
                made["turn"]["total_usage"] = total
            records.append(made)
        groups = tuple(data.draw(st.lists(st.sampled_from(GROUPS), unique=True, max_size=3)))
        query = UsageQuery(groups, data.draw(st.sampled_from([None, *BUCKETS])), limit=data.draw(st.integers(1, 4)))
        report = asyncio.run_coroutine_threadsafe(asked(records, query), loop).result()
        newest = {one["turn_id"]: one for one in records}
        assert report.total == expected(rows_of(list(newest.values())))
        if groups or query.bucket:
            for name in SUMMED:
                assert sum(sums(row.figures)[name] for row in report.rows) == sums(report.total)[name]

    await asyncio.to_thread(check)


async def test_the_command_prints_a_table_json_and_csv(
    store: ThreadStore, store_url: str, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_turns(store, many_records(record))
    monkeypatch.setenv("TURNMILL_STORE", store_url)

    def run(*args: str) -> str:
        result = CliRunner().invoke(cli, ["usage", *args], standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        return result.output

    def all_three() -> tuple[str, Any, list[dict[str, str]]]:
        options = ("--group-by", "model,tenant", "--bucket", "day", "--limit", "3", "--tz", "Asia/Tokyo")
        printed = run(*options, "--csv")
        return run(*options), json.loads(run(*options, "--json")), list(csv.DictReader(io.StringIO(printed)))

    table, document, lines = await asyncio.to_thread(all_three)
    assert (await usage_report(store, UsageQuery(("model",)))).total.turns == document["total"]["turns"] == 160
    assert len(document["rows"]) == len(lines)
    assert sum(int(line["input_tokens"]) for line in lines) == document["total"]["input_tokens"]
    assert document["rows"][0]["bucket"] == lines[0]["bucket"] == "2026-01-20T00:00:00+09:00"
    assert lines[3]["model"] == "other"
    assert document["rows"][3]["other"] is True
    assert lines[0]["ttft_ms_p50"] == str(document["rows"][0]["ttft_ms"]["p50"])
    assert "other" in table
    assert f"{document['total']['total_tokens'] - document['total']['output_tokens']:,}" in table
    assert "no price is known" in table
    assert "web searches" in table
    assert "audio" not in table
    costs = [round(document["total"][f"cost_{kind}_usd"], 4) for kind in ("told", "estimated")]
    assert costs[0] > 0 == costs[1]
    assert f"${costs[0]:.4f} told" in table
    assert "none for service tier flex" in table
    assert "0.0000" not in table
    for wrong in (("--tz", "Mars/Base"), ("--since", "soon"), ("--group-by", "colour"), ("--limit", "0")):
        with pytest.raises(CallerError):
            await asyncio.to_thread(run, *wrong)

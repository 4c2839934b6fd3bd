"""The store that `turnmill bench --only history` makes, in small, and its tables."""

from dataclasses import replace

import pytest

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from pipeline.stores.usage import query as stored_query
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from pipeline.stores.usage.summing import compare_sums, keep_sums, sum_up
from pipeline.stores.usage.tallies import DAY
from tests.bench import history, report
from tests.bench.history import BY_MODEL, History
from tests.bench.results import Suite
from tests.bench.suite import HISTORY, MEASUREMENTS, Plan
from tests.bench.targets import aims
from tests.unit.bench.test_report import WHERE

TURNS = 3_000


async def test_a_month_of_turns_is_made_summed_up_and_asked_for(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "ASKED", 2)
    monkeypatch.setattr(history, "AT_ONCE", 1_000)
    told: list[str] = []
    measured = await history.measure(store_url, TURNS, told.append, rows=True)
    assert (measured.turns, measured.store) == (TURNS, told[-1].split()[3].rstrip(":"))
    assert len(measured.queries[BY_MODEL]) == 2
    assert len(measured.queries[f"{BY_MODEL}, from rows"]) == history.SLOWLY
    async with await ThreadStore.open(store_url) as store:
        counts = await count_rows(store)
        assert (counts.threads, counts.turns) == (TURNS // 5, TURNS)
        days = UsageQuery(("tenant", "agent", "model", "provider"), limit=1_000)
        exact = await usage_report(store, days)
        await keep_sums(store, wanted=True)
        while await sum_up(store):
            pass
        assert (await compare_sums(store)).wrong == ()
        summed = await usage_report(store, days)
        assert len(summed.rows) == len(exact.rows) == 100
        assert summed.total.turns == exact.total.turns == TURNS
        within = await usage_report(
            store, replace(days, group_by=(), start=history.BEGIN, end=history.BEGIN + 31 * DAY)
        )
        assert within.total.turns == TURNS


async def test_sums_of_ten_times_as_many_turns(store_url: str) -> None:
    async with await ThreadStore.open(store_url, migrate=True) as store:
        await history.fill(store, TURNS, lambda said: None)
        while await sum_up(store):
            pass
        whole, cut = UsageQuery(("model",), start=history.MONTH - history.MONTH % DAY), UsageQuery(start=history.MONTH)
        before, rows = (
            (await usage_report(store, whole)).rows,
            (await stored_query.usage_report(store, cut)).total.turns,
        )
        await history._grow(store)
        after = (await usage_report(store, whole)).rows
        assert [one.figures.total_tokens for one in after] == [10 * one.figures.total_tokens for one in before]
        assert [one.figures.duration_ms for one in after] == [one.figures.duration_ms for one in before]
        assert (await usage_report(store, cut)).total.turns == 10 * rows
        assert not await sum_up(store), "no change was noted"


def test_it_is_measured_where_it_is_asked_for() -> None:
    assert HISTORY in MEASUREMENTS
    assert HISTORY not in Plan.of([], everything=True, peers=False).measurements
    assert Plan.of([HISTORY], everything=False, peers=False).measurements == [HISTORY]


def test_its_tables_and_its_target() -> None:
    ms = [float(n) for n in range(1, 101)]
    suite = Suite(histories=[History("sqlite", 5_000_000, 100.0, {BY_MODEL: ms})])
    shown = report.markdown(suite, WHERE)
    assert "| 30 days by model | sqlite | 5,000,000 | 50.0 ms | 95.0 ms | 99.0 ms | 100.0 ms |" in shown
    assert "| sqlite | 5,000,000 | 100 s | 50,000 |" in shown
    (aim,) = aims(suite)
    assert aim.verdict == "missed by 98%"
    assert report.as_json(suite, WHERE)["history"][0]["queries"][BY_MODEL]["p99"] == 99.0

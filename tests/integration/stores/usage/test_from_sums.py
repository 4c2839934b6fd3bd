"""A report from sums is the one from rows; its percentiles are within 2 % of it."""

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from pipeline.policies.retention import Retention
from pipeline.stores.database.expressions import MAX_INTEGER
from pipeline.stores.database.schema import usage, usage_state
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.keeping.expiry import expire
from pipeline.stores.turns import write_turns
from pipeline.stores.usage import plan as usage_plan
from pipeline.stores.usage import sums as usage_sums
from pipeline.stores.usage.plan import LAST, Piece, bucket_of, fits, joined, part_of, parts, pieces, plan
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import ORDERS, SUMMED, Percentiles, UsageQuery, UsageReport
from pipeline.stores.usage.summing import compare_sums, sum_up
from pipeline.stores.usage.tallies import DAY, QUARTER, WEEK
from pipeline.stores.usage.time_buckets import HOUR, MINUTE, zone
from tests.integration.stores.usage.test_report import many_records
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

BEGIN: Final = 1_768_903_200_000  # 2026-01-20T10:00Z, where the records begin
ZONES: Final = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns")
MOMENTS: Final = (
    st.none() | st.integers(-2, 20).map(lambda n: BEGIN + n * QUARTER) | st.integers(BEGIN, BEGIN + 5 * HOUR)
)
WHERE: Final = {"model": ("m1", "gpt-5", ""), "tenant": ("t1", ""), "agent": ("a1", "a2"), "provider": ("openai",)}


@pytest.fixture
async def full(store: ThreadStore, record: Any) -> ThreadStore:
    """Sums of some hours; before them rows without sums; changes that are not taken up yet."""
    records = many_records(record)
    await write_turns(store, records)
    async with store.writing() as connection:
        await usage_sums.take_up(connection)
        await usage_sums.build(connection, 100)
        assert BEGIN + HOUR < await usage_sums.since(connection) < BEGIN + 4 * HOUR
    for one in records[::7]:
        one["revision"] += 1
        one["timings"] = [{"ttft_ms": 1_234, "duration_ms": 5_000}]
    await write_turns(store, records)
    await delete_thread(store, ThreadKey(thread_uuid("chat3")[0], "t1"))
    return store


async def both(store: ThreadStore, query: UsageQuery, monkeypatch: Any) -> tuple[UsageReport, UsageReport]:
    """-> the report from sums, and that from rows."""
    asked: list[UsageQuery] = []
    with monkeypatch.context() as patch:
        right = usage_plan.plan
        patch.setattr("pipeline.stores.usage.sums_query.plan", lambda *args: asked.append(args[0]) or right(*args))
        summed = await usage_report(store, query)
    assert asked, "it comes from sums"
    with monkeypatch.context() as patch:
        patch.setattr(usage_plan, "fits", lambda query, edges=(): False)
        return summed, await usage_report(store, query)


def near(one: Percentiles, other: Percentiles) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("p50", "p95", "p99")]
    return all(a is b is None or abs(a - b) * 100 <= 2 * b for a, b in pairs)


def agree(summed: UsageReport, exact: UsageReport) -> None:
    def names(report: UsageReport) -> list[Any]:
        return [(row.bucket, row.other, row.group) for row in report.rows]

    assert names(summed) == names(exact)
    assert summed.unpriced == exact.unpriced
    figures = [(one.figures, other.figures) for one, other in zip(summed.rows, exact.rows, strict=True)]
    for one, other in [*figures, (summed.total, exact.total)]:
        assert [getattr(one, name) for name in SUMMED] == [getattr(other, name) for name in SUMMED]
        assert near(one.ttft_ms, other.ttft_ms)
        assert near(one.duration_ms, other.duration_ms)


async def test_any_report_from_sums_is_that_from_rows(full: ThreadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        draw = data.draw
        start, end = draw(MOMENTS), draw(MOMENTS)
        if start is not None and end is not None and start >= end:
            end = None
        filters = draw(st.sets(st.sampled_from(sorted(WHERE)), max_size=2))
        query = UsageQuery(
            tuple(draw(st.lists(st.sampled_from(sorted(usage_plan.GROUPS)), unique=True, max_size=3))),
            draw(st.sampled_from([None, None, "hour", "day", "week", "month"])),
            zone(draw(st.sampled_from(ZONES))),
            start,
            end,
            {name: WHERE[name] for name in filters},
            draw(st.sampled_from([2, 100])),
            draw(st.sampled_from(ORDERS)),
        )
        agree(*asyncio.run_coroutine_threadsafe(both(full, query, monkeypatch), loop).result())

    await asyncio.to_thread(check)
    while await sum_up(full):
        pass
    await asyncio.to_thread(check)


async def test_what_expired_is_in_the_sums_and_in_no_row(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record(run=f"r{n}", seconds=n * 900, tokens=10) for n in range(4)])
    await write_turns(store, [record("other", "r", seconds=1_000, tokens=5)])
    while await sum_up(store):
        pass
    await expire(store, [ThreadKey(thread_uuid("chat")[0])], Retention(default=1), 4_000_000_000_000)
    for _ in range(2):
        assert (await usage_report(store, UsageQuery(("model",)))).total.input_tokens == 45
        hour = UsageQuery((), start=BEGIN, end=BEGIN + HOUR)
        assert (await usage_report(store, hour)).total.input_tokens == 45
        assert (await usage_report(store, replace(hour, start=BEGIN + MINUTE))).total.input_tokens == 35
        assert (await usage_report(store, UsageQuery(("thread",)))).total.input_tokens == 5
        await sum_up(store)
    assert (await compare_sums(store)).wrong == ()


async def test_rows_are_read_where_no_sums_are(full: ThreadStore) -> None:
    with_sums = await usage_report(full, UsageQuery(("model",), "hour"))
    async with full.writing() as connection:
        await connection.execute(update(usage_state).values(since=None))
    agree(with_sums, await usage_report(full, UsageQuery(("model",), "hour")))


def test_what_sums_can_not_answer() -> None:
    assert fits(UsageQuery(("model", "tenant"), "hour", where={"agent": ("a",)}))
    assert not fits(UsageQuery(("thread",)))
    assert not fits(UsageQuery(where={"finish_reason": ("stop",)}))
    assert not fits(UsageQuery((), "minute"))
    assert not fits(UsageQuery((), "day"), [0, DAY - 1_172_000]), "Amsterdam, before 1937"


@pytest.mark.parametrize("only_added", [False, True])
@given(begin=st.integers(0, 5_000), length=st.integers(1, 5_000))
def test_pieces_make_up_the_time_and_are_few(begin: int, length: int, *, only_added: bool) -> None:
    first, last = begin * QUARTER, (begin + length) * QUARTER
    found = pieces(first, last, only_added=only_added)
    counts: Counter[int] = Counter()
    for piece in found:
        assert piece.begin % piece.span == piece.end % piece.span == 0
        counts.update(dict.fromkeys(range(piece.begin, piece.end, QUARTER), piece.sign))
    assert {at: count for at, count in counts.items() if count} == dict.fromkeys(range(first, last, QUARTER), 1)
    if only_added:
        assert {piece.sign for piece in found} == {1}
    weeks = length * QUARTER // WEEK
    assert sum((piece.end - piece.begin) // piece.span for piece in found) <= weeks + (70 if only_added else 40)


@given(
    st.lists(st.integers(0, 2_000), min_size=1, max_size=12, unique=True), st.integers(0, 900), st.integers(1, 1_500)
)
def test_each_bucket_is_made_of_its_own_time(edges: list[int], begin: int, length: int) -> None:
    starts = sorted(edge * QUARTER for edge in edges)
    first, last = begin * QUARTER, (begin + length) * QUARTER
    counts: Counter[tuple[int | None, int]] = Counter()
    for span, some in parts(first, last, starts).items():
        times = joined(some)
        assert all(a[1] < b[0] for a, b in pairwise(times))
        for start in (at for low, high in times for at in range(low, high, span)):
            for bucket, count in part_of(some, start).counts.items():
                for at in range(start, start + span, QUARTER):
                    counts[bucket, at] += count
    right = Counter((bucket_of(at, starts), at) for at in range(max(first, starts[0]), last, QUARTER))
    assert {key: count for key, count in counts.items() if count} == right


def test_a_plan_reads_rows_at_the_ends_and_where_there_are_no_sums() -> None:
    at = 10 * DAY
    whole = plan(UsageQuery(), 0)
    assert (whole.sums, whole.rows, pieces(*whole.live)) == (((None, 0, LAST),), (), (Piece(WEEK, 0, LAST),))
    cut = plan(UsageQuery(start=at + 1, end=at + HOUR + 1), 0)
    assert cut.live == cut.expired == (at + QUARTER, at + HOUR)
    assert cut.rows == ((at + 1, at + QUARTER), (at + HOUR, at + HOUR + 1))
    half = plan(UsageQuery(start=at, end=at + DAY), at + HOUR)
    assert half.sums == ((False, at + HOUR, at + DAY), (True, at, at + DAY))
    assert half.rows == ((at, at + HOUR),)
    within = plan(UsageQuery(start=at + 1, end=at + 2), 0)
    assert (pieces(*within.live), pieces(*within.expired), within.rows) == ((), (), ((at + 1, at + 2),))


def test_a_day_of_berlin_is_one_of_utc_but_for_an_hour_at_each_end() -> None:
    at = 10 * DAY
    assert pieces(at - HOUR, at + 23 * HOUR) == (
        Piece(DAY, at, at + DAY),
        Piece(HOUR, at - HOUR, at),
        Piece(HOUR, at + 23 * HOUR, at + DAY, -1),
    )


async def test_what_is_not_known_exactly_is_never_taken_away(store: ThreadStore, record: Any) -> None:
    """A day's sum that stands for all above the most, and an hour's that would be taken from it."""
    await write_turns(store, [record(run=f"r{n}", seconds=n * 48_600) for n in range(2)])
    async with store.writing() as connection:
        await connection.execute(update(usage).where(usage.c.at >= BEGIN + HOUR).values(total_tokens=MAX_INTEGER))
    while await sum_up(store):
        pass
    times = UsageQuery(start=BEGIN - 10 * HOUR, end=BEGIN + 13 * HOUR)  # a day without its last hour
    assert pieces(times.start or 0, times.end or 0)[-1].sign == -1
    summed = await usage_report(store, times)
    async with store.writing() as connection:
        await connection.execute(update(usage_state).values(since=None))
    agree(summed, await usage_report(store, times))
    assert summed.total.total_tokens < MAX_INTEGER

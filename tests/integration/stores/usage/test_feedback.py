"""Feedback in usage reports: each counted once, under the turn that it is about, as plain Python counts it."""

import asyncio
import csv
import io
import random
from collections import defaultdict
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.feedback import ReceivedFeedback, add_feedback
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.feedback import CLOCKS_MS
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import Judged, UsageQuery
from topics.feedback import FeedbackRecord
from turnmill.errors import CallerError
from turnmill.publish.feedback import made

NAMES = ("helpful", "score")
COUNT = 700  # more than are read at once
LATER = 1_800_000_000_000  # than all turns


def many_turns(record: Any) -> list[dict[str, Any]]:
    """Turns in their order, two to a run, of several agents, models, tenants and hours."""
    return [
        record(
            f"chat{n % 7}",
            f"r{n // 14}",
            str(n),
            seconds=n * 97,
            agent_id=f"a{n % 4}",
            model=[None, "m1", "m2", "gpt-5"][n % 5 % 4],
            **({"tenant": f"t{n % 7 % 3}"} if n % 7 % 3 else {}),
        )
        for n in range(140)
    ]


def much_feedback(turns: list[dict[str, Any]]) -> list[tuple[FeedbackRecord, dict[str, Any] | None]]:
    """Return feedback, each with the turn that it counts under."""
    rng = random.Random(3)
    found = []
    for n in range(COUNT):
        about = rng.choice(turns)
        value = rng.choice([True, False, 0.5, 3, -1, "a word"])
        said: dict[str, Any] = {"id": f"f{n}", "name": NAMES[n % 2], "value": value}
        of_thread = [one for one in turns if one["thread_id"] == about["thread_id"]]
        last: dict[str, Any] | None = of_thread[-1]
        if n % 4 == 0:
            said["turn_id"], last = about["turn_id"], about
        elif n % 4 == 1:
            said["run_id"], last = about["run_id"], [one for one in of_thread if one["run_id"] == about["run_id"]][-1]
        elif n % 8 == 2:
            said["turn_id"], last = "never stored", None
        record: FeedbackRecord = made(about["thread_id"], about.get("tenant"), said)  # type: ignore[assignment]
        found.append((record, last))
    return found


def hour_of(turn: dict[str, Any]) -> str:
    return str(turn["turn"]["started_at"][:13])


async def test_each_counts_under_its_turn_in_any_report(store: ThreadStore, record: Any) -> None:
    turns = many_turns(record)
    given = much_feedback(turns)
    await write_turns(store, turns)
    await add_feedback(store, [ReceivedFeedback(one, LATER + n % 9, n) for n, (one, _) in enumerate(given)])
    counted = [(one, turn) for one, turn in given if turn is not None and not isinstance(one["value"], str)]
    groupings: list[tuple[str, ...]] = [("agent",), ("model", "tenant"), ("thread",), ()]
    for where in ({}, {"tenant": ("t1",)}, {"agent": ("a2",)}):
        wanted = [
            (one, turn)
            for one, turn in counted
            if turn.get("tenant") in where.get("tenant", (turn.get("tenant"),))
            and turn["agent_id"] in where.get("agent", (turn["agent_id"],))
        ]
        for groups in groupings:
            sums: defaultdict[Any, defaultdict[str, tuple[int, float]]] = defaultdict(
                lambda: defaultdict(lambda: (0, 0))
            )
            for one, turn in wanted:
                model = turn["turn"]["messages"][0]["model_name"]
                names = {
                    "agent": turn["agent_id"],
                    "model": model,
                    "tenant": turn.get("tenant"),
                    "thread": turn["thread_id"],
                }
                key = (hour_of(turn), *(names[group] for group in groups))
                count, total = sums[key][one["name"]]
                sums[key][one["name"]] = count + 1, total + float(one["value"] or 0)
            report = await usage_report(store, UsageQuery(groups, "hour", where=where, feedback=NAMES))
            for line in report.document()["rows"]:
                key = (line["bucket"][:13], *(line[group] for group in groups))
                judged = sums.pop(key, {})
                shown = {name: one for name, one in line["feedback"].items() if one["count"]}
                assert {name: one["count"] for name, one in shown.items()} == {
                    name: count for name, (count, _) in judged.items()
                }
                for name, one in shown.items():
                    assert one["mean"] == pytest.approx(judged[name][1] / judged[name][0])
            assert not sums
            whole = report.total.feedback
            assert sum(one.count for one in whole.values()) == len(wanted)


async def test_the_rest_and_the_time_asked_for_have_theirs(store: ThreadStore, record: Any) -> None:
    turns = many_turns(record)
    given = much_feedback(turns)
    await write_turns(store, turns)
    await add_feedback(store, [ReceivedFeedback(one, LATER + n % 9, n) for n, (one, _) in enumerate(given)])
    report = await usage_report(store, UsageQuery(("thread", "model"), limit=3, feedback=NAMES))
    assert [row.other for row in report.rows] == [False] * 3 + [True]
    for name in NAMES:
        assert sum(row.figures.feedback[name].count for row in report.rows) == report.total.feedback[name].count > 0
    middle = 1_768_903_200_000 + 70 * 97_000
    halves = [
        await usage_report(store, UsageQuery((), start=a, end=b, feedback=NAMES))
        for a, b in ((0, middle), (middle, None))
    ]
    for name in NAMES:
        counts = [half.total.feedback[name].count for half in halves]
        assert min(counts) > 0
        assert sum(counts) == report.total.feedback[name].count
    header, *lines = csv.reader(io.StringIO(report.csv()))
    assert header[-4:] == [f"feedback_{name}_{of}" for name in NAMES for of in ("mean", "count")]
    assert {len(line) for line in lines} == {len(header)}


async def test_what_came_before_a_report_begins_is_not_read_but_for_clocks_that_differ(
    store: ThreadStore, record: Any
) -> None:
    await write_turns(store, [record("chat", seconds=1)])
    start = 1_768_903_200_000
    for number, at in enumerate((start - CLOCKS_MS - 1, start - CLOCKS_MS + 1, start + 1)):
        given: FeedbackRecord = made("chat", None, {"id": str(number), "name": "helpful", "value": number})  # type: ignore[assignment]  # plain fields
        await add_feedback(store, [ReceivedFeedback(given, at, number)])
    for begin, judged in ((start, Judged(2, 3.0)), (None, Judged(3, 3.0))):
        report = await usage_report(store, UsageQuery(start=begin, feedback=("helpful",)))
        assert report.total.feedback["helpful"] == judged


async def test_what_is_taken_back_or_not_asked_for_counts_nowhere(store: ThreadStore, record: Any) -> None:
    await write_turns(store, [record("chat")])
    good: FeedbackRecord = made("chat", None, {"id": "a", "name": "helpful", "value": True})  # type: ignore[assignment]
    await add_feedback(store, [ReceivedFeedback(good, 1, 1)])
    query = UsageQuery(("agent",), feedback=("helpful", "never said"))
    (row,) = (await usage_report(store, query)).document()["rows"]
    assert row["feedback"] == {"helpful": {"mean": 1.0, "count": 1}, "never said": {"mean": None, "count": 0}}
    assert "feedback" not in (await usage_report(store, UsageQuery(("agent",)))).document()["total"]
    await add_feedback(store, [ReceivedFeedback({**good, "value": None}, 1, 2)])
    (row,) = (await usage_report(store, query)).document()["rows"]
    assert row["feedback"]["helpful"] == {"mean": None, "count": 0}
    with pytest.raises(CallerError, match="at most 10 names"):
        UsageQuery(feedback=tuple(map(str, range(11))))


async def test_the_command_shows_it(
    store: ThreadStore, store_url: str, record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNMILL_STORE", store_url)
    await write_turns(store, [record("chat")])
    good: FeedbackRecord = made("chat", None, {"id": "a", "name": "helpful", "value": 0.25})  # type: ignore[assignment]
    await add_feedback(store, [ReceivedFeedback(good, 1, 1)])
    arguments = ["usage", "--group-by", "agent", "--feedback", "helpful"]
    for more, said in (([], "0.25 (1)"), (["--csv"], "feedback_helpful_mean"), (["--json"], '"mean":0.25')):
        result = await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, *more])
        assert result.exit_code == 0, result.output
        assert said in result.output.replace(" :", ":").replace(": ", ":"), result.output

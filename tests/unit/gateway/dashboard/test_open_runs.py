from __future__ import annotations

from typing import Any

import pytest

from pipeline.dialects.live_text import text_of
from pipeline.gateway.dashboard.figures import ANY, Series
from pipeline.gateway.dashboard.open_runs import TAIL, OpenRuns
from topics.thread_key import ThreadKey


def record(run: str = "r", events: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    delta = {"type": "text-delta", "id": "t", "delta": "Hello "}
    base = {"thread_id": "t", "run_id": run, "agent_id": "weather", "dialect": "vercel-ai"}
    return {**base, "events": [delta] if events is None else events, **more}


def test_a_run_is_open_from_its_first_record_to_its_end() -> None:
    runs = OpenRuns(idle_ms=1000)
    runs.take({**record(), "run": {"agent_name": "Weather desk", "model_name": "gpt-5"}}, 5)
    runs.take(record(events=[{"type": "text-delta", "delta": "you"}, {"type": "finish"}]), 9)
    count, (found,) = runs.of(ANY, 10)
    assert count == 1
    assert (found.agent_name, found.model, found.text, found.events) == ("Weather desk", "gpt-5", "Hello you", 3)
    assert (found.started_at, found.last_at) == (5, 9)
    runs.take(record(events=[], end="complete"), 10)
    assert runs.of(ANY, 10) == (0, [])


def test_what_a_replay_brings_of_a_closed_run_opens_nothing() -> None:
    runs = OpenRuns(idle_ms=1000)
    runs.close(ThreadKey("t"), "r")  # its turn may be read before its events
    runs.take(record(), 5)
    assert runs.of(ANY, 10)[0] == 0


def test_silent_runs_are_forgotten() -> None:
    runs = OpenRuns(idle_ms=1000)
    runs.take(record("a"), 0)
    runs.take(record("b"), 900)
    runs.expire(1000)
    assert [run.run_id for run in runs.of(ANY, 10)[1]] == ["b"]


def test_of_too_many_runs_those_that_were_silent_for_longest_go() -> None:
    runs = OpenRuns(idle_ms=1000, runs=3)
    for number in range(5):
        runs.take(record(str(number)), number)
    assert [run.run_id for run in runs.of(ANY, 10)[1]] == ["4", "3", "2"]


def test_many_runs_of_one_tenant_push_out_none_of_another() -> None:
    """Found by the review: with enough runs, a tenant emptied the lists of all others."""
    runs = OpenRuns(idle_ms=1000, runs=4)
    for number in range(2):
        runs.take(record(f"mine {number}", tenant="acme"), number)
    for number in range(20):
        runs.take(record(f"theirs {number}", tenant="evil"), 10 + number)
    assert [run.run_id for run in runs.of(Series(None, None, "acme"), 10)[1]] == ["mine 1", "mine 0"]
    assert [run.run_id for run in runs.of(Series(None, None, "evil"), 10)[1]] == ["theirs 19", "theirs 18"]
    runs.expire(1000)
    assert runs.of(ANY, 10)[0] == 3
    runs.expire(1029)
    assert (runs.of(ANY, 10), runs._open, runs._count) == ((0, []), {}, 0)


def test_a_tenant_sees_its_own_runs() -> None:
    runs = OpenRuns(idle_ms=1000)
    runs.take(record("a", tenant="acme"), 0)
    runs.take(record("b", tenant="globex"), 0)
    runs.take(record("c"), 0)
    assert [run.run_id for run in runs.of(Series(None, None, "acme"), 10)[1]] == ["a"]
    assert [run.run_id for run in runs.of(Series(None, None, ""), 10)[1]] == ["c"], "that of no tenant"


def test_the_same_ids_of_two_tenants_are_two_runs() -> None:
    """Found by the review: who sent to the thread and the run of another tenant saw the text of that run."""
    runs = OpenRuns(idle_ms=1000)
    runs.take(record(tenant="evil", events=[]), 0)
    runs.take(record(tenant="acme", events=[{"type": "text-delta", "delta": "the secret"}]), 1)
    (mine,) = runs.of(Series(None, None, "acme"), 10)[1]
    (theirs,) = runs.of(Series(None, None, "evil"), 10)[1]
    assert (mine.text, mine.events, mine.thread) == ("the secret", 1, ThreadKey("t", "acme"))
    assert (theirs.text, theirs.events) == ("", 0)
    runs.take(record(tenant="evil", events=[], end="complete"), 2)
    runs.close(ThreadKey("t"), "r")
    assert runs.of(ANY, 10) == (1, [mine])
    runs.close(mine.thread, "r")
    assert runs.of(ANY, 10) == (0, [])


def test_runs_of_one_model_or_agent() -> None:
    runs = OpenRuns(idle_ms=1000)
    runs.take({**record("a"), "run": {"model_name": "gpt-5"}}, 0)
    runs.take({**record("b"), "agent_id": "travel"}, 0)
    assert [run.run_id for run in runs.of(Series("gpt-5", None, None), 10)[1]] == ["a"]
    assert [run.run_id for run in runs.of(Series(None, "travel", None), 10)[1]] == ["b"]


def test_only_the_end_of_a_text_is_held() -> None:
    runs = OpenRuns(idle_ms=1000)
    run = runs.take(record(events=[{"type": "text-delta", "delta": "x" * 10_000 + "end"}]), 0)
    assert len(run.text) == TAIL
    assert run.text.endswith("end")


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("vercel-ai", {"type": "text-delta", "delta": "Hi"}),
        ("pydantic-ai", {"event_kind": "part_delta", "delta": {"part_delta_kind": "text", "content_delta": "Hi"}}),
        ("pydantic-ai", {"event_kind": "part_start", "part": {"part_kind": "text", "content": "Hi"}}),
        ("pi-agent", {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": "Hi"}}),
        ("pi-proxy", {"type": "text_delta", "delta": "Hi"}),
        ("agents-sdk", {"event": "message.delta", "data": {"delta": "Hi"}}),
    ],
)
def test_each_dialect_says_something(dialect: str, event: dict[str, Any]) -> None:
    assert text_of(dialect, [event, event]) == "HiHi"


@pytest.mark.parametrize("dialect", ["vercel-ai", "pydantic-ai", "pi-agent", "pi-proxy", "agents-sdk", "no-such"])
@pytest.mark.parametrize(
    "event",
    [None, 7, {}, {"type": "text-delta", "delta": 5}, {"type": "message_update", "assistantMessageEvent": "x"},
     {"event_kind": "part_delta", "delta": []}, {"event": "message.delta", "data": None}],
)  # fmt: skip
def test_anything_else_says_nothing(dialect: str, event: Any) -> None:
    assert text_of(dialect, [event]) == ""

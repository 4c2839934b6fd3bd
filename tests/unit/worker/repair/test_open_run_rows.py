from typing import Any

from pipeline.assembly.limits import Limits
from pipeline.assembly.run_list import RunList
from pipeline.assembly.usual_silence import MIN_MS, MIN_RUNS, UsualSilence
from pipeline.worker.repair.open_runs import OpenRunRow, Wanted, rows, silent
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import encode

LIMITS = Limits(idle_ms=60_000, run_ms=100_000)


def listed(runs: RunList, now: int = 0, limit: int = 10, **wanted: Any) -> list[OpenRunRow]:
    return rows(runs, LIMITS, Wanted(**wanted), now, limit)


def take(runs: RunList, run: str, at: int, chat: str = "chat", **more: Any) -> None:
    thread_id, external_id = thread_uuid(chat, more.get("tenant"))
    base = {"v": 1, "thread_id": thread_id, "run_id": run, "agent_id": "a", "dialect": "vercel-ai", "seq": 0, "ts": 1}
    runs.take_event(
        encode({**base, "events": [{"type": "start"}], "run": {"external_id": external_id}, **more}), at, at
    )


def test_the_one_that_is_silent_for_longest_is_first() -> None:
    runs = RunList(1000, UsualSilence())
    for run, at in (("b", 2000), ("a", 1000), ("c", 3000)):
        take(runs, run, at)
    assert [(row.run_id, row.age_ms, row.silence_ms) for row in listed(runs, 5000, 2)] == [
        ("a", 4000, 4000),
        ("b", 3000, 3000),
    ]
    assert listed(runs, 500)[0].silence_ms == 0, "the broker's clock is ahead"


def test_the_deadline_is_the_first_of_two() -> None:
    runs = RunList(1000, UsualSilence())
    take(runs, "r", 1000)
    assert listed(runs)[0].deadline_at == 61_000
    take(runs, "r", 90_000, seq=1)
    assert listed(runs)[0].deadline_at == 101_000


def test_runs_by_tenant_agent_and_thread() -> None:
    runs = RunList(1000, UsualSilence())
    take(runs, "none's", 1)
    take(runs, "acme's", 2, tenant="acme")
    take(runs, "other", 3, chat="other", agent_id="b")

    def named(**wanted: Any) -> list[str]:
        return [row.run_id for row in listed(runs, **wanted)]

    assert named(tenant="") == ["none's", "other"]
    assert named(tenant="acme") == ["acme's"]
    assert named(agent="b") == ["other"]
    assert named(thread="chat") == ["none's", "acme's"]
    assert named(thread=thread_uuid("chat", "acme")[0]) == ["acme's"]
    assert named(thread="nothing") == []


def test_a_run_is_silent_beyond_what_is_usual_and_never_where_nothing_is_known() -> None:
    usual = UsualSilence()
    for _ in range(MIN_RUNS):
        usual.add((None, "a"), 100)
    runs = RunList(1000, usual)
    take(runs, "known", 1000)
    take(runs, "not known", 1000, agent_id="b")
    at = 1000 + MIN_MS
    assert [(row.run_id, row.silent, row.usual_silence_ms) for row in listed(runs, at)] == [
        ("known", False, MIN_MS),
        ("not known", None, None),
    ]
    assert (silent(runs, at), listed(runs, at, silent=True)) == (0, [])
    assert silent(runs, at + 1) == 1
    assert [row.run_id for row in listed(runs, at + 1, silent=True)] == ["known"]

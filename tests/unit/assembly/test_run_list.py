import random
from typing import Any

import pytest

from pipeline.assembly import run_list
from pipeline.assembly.run_list import RunList, kind_of
from pipeline.assembly.usual_silence import MIN_RUNS, UsualSilence
from topics import state
from topics.state import Clocks, Closed, RunKey, Segment
from topics.thread_key import ThreadKey
from turnmill.remembered import ENTRY_BYTES, SCOPE_BYTES, size_of
from turnmill.wire.envelope import decode, encode

THREAD = "7b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11"
MINE, THEIRS, NOBODYS = ThreadKey(THREAD, "acme"), ThreadKey(THREAD, "evil"), ThreadKey(THREAD)
REOPEN = 10_000


def key(run: str = "r", tenant: str | None = None) -> RunKey:
    return RunKey(tenant, THREAD, run)


def record(seq: int = 0, count: int = 1, run: str = "r", **more: Any) -> bytes:
    events = [{"type": f"event-{seq + n}"} for n in range(count)]
    base = {"v": 1, "thread_id": THREAD, "run_id": run, "agent_id": "a", "dialect": "vercel-ai", "seq": seq, "ts": 1}
    return encode({**base, "events": events, **more})


BYTES_OF_RUN = ENTRY_BYTES + size_of(key("00")) + run_list.PER_RUN + run_list.PER_CHARACTER * (len(THREAD) + 2)


@pytest.fixture
def runs() -> RunList:
    return RunList(REOPEN, UsualSilence())


def take(runs: RunList, run: RunKey, entry: Segment | Closed) -> bytes:
    name = (state.segment_key(run, entry) if isinstance(entry, Segment) else state.closed_key(run, entry)).encode()
    runs.take_state(name, state.encode(run, entry))
    return name


def named(runs: RunList) -> list[str]:
    return sorted(run.key.run_id for run in runs)


def test_a_run_is_open_from_its_first_record_to_its_end(runs: RunList) -> None:
    runs.take_event(record(0, 2), 5, 100)
    (run,) = runs
    assert (run.key, run.agent_id, run.dialect) == (key(), "a", "vercel-ai")
    assert (run.started_at, run.last_at, run.events, run.last_event) == (100, 100, 2, "event-1")
    runs.take_event(record(2, 3), 6, 250)
    assert (run.started_at, run.last_at, run.events, run.last_event) == (100, 250, 5, "event-4")
    runs.take_event(record(5, 0, end="complete"), 7, 300)
    assert len(runs) == 0
    runs.take_event(record(2, 3), 8, 400)
    assert len(runs) == 0, "a record of it comes late, or again"


def test_what_its_publisher_says_of_it_is_listed(runs: RunList) -> None:
    base = {"v": 1, "thread_id": THREAD, "run_id": "r", "agent_id": "a", "dialect": "gemini", "seq": 0, "ts": 1}
    info = {"agent_name": "Weather", "model_name": "m", "external_id": "chat-7"}
    runs.take_event(encode({**base, "tenant": "acme", "events": [{"type": "x"}], "run": info}), 1, 1)
    (run,) = runs
    assert (run.key.tenant, run.agent_name, run.model, run.external_id) == ("acme", "Weather", "m", "chat-7")


@pytest.mark.parametrize("marks_first", [False, True])
def test_the_mark_of_a_run_closes_it_whichever_topic_is_read_first(runs: RunList, *, marks_first: bool) -> None:
    def mark() -> None:
        take(runs, key(), Closed(8, 3, complete=True, at=300))

    if marks_first:
        mark()
    for offset, seq in ((7, 0), (8, 2)):
        runs.take_event(record(seq, 2), offset, 200)
    if not marks_first:
        assert named(runs) == ["r"]
        mark()
    assert named(runs) == []
    runs.take_event(record(4), 9, 400)
    assert named(runs) == [], "a complete run is not opened again"


def test_an_interrupted_run_goes_on_with_a_new_event_and_not_with_an_old_or_a_late_one(runs: RunList) -> None:
    runs.take_event(record(0, 4, agent_id="b"), 8, 200)
    take(runs, key(), Closed(8, 3, complete=False, at=300))
    runs.take_event(record(2, 2), 9, 400)
    assert named(runs) == [], "seen before"
    runs.take_event(record(4, 1), 10, 300 + REOPEN + 1)
    assert named(runs) == [], "too late"
    runs.take_event(record(4, 1), 11, 500)
    (run,) = runs
    assert (run.started_at, run.events, run.agent_id) == (200, 5, "b"), "it is the same run"
    take(runs, key(), Closed(11, 4, complete=False, at=900, revision=1))
    assert named(runs) == []


def test_a_run_whose_beginning_is_on_the_state_topic_alone_is_whole(runs: RunList) -> None:
    take(runs, key(), Segment(3, 7, 500, Clocks(100), [record(0, 2), record(2, 2)]))
    (run,) = runs
    assert (run.started_at, run.last_at, run.events, run.last_event) == (100, 500, 4, "event-3")
    runs.take_event(record(4, 2), 9, 900)
    assert (run.started_at, run.last_at, run.events, run.last_event) == (100, 900, 6, "event-5")
    take(runs, key(), Segment(3, 7, 500, Clocks(100), [record(0, 2)]))
    assert (run.last_at, run.events) == (900, 6), "written once more by a worker that was thought dead"


def test_segments_of_a_closed_run_open_nothing_and_those_behind_its_mark_do(runs: RunList) -> None:
    take(runs, key(), Closed(7, 3, complete=False, at=500))
    take(runs, key(), Segment(3, 7, 500, Clocks(500), [record(0, 4)]))
    assert named(runs) == []
    take(runs, key(), Segment(8, 9, 700, Clocks(700), [record(4, 2)]))
    assert named(runs) == ["r"]


def test_a_run_that_is_given_up_loses_its_segments_and_is_over(runs: RunList) -> None:
    names = [take(runs, key(), Segment(n, n, 500, Clocks(500), [record(n, 1)])) for n in (3, 4)]
    runs.take_state(names[0], None)
    assert named(runs) == ["r"]
    runs.take_state(names[1], None)
    assert named(runs) == []


def test_the_same_ids_of_two_tenants_are_two_runs(runs: RunList) -> None:
    runs.take_event(record(0, tenant="acme"), 1, 1)
    runs.take_event(record(0, tenant="globex"), 2, 1)
    take(runs, key(tenant="acme"), Closed(1, 0, complete=True, at=5))
    assert [run.key.tenant for run in runs] == ["globex"]


def test_runs_are_known_by_thread_in_their_order_and_forgotten_in_time() -> None:
    runs = RunList(10, UsualSilence())
    runs.take_event(record(3, run="b", tenant="acme"), 0, 5_000)
    runs.take_event(record(0, run="a", tenant="acme", end="complete"), 1, 5_001)
    runs.take_event(record(0, run="c", tenant="evil"), 2, 5_002)
    found = runs.of_thread(MINE, 0)
    assert list(found) == ["b", "a"]
    assert (found["b"].first, found["b"].seq, found["b"].ended, found["a"].ended) == (0, 3, False, True)
    assert list(runs.of_thread(MINE, 5_001)) == ["b", "a"], "it is open, however long it has been silent"
    assert list(runs.of_thread(MINE, 5_002)) == ["b"]
    assert runs.threads(THREAD, 0) == {MINE, THEIRS}
    assert runs.threads(THREAD, 5_002) == {MINE, THEIRS}, "as one of its runs is open"
    runs.take_event(record(1, 0, run="c", tenant="evil", end="complete"), 3, 6_000)
    assert runs.threads(THREAD, 6_001) == {MINE}
    assert list(runs.of_thread(MINE, 0)) == ["b"]
    assert list(runs.of_thread(THEIRS, 0)) == ["c"]
    assert (runs.of_thread(NOBODYS, 0), runs.threads("another", 0)) == ({}, set())


def test_what_is_past_is_known_and_not_open(runs: RunList) -> None:
    """A reader of a thread asks where its runs began; the assembler may have closed them long ago."""
    for offset, seq in ((4, 0), (5, 1)):
        runs.take(decode(record(seq)), offset, 100 + offset, past=True)
    assert named(runs) == []
    (run,) = runs.of_thread(NOBODYS, 0).values()
    assert (run.first, run.events, run.last_at) == (4, 2, 105)
    take(runs, key(), Segment(4, 5, 105, Clocks(90), [record(0, 2)]))
    assert named(runs) == ["r"], "its records are on the state topic, so it is open"
    runs.take_event(record(2), 9, 200)
    runs.take(decode(record(0)), 4, 104, past=True)
    assert (list(runs), run.first, run.seq, run.started_at, run.events) == ([run], 4, 0, 90, 3)


def test_a_late_copy_among_what_is_past_opens_no_closed_run(runs: RunList) -> None:
    runs.take(decode(record(0, 4)), 5, 100, past=True)
    runs.take(decode(record(2, 2)), 9, 150, past=True)
    take(runs, key(), Closed(8, 3, complete=False, at=140))
    take(runs, key(), Segment(5, 8, 130, Clocks(100), [record(0, 4)]))
    assert named(runs) == [], "its newest offset that counts is that of the mark"


def test_of_runs_that_are_over_so_many_are_known_as_their_names_have_room() -> None:
    runs = RunList(REOPEN, UsualSilence())
    runs.over.size = 40 * BYTES_OF_RUN + SCOPE_BYTES
    for n in range(50):
        runs.take_event(record(0, run=f"{n:02}", end="complete"), n, n)
    assert list(runs.of_thread(NOBODYS, 0)) == [f"{n:02}" for n in range(10, 50)]
    runs.take_event(record(0, run="long" * 250, end="complete"), 50, 50)
    assert len(runs.of_thread(NOBODYS, 0)) < 40


def test_a_run_that_is_not_listed_is_known_where_it_began() -> None:
    runs = RunList(REOPEN, UsualSilence())
    runs._open.size = 4 * BYTES_OF_RUN + SCOPE_BYTES
    for n in range(6):
        runs.take_event(record(0, run=f"r{n}"), n, n)
    assert (len(runs), len(runs.of_thread(NOBODYS, 0))) == (4, 6)
    runs.take_event(record(1, run="r4"), 9, 9)
    assert runs.of_thread(NOBODYS, 0)["r4"].first == 4


def test_malformed_records_change_nothing(runs: RunList) -> None:
    runs.take_event(None, 1, 1)
    runs.take_event(b"{", 2, 1)
    runs.take_state(b"no key", b"{}")
    runs.take_state(b"no key", None)
    runs.take_state(None, b"{}")
    assert len(runs) == 0


def test_of_too_many_runs_the_longest_silent_ones_stay_and_no_tenant_loses_any_to_another() -> None:
    runs = RunList(REOPEN, UsualSilence())
    runs._open.size = 40 * BYTES_OF_RUN + SCOPE_BYTES
    for n in range(10):
        runs.take_event(record(0, run=f"mine {n}", tenant="acme"), n, n)
    for n in range(200):
        runs.take_event(record(0, run=f"theirs {n}", tenant="evil"), 100 + n, 100 + n)
    assert len(runs) <= 40
    held = set(named(runs))
    assert {f"mine {n}" for n in range(10)} <= held
    assert {f"theirs {n}" for n in range(20)} <= held
    assert runs.left_out >= 170


def test_runs_that_were_seen_whole_tell_what_is_usual() -> None:
    usual = UsualSilence()
    runs = RunList(REOPEN, usual)
    for n in range(MIN_RUNS):
        runs.take_event(record(0, run=f"r{n}"), 10 * n, 0)
        runs.take_event(record(1, run=f"r{n}"), 10 * n + 1, 40_000)
        runs.take_event(record(2, 0, run=f"r{n}", end="complete"), 10 * n + 2, 41_000)
        runs.take_event(record(7, 0, run=f"not whole {n}", end="complete"), 10 * n + 3, 41_000)
    assert usual.of((None, "a")) == 80_000


@pytest.mark.parametrize("seed", range(30))
def test_whatever_the_order_of_the_two_topics_the_same_runs_are_open(seed: int) -> None:
    """Each topic's own order stays; a run's truth is its newest offset against its mark."""
    random_ = random.Random(seed)
    events: list[tuple[bytes, int]] = []
    entries: list[tuple[RunKey, Closed]] = []
    open_now = set()
    offset = 0
    for n in range(20):
        run, seq, closed = f"r{n}", 0, False
        for _ in range(random_.randint(1, 4)):
            events.append((record(seq, 1, run=run), offset))
            seq, offset = seq + 1, offset + 1
            closed = random_.random() < 0.4
            if closed:
                revision = sum(1 for one, _ in entries if one.run_id == run)
                entries.append((key(run), Closed(offset - 1, seq - 1, complete=False, at=1, revision=revision)))
        if not closed:
            open_now.add(run)
    runs = RunList(REOPEN, UsualSilence())
    while events or entries:
        if events and (not entries or random_.random() < 0.5):
            value, at = events.pop(0)
            runs.take_event(value, at, 1)
        else:
            take(runs, *entries.pop(0))
    assert set(named(runs)) == open_now


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "text-delta"}, "text-delta"),
        ({"event": "done", "data": {}}, "done"),
        ({"object": "chat.completion.chunk"}, "chat.completion.chunk"),
        ({"candidates": []}, None),
        ("text", None),
    ],
)
def test_kinds_of_events(event: Any, kind: str | None) -> None:
    assert kind_of(event) == kind


def test_a_scattered_run_says_where_it_begins_in_each_partition(runs: RunList) -> None:
    places = [(0, 2, 7), (1, 1, 40), (2, 2, 5), (3, 1, 39)]  # seq, partition, offset
    for seq, partition, offset in places:
        run = runs.take(decode(record(seq)), offset, 100 + seq, partition)
    assert run.firsts == {2: 5, 1: 39}
    assert run.events == 4


def test_a_run_has_the_labels_that_its_publisher_tells_and_they_are_weighed(runs: RunList) -> None:
    labels = {"user": "ada", "tags": ["beta"]}
    runs.take_event(record(), 5, 100)
    before = runs._open.shares.total
    runs.take_event(encode({**decode(record(1)), "run": labels}), 6, 200)
    (run,) = runs
    assert run.labels == (("user", "ada"), ("tag", "beta"))
    assert runs._open.shares.total - before == run_list.PER_CHARACTER * len("adabeta")

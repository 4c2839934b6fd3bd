"""What a restart takes from the state topic."""

from __future__ import annotations

import tracemalloc

import orjson
import pytest

from pipeline.assembly.restored_state import RestoredState
from tests.support.toy import envelope, text
from topics import state
from topics.state import Closed, RunKey, Segment
from turnmill.envelope import encode
from turnmill.errors import InvalidRecord

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"
RUN = RunKey(None, THREAD, "run/1")
OTHER = RunKey(None, THREAD, "run/2")
FIRST = Closed(10, 3, complete=False, at=1_000)
AGAIN = Closed(20, 5, complete=False, at=2_000, revision=1)
DONE = Closed(15, 4, complete=True, at=1_500)


def key(run: RunKey, entry: Segment | Closed) -> bytes:
    name = state.closed_key(run, entry) if isinstance(entry, Closed) else state.segment_key(run, entry)
    return name.encode()


def taken(*entries: tuple[RunKey, Segment | Closed] | bytes) -> RestoredState:
    """Entries, and keys of those that were removed."""
    remembered = RestoredState()
    for entry in entries:
        if isinstance(entry, bytes):
            remembered.take(entry, None)
        else:
            remembered.take(key(*entry), state.encode(*entry))
    return remembered


@pytest.mark.parametrize(
    ("marks", "counts"),
    [
        ([FIRST, AGAIN], AGAIN),
        ([AGAIN, FIRST], AGAIN),  # by a writer that was late
        ([AGAIN, DONE], DONE),
        ([DONE, AGAIN], DONE),
        ([FIRST, FIRST], FIRST),
    ],
)
def test_of_a_runs_marks_the_last_counts_and_complete_is_for_good(marks: list[Closed], counts: Closed) -> None:
    remembered = taken(*((RUN, mark) for mark in marks))
    assert remembered.marks.get(RUN) == counts
    assert list(remembered.marks) == [RUN]


def test_a_mark_that_was_removed_is_forgotten_and_no_other_with_it() -> None:
    remembered = taken((RUN, FIRST), (OTHER, FIRST), (RUN, AGAIN), key(RUN, FIRST), key(OTHER, FIRST))
    assert remembered.marks.get(RUN) == AGAIN
    assert remembered.marks.get(OTHER) is None
    assert len(remembered.marks) == 1


def test_segments_stay_until_they_are_removed() -> None:
    parts = [Segment(1, 2, 500, [b"{}"], part) for part in range(3)]
    remembered = taken(*((RUN, part) for part in parts), (OTHER, parts[0]), key(RUN, parts[1]), key(OTHER, parts[0]))
    assert {run: list(found.values()) for run, found in remembered.by_run().items()} == {RUN: [parts[0], parts[2]]}


def test_now_is_the_newest_time_of_all() -> None:
    assert taken((RUN, AGAIN), (RUN, FIRST), (OTHER, Segment(1, 2, 1_999, [b"{}"]))).now == AGAIN.at


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"\xff", None),
        (b"\xff", b"{}"),
        (key(RUN, FIRST), b"rubbish"),
        (key(RUN, FIRST), b'{"v":1,"seq":"3","complete":true,"at":1,"revision":0}'),
        (key(RUN, FIRST), b'{"v":1,"seq":3,"complete":true,"at":1e30,"revision":0}'),
        (key(RUN, FIRST), b'{"v":1,"seq":3,"complete":true,"at":18446744073709551615,"revision":0}'),
        (f"{THREAD}/run/1#closed-99999999999999999999".encode(), state.encode(RUN, FIRST)),
        (f"{THREAD}/run/1#1-2.0".encode(), b'{"v":1,"at":"noon","sizes":[]}\n'),
    ],
)
def test_what_is_no_entry_says_so_and_changes_nothing(name: bytes, value: bytes | None) -> None:
    remembered = taken((RUN, FIRST))
    with pytest.raises(InvalidRecord):
        remembered.take(name, value)
    assert remembered.marks.get(RUN) == FIRST
    assert not remembered.segments


# ---- tenants, of whom an older version knew nothing


ACME, EVIL = (RunKey(tenant, THREAD, "run/1") for tenant in ("acme", "evil"))


def of_older_version(value: bytes) -> bytes:
    """An entry as it was written before tenants stood in it."""
    head, line, rest = value.partition(b"\n")
    return orjson.dumps({name: field for name, field in orjson.loads(head).items() if name != "tenant"}) + line + rest


def taken_of_older_version(*entries: tuple[RunKey, Segment | Closed]) -> RestoredState:
    remembered = RestoredState()
    for run, entry in entries:
        remembered.take(key(run, entry), of_older_version(state.encode(run, entry)))
    return remembered


def raw(tenant: str | None, seq: int) -> bytes:
    return encode(envelope(seq, text(f"{tenant} {seq}"), run_id="run/1", **({"tenant": tenant} if tenant else {})))


def test_runs_of_the_same_ids_are_kept_apart_and_removed_by_keys_that_name_no_tenant() -> None:
    remembered = taken((ACME, FIRST), (EVIL, DONE), (RUN, AGAIN), (ACME, Segment(1, 2, 5, [b"{}"])))
    assert [remembered.marks.get(run) for run in (ACME, EVIL, RUN)] == [FIRST, DONE, AGAIN]
    remembered.take(key(EVIL, DONE), None)
    assert [remembered.marks.get(run) for run in (ACME, EVIL, RUN)] == [FIRST, None, AGAIN]
    assert list(remembered.by_run()) == [ACME]
    remembered.take(key(ACME, Segment(1, 2, 5)), None)
    assert remembered.by_run() == {}


def test_a_mark_of_an_older_version_counts_for_every_tenant() -> None:
    remembered = taken_of_older_version((RUN, FIRST))
    assert [remembered.marks.get(run) for run in (ACME, EVIL, RUN)] == [FIRST, FIRST, FIRST]
    assert remembered.marks.get(OTHER) is None
    remembered.take(key(RUN, AGAIN), state.encode(ACME, AGAIN))
    assert [remembered.marks.get(run) for run in (ACME, EVIL)] == [AGAIN, FIRST]
    remembered.take(key(RUN, FIRST), None)
    assert [remembered.marks.get(run) for run in (ACME, EVIL)] == [AGAIN, None]


def test_a_run_that_an_older_version_closed_is_reopenable_and_keeps_a_mark_of_its_own() -> None:
    remembered = taken_of_older_version((RUN, FIRST), (RUN, Segment(5, 10, 900, [raw("acme", 0)])))
    _, reopenable, _ = remembered.runs(remembered.by_run())
    assert list(reopenable) == [ACME]
    assert remembered.marks.own(ACME) == FIRST


def test_a_segment_in_which_an_older_version_mixed_tenants_is_split() -> None:
    records = [raw("acme", 0), raw(None, 0), raw("acme", 1), raw("evil", 8), b"rubbish"]
    parts = [Segment(5, 10, 900, records[:2], 0), Segment(5, 10, 900, records[2:], 1)]
    later = Segment(12, 13, 950, [raw("acme", 2)])
    found = taken_of_older_version(*((RUN, part) for part in (*parts, later))).by_run()
    assert {run.tenant: [segment.records for segment in own.values()] for run, own in found.items()} == {
        "acme": [records[:1], records[2:3], later.records],
        None: [records[1:2]],
        "evil": [records[3:]],
    }
    assert [*found[ACME]] == [key(RUN, entry).decode() for entry in (*parts, later)]
    # Their runs will have marks of their own, since what is remembered of them names an offset.
    assert {run.tenant: [segment.last_offset for segment in own.values()] for run, own in found.items()} == {
        "evil": [10],
        "acme": [9, 9, 13],
        None: [8],
    }


def test_a_key_that_nobody_knows_removes_nothing() -> None:
    remembered = taken((RUN, FIRST), b"strange", b"", key(OTHER, FIRST))
    assert list(remembered.marks) == [RUN]


def test_what_was_removed_since_takes_no_memory_and_the_rest_is_packed() -> None:
    runs = [RunKey(None, f"6f1d6f5e-6f0a-4c0b-9d51-{number:012}", f"run-{number}") for number in range(30_000)]
    tracemalloc.start()
    try:
        remembered = RestoredState()
        for number, run in enumerate(runs):
            mark = Closed(number, 3, complete=True, at=number)
            remembered.take(key(run, mark), state.encode(run, mark))
            if number >= 10_000:
                oldest = Closed(number - 10_000, 3, complete=True, at=number - 10_000)
                remembered.take(key(runs[number - 10_000], oldest), None)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(remembered.marks) == 10_000
    assert most < 10_000 * 300  # bytes; as objects it was three times as much

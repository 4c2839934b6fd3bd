"""What a restart takes from the state topic."""

import pytest

from pipeline.assembly.parking import outlined
from pipeline.assembly.restored_state import RestoredState
from pipeline.dialects import DIALECTS
from topics import state
from topics.state import Clocks, Closed, RunKey, Segment
from turnmill.errors import InvalidRecord
from turnmill.wire import envelope

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
    parts = [Segment(1, 2, 500, Clocks(500), [b"{}"], part) for part in range(3)]
    remembered = taken(*((RUN, part) for part in parts), (OTHER, parts[0]), key(RUN, parts[1]), key(OTHER, parts[0]))
    assert {run: list(found.values()) for run, found, _ in remembered.by_run()} == {RUN: [parts[0], parts[2]]}


@pytest.mark.parametrize("tenant", [None, "acme"])
@pytest.mark.parametrize("seqs", [(0, 2), ()])  # without any: its record can't be read
def test_what_has_no_room_is_unpacked_as_the_outline_that_it_was(tenant: str | None, seqs: tuple[int, ...]) -> None:
    run = RunKey(tenant, THREAD, "run/1")
    names = {**run._asdict(), "v": 1, "agent_id": "a", "dialect": "vercel-ai", "ts": 17}
    events = [{"type": "start"}, {"type": "text-delta", "id": "t", "delta": "x"}]
    records = [envelope.encode({**names, "seq": seq, "events": events}) for seq in seqs] or [b"{"]
    segment = Segment(3, 9, 7_000, Clocks(5_000, 6_000, None), records, 1, None, 8)
    remembered = RestoredState(DIALECTS, 0)
    remembered.take(key(run, segment), state.encode(run, segment))
    of_run = {run: segments for run, segments, _ in remembered.by_run()}
    assert of_run == {run: {key(run, segment).decode(): outlined(segment, DIALECTS)}}


@pytest.mark.parametrize(("data", "stays"), [([[]] * 1_000, False), ("x" * 3_000, True)])
def test_a_segment_takes_the_room_that_its_events_take_when_the_run_is_built(data: object, stays: bool) -> None:  # noqa: FBT001  # of a table
    names = {**RUN._asdict(), "v": 1, "agent_id": "a", "dialect": "vercel-ai", "ts": 17}
    record = envelope.encode({**names, "seq": 0, "events": [{"type": "data-x", "data": data}]})
    segment = Segment(3, 3, 7_000, Clocks(5_000), [record])
    remembered = RestoredState(DIALECTS, 10_000)
    remembered.take(key(RUN, segment), state.encode(RUN, segment))
    [(_, segments, _)] = remembered.by_run()
    assert (list(segments.values()) == [segment]) is stays


def test_now_is_the_newest_time_of_all() -> None:
    assert taken((RUN, AGAIN), (RUN, FIRST), (OTHER, Segment(1, 2, 1_999, Clocks(1_999), [b"{}"]))).now == AGAIN.at


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"\xff", None),
        (b"\xff", b"{}"),
        (key(RUN, FIRST), b"rubbish"),
        (key(RUN, FIRST), b'{"v":1,"tenant":null,"seq":"3","complete":true,"at":1,"revision":0}'),
        (key(RUN, FIRST), b'{"v":1,"tenant":null,"seq":3,"complete":true,"at":1e30,"revision":0}'),
        (key(RUN, FIRST), b'{"v":1,"tenant":null,"seq":3,"complete":true,"at":18446744073709551615,"revision":0}'),
        (f"{THREAD}/run/1#closed-99999999999999999999".encode(), state.encode(RUN, FIRST)),
        (f"{THREAD}/run/1#1-2.0".encode(), b'{"v":1,"tenant":null,"at":"noon","sizes":[],"clocks":[1,null,null]}\n'),
        (f"{THREAD}/run/1#1-2.0".encode(), b'{"v":1,"tenant":null,"at":1,"sizes":[],"clocks":[1,null,"2"]}\n'),
    ],
)
def test_what_is_no_entry_says_so_and_changes_nothing(name: bytes, value: bytes | None) -> None:
    remembered = taken((RUN, FIRST))
    with pytest.raises(InvalidRecord):
        remembered.take(name, value)
    assert remembered.marks.get(RUN) == FIRST
    assert not remembered.segments


# ---- tenants


ACME, EVIL = (RunKey(tenant, THREAD, "run/1") for tenant in ("acme", "evil"))


def test_runs_of_the_same_ids_are_kept_apart_and_removed_by_keys_that_name_no_tenant() -> None:
    remembered = taken((ACME, FIRST), (EVIL, DONE), (RUN, AGAIN), (ACME, Segment(1, 2, 5, Clocks(5), [b"{}"])))
    assert [remembered.marks.get(run) for run in (ACME, EVIL, RUN)] == [FIRST, DONE, AGAIN]
    remembered.take(key(EVIL, DONE), None)
    assert [remembered.marks.get(run) for run in (ACME, EVIL, RUN)] == [FIRST, None, AGAIN]
    assert remembered.segments.keys() == {key(ACME, Segment(1, 2, 5, Clocks(5)))}
    remembered.take(key(ACME, Segment(1, 2, 5, Clocks(5))), None)
    assert not remembered.segments

"""Recent records, ids of events, and each event once."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gateway.live.event_record import EventRecord
from pipeline.gateway.live.recent_events import EventId, Position, Ranges, Reading, Recent, places_of
from topics.thread_key import ThreadKey
from turnmill.remembered import ENTRY_BYTES, SCOPE_BYTES
from turnmill.wire.envelope import encode

THREAD = "5f0c9d2e-8a53-4a0e-9a1b-3f6d1c2b7e01"
OTHER = "0b0e2f6c-6f5e-4a59-8f0b-9f3f3c8f2a11"
MINE, NOBODYS = ThreadKey(THREAD, "acme"), ThreadKey(THREAD)


def held(
    offset: int, seq: int, count: int = 1, *, run: str = "r", thread: str = THREAD, partition: int = 0, **more: object
) -> EventRecord:
    events = [{"type": "text-delta", "n": seq + n} for n in range(count)]
    envelope = {"v": 1, "thread_id": thread, "run_id": run, "agent_id": "a", "dialect": "vercel-ai", "seq": seq}
    value = encode({**envelope, "ts": 1000 + seq, "events": events, **more})
    return EventRecord(partition, offset, 5000 + offset, value)


@pytest.mark.parametrize("text", ["0-0.0", "11-123456789012.899"])
def test_a_place_is_its_text(text: str) -> None:
    assert str(EventId.parse(text)) == text


@pytest.mark.parametrize("text", ["", "1-2", "1-2.3.4", "-1-2.3", "1-2.3 ", "1-²2.3", "1-1234567890123456789.1", "x"])
def test_any_other_text_is_no_place(text: str) -> None:
    assert EventId.parse(text) is None


BYTES_OF_ONE = held(0, 0).size + ENTRY_BYTES + 28


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=30))
def test_ranges_are_a_set(adds: list[tuple[int, int]]) -> None:
    ranges, known = Ranges(), set[int]()
    for start, count in adds:
        numbers = range(start, start + count)
        assert ranges.add(start, count) == [n for n in numbers if n not in known]
        known.update(numbers)
    spans = list(zip(ranges.starts, ranges.stops, strict=True))
    assert {n for start, stop in spans for n in range(start, stop)} == known
    assert all(stop < start for (_, stop), (start, _) in itertools.pairwise(spans))


def test_what_comes_twice_is_given_once() -> None:
    reading = Reading()
    records = [held(0, 0, 2), held(1, 1, 3), held(2, 0, 5, end="complete"), held(3, 0, 5, end="complete")]
    events = [event for record in records for event in reading.events(record)]
    assert [event.seq for event in events] == [0, 1, 2, 3, 4, 5]
    assert [event.event["n"] for event in events[:-1]] == [0, 1, 2, 3, 4]
    assert (events[-1].end, str(events[-1].event_id)) == ("complete", "0-2.5")
    assert [str(event.event_id) for event in events[:4]] == ["0-0.0", "0-0.1", "0-1.1", "0-1.2"]


def test_a_later_end_is_told() -> None:
    reading = Reading()
    ends = [event.end for n in (0, 1) for event in reading.events(held(n, n, end=["disconnected", "complete"][n]))]
    assert ends == [None, "disconnected", None, "complete"]


def test_hidden_runs_are_read_and_not_given() -> None:
    reading = Reading(hidden={"old"}, until={0: 2})
    assert not reading.events(held(0, 0, run="old"))
    assert reading.events(held(1, 0, run="new"))
    assert not reading.events(held(2, 0, run="old")), "it was there before"
    assert reading.events(held(3, 1, run="old")), "it goes on"


def test_what_is_no_record_is_passed_over() -> None:
    record = EventRecord(0, 7, 0, b"rubbish")
    recent = Recent(1000)
    recent.begin(0, 7)
    assert recent.add(record) is None
    assert recent.position[0] == 8
    assert Reading().events(record) == []


def test_memory_is_bounded_and_says_from_where_it_is_whole() -> None:
    recent = Recent(SCOPE_BYTES + 5 * BYTES_OF_ONE + 100)
    recent.begin(0, 0)
    for n in range(20):
        thread = THREAD if n % 2 else OTHER
        assert recent.add(held(n, n, thread=thread)) == ThreadKey(thread)
    assert recent.bytes <= SCOPE_BYTES + 5 * BYTES_OF_ONE + 100
    assert recent.floor[0] == 15
    assert [record.offset for record in recent.since(NOBODYS, Position({0: 15}))] == [15, 17, 19]
    assert [record.offset for record in recent.since(ThreadKey(OTHER), Position({0: 17}))] == [18]
    assert recent.since(ThreadKey("no such thread"), Position({0: 15})) == []


def test_the_same_ids_of_two_tenants_are_two_threads() -> None:
    """Whatever another tenant sends to the same thread and the same run: nothing of it is seen, or changes anything."""
    recent, alone = Recent(10**6), Recent(10**6)
    for one in (recent, alone):
        one.begin(0, 0)
    mine = [held(1, 0, 2, tenant="acme"), held(4, 2, 2, tenant="acme")]
    theirs = [
        held(0, 0, 9, tenant="evil"),
        held(2, 2, tenant="evil", end="complete"),
        held(3, 3),
        held(5, 4, tenant=""),
    ]
    for record in sorted([*mine, *theirs], key=lambda one: one.offset):
        recent.add(record)
    for record in mine:
        alone.add(record)
    assert recent.since(MINE, Position({0: 0})) == mine
    assert alone.since(MINE, Position({0: 0})) == mine
    assert recent.since(NOBODYS, Position({0: 0})) == theirs[2:], "no tenant and the empty one are the same"


def test_a_topic_that_was_made_anew_starts_anew() -> None:
    recent = Recent(10**6)
    recent.begin(0, 50)
    recent.begin(1, 9)
    recent.add(held(50, 0))
    recent.add(held(9, 0, thread=OTHER, partition=1))
    recent.add(held(0, 0, run="new"))
    assert [record.offset for record in recent.since(NOBODYS, Position({0: 0}))] == [0]
    assert (recent.floor, recent.position) == ({0: 0, 1: 9}, {0: 1, 1: 10})
    assert recent.since(ThreadKey(OTHER), Position({1: 9}))


@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_a_reader_that_breaks_off_goes_on_exactly(rng: random.Random, records: int) -> None:
    """Whatever comes twice or out of order: the ids after any id are those that a reader without a break gets."""
    log = [held(n, rng.randrange(12), rng.randint(1, 4), run=rng.choice("ab")) for n in range(records)]
    reading = Reading()
    whole = [event.event_id for record in log for event in reading.events(record)]
    after = rng.choice(whole)
    again = Reading([after])
    assert [event.event_id for record in log for event in again.events(record)] == whole[whole.index(after) + 1 :]


@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_a_reader_of_scattered_records_goes_on_exactly(rng: random.Random, records: int) -> None:
    """A run whose records are in several partitions, read again in another order: the rest comes, and nothing twice."""
    log = [held(n, n, partition=rng.randrange(3), run=rng.choice("ab")) for n in range(records)]
    reading, whole = Reading(), list[tuple[EventId, str]]()
    for record in log:
        whole += [(event.event_id, reading.id_of(event.event_id)) for event in reading.events(record)]
    at = rng.randrange(len(whole))
    places = places_of(whole[at][1])
    assert places is not None
    assert places[0] == whole[at][0]
    again = Reading(places)
    by_partition = sorted(log, key=lambda record: record.partition)
    rest = [event.event_id for record in by_partition for event in again.events(record)]
    assert sorted(rest) == sorted(place for place, _ in whole[at + 1 :])


@pytest.mark.parametrize("text", ["0-1.2,", "0-1.2,0-1.3", "0-1.2;1-1.2", "0-1.2, 1-1.2"])
def test_places_of_one_partition_each(text: str) -> None:
    assert places_of(text) is None


def test_a_thread_is_read_in_all_partitions() -> None:
    recent, position = Recent(10**6), Position({0: 1, 1: 90})
    recent.begin(0, 0)
    recent.begin(1, 90)
    for record in (held(0, 0), held(90, 2, partition=1), held(1, 1), held(2, 4)):
        recent.add(record)
    places = [(record.partition, record.offset) for record in recent.since(NOBODYS, position)]
    assert places == [(0, 1), (0, 2), (1, 90)], "the past is in the order of the broker's time"
    recent.add(held(91, 5, partition=1))
    recent.begin(2, 0)
    recent.add(held(0, 6, partition=2))
    places = [(record.partition, record.offset) for record in recent.since(NOBODYS, position)]
    assert places == [(1, 91), (2, 0)], "a partition that came later is read from its beginning"
    assert recent.since(NOBODYS, position) == []


def test_old_records_are_held_as_bytes() -> None:
    recent = Recent(1_000_000)
    recent._fresh.size = SCOPE_BYTES + 2 * BYTES_OF_ONE
    recent.begin(0, 0)
    for n in range(4):
        recent.add(held(n, n))
    found = recent.since(NOBODYS, Position({0: 0}))
    assert [record.fresh for record in found] == [False, False, True, True]
    assert [[event.seq for event in Reading().events(record)] for record in found] == [[0], [1], [2], [3]]
    assert found[3].envelope is found[3].envelope, "decoded once for all who read along"
    assert found[0].envelope is not found[0].envelope
    recent.add(held(4, 4, more="x" * 2_000))
    assert not recent.since(NOBODYS, Position({0: 4}))[0].fresh, "a large one takes the place of several"

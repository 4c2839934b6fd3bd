"""Spans come late, split, again, in any order and through several gateways: the turns are the same."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from tests.support.otel import CASES, envelopes_of, events_in, records_of
from topics.json_text import Fields
from topics.turn_record import TurnRecord
from turnmill.wire.envelope import encode

NAMED = ("pydantic-ai", "openinference-langchain")  # each span has the conversation's id, each call its words
GRACE = Limits().grace_ms


def told(records: Sequence[TurnRecord]) -> dict[str, Fields]:
    """The newest revision of each turn, by its id: its thread and what it says."""
    newest: dict[str, TurnRecord] = {}
    for record in sorted(records, key=lambda record: record["revision"]):
        newest[record["turn_id"]] = record
    return {
        name: {key: record.get(key) for key in ("thread_id", "run_id", "hash", "turn", "lineage", "ranges")}
        for name, record in newest.items()
    }


def delivered(envelopes: Sequence[Fields], rng: random.Random, *, closing: bool) -> list[TurnRecord]:
    """The turns of records in any order, some of them twice; `closing`: some come after the run was closed."""
    several = [*envelopes, *rng.sample(envelopes, len(envelopes) // 2)]
    rng.shuffle(several)
    partition = Partition(DIALECTS, Limits(), 0)
    now = 1_000_000
    for offset, envelope in enumerate(several):
        partition.feed([StoredRecord(encode(envelope), offset, now)])
        if closing and rng.random() < 0.2:
            now += Limits().idle_ms + 1
            partition.tick(now)
        if rng.random() < 0.1:
            partition.spill()
    partition.tick(now + Limits().idle_ms + 1)
    out = partition.take_out()
    assert out.dead == []
    return list(out.turns)


@pytest.mark.parametrize("case", CASES)
@given(seed=st.integers(0, 2**32))
def test_order_and_repetition_change_nothing(case: str, seed: int) -> None:
    events = events_in(case)
    assert told(delivered(envelopes_of(events), random.Random(seed), closing=False)) == told(records_of(events))


@pytest.mark.parametrize("case", NAMED)
@given(seed=st.integers(0, 2**32))
def test_what_comes_after_a_run_was_closed_is_a_revision(case: str, seed: int) -> None:
    events = events_in(case)
    assert told(delivered(envelopes_of(events), random.Random(seed), closing=True)) == told(records_of(events))


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_closed_soon_after_its_last_span(case: str) -> None:
    partition = Partition(DIALECTS, Limits(), 0)
    for offset, envelope in enumerate(envelopes_of(events_in(case))):
        partition.feed([StoredRecord(encode(envelope), offset, 1_000_000)])
    partition.tick(1_000_000 + GRACE + 1)
    assert partition.open_runs() == 0
    assert partition.take_out().turns != []


def test_a_record_that_was_read_before_is_known_when_its_run_can_t_be_reopened() -> None:
    envelopes = envelopes_of(events_in("pydantic-ai"))
    limits = Limits(reopen_bytes=0)
    partition = Partition(DIALECTS, limits, 0)
    records = [StoredRecord(encode(envelope), offset, 1_000_000) for offset, envelope in enumerate(envelopes)]
    partition.feed(records)
    partition.tick(1_000_000 + GRACE + 1)
    turns = partition.take_out().turns
    partition.next = 0  # after a restart, a worker reads again what it has not committed
    partition.feed(records)
    out = partition.take_out()
    assert (len(turns), out.turns, out.dead) == (2, [], [])

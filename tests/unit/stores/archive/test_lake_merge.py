"""Which rows of the lake stand, and which offsets a snapshot holds."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.archive import lake_merge, lake_read, lake_rows
from pipeline.stores.archive.lake_read import Source
from pipeline.stores.archive.turn_archive import Entry
from pipeline.turns.requests import digest, prompt_of
from pipeline.turns.thread_document import newest, rank
from tests.support.turn_records import make_record
from topics import turn_record

RECORDS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 2), st.booleans(), st.sampled_from(["", "timeout"])),
    max_size=12,
)


def made(figures: Any) -> list[Any]:
    found = []
    for chat, run, revision, complete, reason in figures:
        status = "complete" if complete else "interrupted"
        record = make_record(f"c{chat}", f"r{run}", revision=revision, status=status)
        if reason and not complete:
            record["turn"]["interruption"] = {"reason": reason}
        found.append(record)
    return found


def batch(records: list[Any]) -> lake_rows.Batch:
    return lake_rows.batch(0, [Entry(n, n, turn_record.encode(one)) for n, one in enumerate(records)])


def digests(table: pa.Table) -> list[str]:
    return sorted(table["digest"].to_pylist())


@given(RECORDS, RECORDS)
def test_merged_in_two_steps_or_one_each_turn_is_there_once(first: Any, second: Any) -> None:
    one, other, both = batch(made(first)), batch(made(second)), batch(made([*first, *second]))
    for name in ("turns", "usage"):
        held, new, whole = (getattr(some, name) for some in (one, other, both))
        best = lake_merge.highest([held], other.ranks)
        stay = lake_merge.without_lower(held, best)
        assert lake_merge.has_lower(held, best) == (stay.num_rows < held.num_rows)
        merged = pa.concat_tables([stay, lake_merge.unknown(new, [held], best)])
        assert digests(merged) == digests(whole)
    assert len(both.turns) == len(newest(made([*first, *second])))


@given(RECORDS)
def test_the_rank_of_a_row_is_that_of_its_record(figures: Any) -> None:
    records = made(figures)
    best = {record["turn_id"]: rank(record) for record in newest(records)}
    for (_, _, turn_id), (events, *decides) in batch(records).ranks.items():
        assert best[turn_id] == (events, tuple(decides))


def test_turns_of_two_tenants_with_the_same_ids_are_two() -> None:
    found = batch([make_record(tenant="a"), make_record(tenant="b"), make_record(tenant=None)])
    assert sorted(tenant for _, tenant, _ in found.ranks) == ["", "a", "b"]
    assert lake_merge.doubles(found.turns) == {}


def test_a_response_names_the_prompt_that_it_answers() -> None:
    body = {"model": "m", "instructions": "Be brief."}
    asked = make_record(requests={digest(body): body})
    asked["turn"]["messages"][0]["meta:request"] = {"sha256": digest(body)}
    found = batch([asked, make_record("other")])
    assert found.usage["prompt"].to_pylist() == [prompt_of(body), None]


def test_what_no_column_takes_is_refused_alone() -> None:
    most = make_record("most", tokens=2**53 - 1)
    most["turn"]["messages"] *= 1100
    records = [make_record("good"), make_record("bad") | {"ordinal": 2**63}, make_record("day", hash=5), most]
    entries = [Entry(n, n, turn_record.encode(one)) for n, one in enumerate(records)]
    found = lake_rows.batch(0, [*entries, Entry(4, 4, b"no turn record"), Entry(5, 5, None)])
    assert sorted(one.offset for one in found.refused) == [1, 2, 4, 5]
    assert sorted(found.turns["total_tokens"].to_pylist()) == [11, 2**63 - 1]
    assert len(found.usage) == 1101


def test_a_snapshot_says_which_offsets_it_holds() -> None:
    def source(begin: int, end: int, at: int) -> Source:
        return Source("turns", 3, begin, end, at)

    offsets = lake_read.with_source({}, source(5, 10, 100))
    assert not lake_read.holds(offsets, Source("turns", 4, 5, 10, 100))
    for begin, end, at, held in ((5, 10, 100, True), (6, 9, 90, True), (4, 10, 90, False), (5, 11, 90, False)):
        assert lake_read.holds(offsets, source(begin, end, at)) == held
    assert not lake_read.holds(offsets, source(5, 10, 101))  # of a topic that was made again
    offsets = lake_read.with_source(offsets, source(10, 20, 90))
    assert lake_read.parse(lake_read.text_of_offsets(offsets)) == {"turns/3": (5, 20, 100)}
    assert lake_read.with_source(offsets, source(0, 3, 300)) == {"turns/3": (0, 3, 300)}
    assert lake_read.with_source(offsets, source(25, 30, 300)) == {"turns/3": (25, 30, 300)}
    assert lake_read.parse(None) == {}

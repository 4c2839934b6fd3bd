"""What records weigh: texts their bytes, and many small values what they take in memory."""

import json
import sys
from typing import Any

import pytest

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.weight import LARGE_RECORD, LIGHT, structure, weight
from tests.support.toy import TOYS, Log, envelope
from turnmill.wire.envelope import encode


def test_a_small_record_of_a_light_run_weighs_its_bytes() -> None:
    events = [{"output": [{}] * 1000}]
    assert weight(LARGE_RECORD, events, LIGHT - LARGE_RECORD) == LARGE_RECORD
    assert weight(LARGE_RECORD + 1, events, 0) > LARGE_RECORD + 64_000
    assert weight(LARGE_RECORD, events, LIGHT - LARGE_RECORD + 1) > LARGE_RECORD + 64_000


def test_a_large_text_weighs_little_more_than_its_bytes() -> None:
    assert structure([{"type": "text-delta", "delta": "{[,]}" * 200_000}]) < 1000


def taken(value: Any) -> int:
    """Bytes of memory that a parsed value takes."""
    found, left = 0, [value]
    while left:
        item = left.pop()
        found += sys.getsizeof(item)
        left.extend(item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
    return found


@pytest.mark.parametrize(
    "value",
    [
        [{}] * 1000,
        [[]] * 1000,
        json.loads("[" * 900 + "]" * 900),
        [{"": 0}] * 1000,
        [{"id": 17, "name": "abcdef", "score": 1.5, "tags": ["a", "b"]}] * 1000,
        ["ab"] * 1000,
        [1.5] * 1000,
        {f"{number:05}": "" for number in range(1000)},
    ],
)
def test_what_small_values_take_is_not_underestimated_by_much(value: Any) -> None:
    assert 0.7 * taken(value) < structure([{"output": value}]) + len(encode({"": value})) < 2.5 * taken(value)


def test_members_of_an_event_are_weighed_where_they_are_many() -> None:
    assert structure([{str(number): 0 for number in range(1000)}]) > 50_000
    assert structure([[0] * 1000]) > 30_000


def test_a_run_is_cut_off_by_what_it_weighs() -> None:
    partition, log = Partition(TOYS, Limits(run_bytes=1_000_000), 0), Log()
    for seq in range(200):
        log.add(envelope(seq, [{"type": "note", "data": ["x" * LARGE_RECORD if seq == 0 else {}] * (1 + seq)}]))
    partition.feed(log.records)
    assert not partition.out.dead  # they are small, and the run is light

    partition, log = Partition(TOYS, Limits(run_bytes=1_000_000), 0), Log()
    for seq in range(10):
        log.add(envelope(seq, [{"type": "note", "data": [{}] * 30_000}]))
    partition.feed(log.records)
    assert sum(len(one.value) for one in log.records) < 1_000_000
    assert [one.reason for one in partition.out.dead] == ["too_large"] * 10
    [turn] = partition.out.turns
    assert turn["status"] == "interrupted"

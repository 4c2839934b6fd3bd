"""The list of open runs against the assembler itself: what a checkpoint leaves on both topics tells the same runs."""

from random import Random

import pytest

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run_list import RunList
from pipeline.assembly.usual_silence import UsualSilence
from tests.support.partitions import taken
from tests.support.toy import START, THREAD, TOYS, envelope, text
from topics.state import RunKey
from turnmill.wire.envelope import encode

LIMITS = Limits(idle_ms=10_000, run_ms=60_000, spill_ms=2_000, reopen_ms=100_000_000, dedupe_ms=100_000_000)


@pytest.mark.parametrize("seed", range(60))
def test_the_same_runs_are_open(seed: int) -> None:
    """Runs that begin, go on, pause, end, are closed on their deadlines and opened again. At each checkpoint a reader
    who has seen nothing of it lists what the assembler has open, and so does one who has followed both topics.
    """
    random = Random(seed)
    partition = Partition(TOYS, LIMITS, 0)
    log: list[StoredRecord] = []
    state: list[tuple[str, bytes | None]] = []
    follower = RunList(LIMITS.reopen_ms, UsualSilence())
    nexts: dict[str, int] = {}
    ended: set[str] = set()
    now = START
    for _ in range(25):
        fresh = []
        for _ in range(random.randint(0, 6)):
            now += random.choice((5, 500, 3_000))
            run = f"r{random.randint(0, 7)}"
            if run in ended:
                continue
            end = "complete" if random.random() < 0.15 else "disconnected" if random.random() < 0.1 else None
            if end == "complete":
                ended.add(run)
            events = text("word")
            record = encode(envelope(nexts.get(run, 0), events, run_id=run, end=end))
            nexts[run] = nexts.get(run, 0) + len(events)
            fresh.append(StoredRecord(record, len(log) + len(fresh), now, THREAD.encode()))
        log += fresh
        partition.feed(fresh)
        now += random.choice((0, 2_500, 12_000))
        partition.tick(now)
        partition.spill()
        out = taken(partition)
        written = [*out.segments, *out.marks]
        state += written
        for one in [*written, *fresh] if random.random() < 0.5 else [*fresh, *written]:
            _take(follower, one)
        reader = RunList(LIMITS.reopen_ms, UsualSilence())
        for entry in state:
            _take(reader, entry)
        for stored in log[partition.floor() :]:
            _take(reader, stored)
        expected = {*partition.runs.open, *partition.runs.spilled}
        assert _keys(reader) == expected
        assert _keys(follower) == expected
        for one in reader:
            assert one.events == nexts[one.key.run_id]


def _take(runs: RunList, one: StoredRecord | tuple[str, bytes | None]) -> None:
    if isinstance(one, tuple):
        runs.take_state(one[0].encode(), one[1])
    else:
        runs.take_event(one.value, one.offset, one.timestamp)


def _keys(runs: RunList) -> set[RunKey]:
    return {one.key for one in runs}

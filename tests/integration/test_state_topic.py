"""The state topic on a real broker: what a takeover finds there, also after compaction, and beside what is no entry."""

import asyncio
from collections.abc import Iterable
from typing import Final

from pipeline.assembly.parking import OutlinedSegment
from pipeline.assembly.restored_state import RestoredState
from pipeline.settings import Settings
from pipeline.worker.assemble.state_reads import read_state
from tests.support.topic_records import configure, publish, read_all
from tests.support.waiting import until
from topics import state
from topics.catalog import STATE
from topics.state import Clocks, Closed, RunKey, Segment
from turnmill.limits import UNPACKED_BYTES

AT_ONCE: Final = {"segment.ms": "100", "delete.retention.ms": "0", "min.cleanable.dirty.ratio": "0.01"}

Entry = tuple[bytes, bytes | None]


def run(number: int) -> RunKey:
    return RunKey(None, f"thread-{number}", "run")


def marks(numbers: Iterable[int]) -> list[Entry]:
    closed = {number: Closed(number, 7, complete=True, at=1000 + number) for number in numbers}
    return [(state.closed_key(run(n), mark).encode(), state.encode(run(n), mark)) for n, mark in closed.items()]


def segments(numbers: Iterable[int]) -> list[Entry]:
    made = {number: Segment(number, number, 1000, Clocks(1000), [b"%d" % number]) for number in numbers}
    return [(state.segment_key(run(n), one).encode(), state.encode(run(n), one)) for n, one in made.items()]


def tombstones(entries: Iterable[Entry]) -> list[Entry]:
    return [(key, None) for key, _ in entries]


async def found(settings: Settings) -> tuple[dict[RunKey, Closed | None], dict[bytes, Segment | OutlinedSegment]]:
    """Return the marks and the segments that a worker reads when it takes over all partitions."""
    states = (await read_state(settings, range(settings.partitions), RestoredState)).values()
    return (
        {key: one.marks.get(key) for one in states for key in one.marks},
        {name.encode(): segment for one in states for _, some, _ in one.by_run() for name, segment in some.items()},
    )


async def test_a_takeover_finds_the_same_after_compaction(applied_settings: Settings) -> None:
    await configure(applied_settings, STATE, {**STATE.config(), **AT_ONCE})
    gone = [*marks(range(300)), *segments(range(400, 420))]
    stay = [*marks(range(300, 400)), *segments(range(420, 440))]
    await publish(applied_settings, STATE, [*gone, *stay])
    await publish(applied_settings, STATE, tombstones(gone))
    before = await found(applied_settings)
    assert (len(before[0]), len(before[1])) == (100, 20)

    async def compacted() -> bool:
        await publish(applied_settings, STATE, stay)  # a broker closes a segment when something comes behind it
        await asyncio.sleep(1)
        return {record.key for record in await read_all(applied_settings, STATE)} == {key for key, _ in stay}

    assert await until(compacted)
    assert await found(applied_settings) == before


async def test_a_batch_that_unpacks_to_too_much_stops_no_takeover(applied_settings: Settings) -> None:
    bomb = bytes(UNPACKED_BYTES + 1)
    packed = {"compression_type": "zstd", "max_batch_size": len(bomb), "max_request_size": len(bomb) + 1000}
    await publish(
        applied_settings,
        STATE,
        [(state.closed_key(run(1), Closed(1, 1, complete=True, at=1)).encode(), bomb)],
        **packed,
    )
    await publish(applied_settings, STATE, marks(range(10)))
    assert set((await found(applied_settings))[0]) == {run(number) for number in range(10)}

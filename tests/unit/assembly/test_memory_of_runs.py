"""The weight of a run is the memory that it takes, on every wire; parking keeps all open runs within their bound."""

import ctypes
import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from pipeline.assembly.limits import Limits
from pipeline.assembly.parked_runs import park, weigh, weight
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from pipeline.worker.assemble.checkpoint import FREE_FRACTION, PARKED_FRACTION
from tests.same_bytes import START, streams
from tests.support.partitions import taken
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import encode
from turnmill.wire.framing import decode

STREAMS: Final = {dialect: file for dialect, file in streams() if dialect in DIALECTS}  # the last of each
RUNS: Final = 40  # of a wire
MOST: Final = 33_554_432  # bytes of all open runs
SHAPES: Final = {"small": (40_000, (200,)), "large": (60, (2_000_000,)), "mixed": (6_000, (200,) * 99 + (500_000,))}


def record(offset: int, run: int, dialect: str, seq: int, events: list[object]) -> StoredRecord:
    thread_id = thread_uuid(f"thread-{run}")[0]
    envelope = {"v": 1, "thread_id": thread_id, "run_id": f"r-{run}", "agent_id": "a", "dialect": dialect}
    value = encode({**envelope, "seq": seq, "ts": START, "events": events})
    return StoredRecord(b"".join((value, b"")), offset, START, thread_id.encode())  # without memory that is not used


def allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_run_weighs_what_it_takes(dialect: str) -> None:
    items = decode(STREAMS[dialect].read_bytes(), DIALECTS[dialect].wire)
    events = [item.event for item in items if item.event is not None]
    events = events[: len(events) // 2 or 1]
    partition = Partition(DIALECTS, Limits(open_bytes=0), 0)
    tracemalloc.start()
    try:
        before = allocated()
        for seq, event in enumerate(events):
            partition.feed([record(seq * RUNS + run, run, dialect, seq, [event]) for run in range(RUNS)])
        taken(partition)
        if len(partition.runs.open) < RUNS:
            pytest.skip("half of this stream ends its runs, so that none is open to be weighed")
        open_runs = allocated() - before
        weigh(partition)
        assert open_runs * 0.8 < weight(partition) < open_runs * 1.4
        partition.spill()
        taken(partition)
        weigh(partition)
        spilled = allocated() - before
        assert spilled * 0.8 < weight(partition) < spilled * 1.4
    finally:
        tracemalloc.stop()


def texts(shape: str) -> Iterator[StoredRecord]:
    runs, sizes = SHAPES[shape]
    letters, offset = Random(1), 0
    for run in range(runs):
        left, seq = sizes[run % len(sizes)], 1
        yield record(offset, run, "vercel-ai", 0, [{"type": "text-start", "id": "t"}])
        while left > 0:
            size = min(left, 50_000)
            said = f"{letters.getrandbits(4 * size):0{size}x}"
            yield record(offset + seq, run, "vercel-ai", seq, [{"type": "text-delta", "id": "t", "delta": said}])
            left, seq = left - size, seq + 1
        offset += seq


def resident() -> int:
    """The bytes of this process, after what is free was returned to the system, as a worker does."""
    ctypes.CDLL(None).malloc_trim(0)
    (size,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(size.split()[1]) * 1024


def main(shape: str, most: int) -> float:
    """Return the largest ratio of what open runs have taken, to the bound."""
    partition, largest, batch = Partition(DIALECTS, Limits(), 0), 0, []
    before = resident()
    for each in texts(shape):
        batch.append(each)
        if len(batch) == 200:
            partition.feed(batch)
            partition.spill()
            weigh(partition)
            bound = most - most // FREE_FRACTION  # as `AssembleWork` parks
            if weight(partition) > bound:
                park(partition, bound - bound // PARKED_FRACTION)
            taken(partition)
            batch = []
            largest = max(largest, resident() - before)
    return largest / most


@pytest.mark.skipif(sys.platform != "linux", reason="measures the process by Linux's /proc, which others lack")
@pytest.mark.parametrize("shape", SHAPES)
def test_open_runs_keep_to_their_bound(shape: str) -> None:
    command = [sys.executable, "-m", __spec__.name, shape, str(MOST)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert float(told.stdout) < 1.3


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2])))  # noqa: T201  # the test reads it from the output of this process

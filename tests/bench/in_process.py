"""Assembly without a broker, beside orjson.loads alone: the cost of language and design without Kafka."""

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from tests.bench.loads import Load, text
from turnmill.errors import CallerError

RUNS = 1_500
BATCH = 2_000  # records of one feed


@dataclass(frozen=True, slots=True)
class InProcess:
    """Events/s of orjson.loads alone and of `Partition.feed`, on the same records."""

    load: str
    dialect: str
    json_rate: float
    assembly_rate: float


def measure(load: Load, dialect: str) -> InProcess:
    """Measure a load of text deltas in this dialect, with RUNS runs."""
    small = text(load.name, load.title, RUNS, load.per_record, dialect=dialect)
    records = [StoredRecord(value, n, n // 100, key) for n, (key, value) in enumerate(small.records())]
    return InProcess(load.name, dialect, small.events / _loads(records), small.events / _feed(records, RUNS))


def _loads(records: Sequence[StoredRecord]) -> float:
    loads = orjson.loads
    gc.collect()
    began = time.perf_counter()
    for record in records:
        loads(record.value or b"")
    return time.perf_counter() - began


def _feed(records: Sequence[StoredRecord], runs: int) -> float:
    partition = Partition(DIALECTS, Limits(), 0)
    gc.collect()
    began = time.perf_counter()
    for batch in _batches(records):
        partition.feed(batch)
    seconds = time.perf_counter() - began
    out = partition.out
    if out.dead or len(out.turns) < runs or any(turn["status"] != "complete" for turn in out.turns):
        raise CallerError(f"{len(out.turns)} turns of {runs} runs, {len(out.dead)} dead letters: not worth measuring")
    return seconds


def _batches(records: Sequence[StoredRecord]) -> Iterator[Sequence[StoredRecord]]:
    for start in range(0, len(records), BATCH):
        yield records[start : start + BATCH]

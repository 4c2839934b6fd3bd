"""What a worker counts of its assembly."""

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.results import Out
from pipeline.dialects import DIALECTS
from pipeline.observability.metrics import Metrics
from pipeline.worker.assemble.metrics import AssemblyMetrics
from tests.bench.loads import unfinished


def partition(runs: int) -> Partition:
    """One with so many open runs, of 50 bytes of text each."""
    made = Partition(DIALECTS, Limits(), 0)
    load = unfinished(runs, 50)
    made.feed([StoredRecord(value, n, n, key) for n, (key, value) in enumerate(load.records())])
    return made


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_open_runs_are_summed_over_partitions_and_forgotten_with_them() -> None:
    metrics = Metrics()
    counts = AssemblyMetrics(metrics, "events")
    for number, runs in enumerate((2, 3, 0)):
        counts.count(number, partition(runs), Out())
    assert value(metrics, "turnmill_open_turns") == 5
    counts.count(1, partition(1), Out())
    assert value(metrics, "turnmill_open_turns") == 3
    counts.forget()
    assert value(metrics, "turnmill_open_turns") == 0


def test_what_a_partition_did_is_counted_once() -> None:
    metrics = Metrics()
    counts = AssemblyMetrics(metrics, "events")
    assert value(metrics, "turnmill_records_read_total", topic="events") == 0
    core = partition(2)
    for _ in range(2):
        counts.count(0, core, Out())
    assert value(metrics, "turnmill_runs_opened_total") == 2
    assert value(metrics, "turnmill_records_read_total", topic="events") == 2
    assert value(metrics, "turnmill_open_turns") == 2

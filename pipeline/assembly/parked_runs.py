"""Parks runs of a partition if memory is short, and builds them when they are over; see `parking`."""

from collections.abc import Iterable
from operator import itemgetter

from pipeline.assembly.deadlines import ended, overdue
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import Record
from pipeline.assembly.results import Parked
from pipeline.assembly.run import Run
from pipeline.assembly.run_states import Event
from pipeline.assembly.spilled_run import SpilledRun, rebuild
from topics.state import RunKey, Segment


def weight(partition: Partition) -> int:
    """Return the approximate memory of the open runs, in bytes."""
    return partition.runs.spilled_weight + sum([run.size for run in partition.runs.open.values() if run.read is None])


def park(partition: Partition, most: int) -> None:
    """Park runs until the weight of the others is at most `most`, or all of them are light.

    Each step parks the heaviest run of the tenant with the heaviest runs, so that no tenant makes room for another.
    """
    excess = weight(partition) - most
    heavy: dict[str | None, list[tuple[int, RunKey]]] = {}
    sizes = [(run.size, key) for key, run in partition.runs.open.items() if run.read is None]
    sizes += [(spilled.weight, key) for key, spilled in partition.runs.spilled.items() if spilled.read is None]
    for size, key in sizes:
        if size >= partition.limits.park_bytes:
            heavy.setdefault(key.tenant, []).append((size, key))
    held = {tenant: sum(size for size, _ in runs) for tenant, runs in heavy.items()}
    for runs in heavy.values():
        runs.sort(key=itemgetter(0))
    while excess > 0 and held:
        tenant = max(held, key=held.__getitem__)
        size, key = heavy[tenant].pop()
        _park(partition, key)
        excess -= size
        held[tenant] -= size
        if not heavy[tenant]:
            del held[tenant]


def _park(partition: Partition, key: RunKey) -> None:
    partition.ends.counts.parked += 1
    run = partition.runs.open.get(key)
    if run is not None:
        partition.ends.store(key, run)
        partition.runs.spill(key, Event.MEMORY_BOUND)
    spilled = partition.runs.spilled[key]
    if spilled.run is not None:
        spilled.run.park()
        parked = SpilledRun.of(spilled.run)
    else:  # restored at a restart; building it first would take long
        parked = spilled.outlined(partition.dialects)
    partition.runs.replace_spilled(key, parked)


def build(partition: Partition, parked: Parked, segments: Iterable[Segment]) -> None:
    """Build a parked run from all its records, close it, and apply the records that have come for it since.

    Raises OSError if `segments` can't be read; then it may be called again.
    """
    key = parked.run
    before = partition.runs.spilled[key]
    read = -1 if before.read is None else before.read

    def take(run: Run, segment: Segment, record: Record) -> None:
        if segment.last_offset > read:
            partition.ends.collect(run, record)
        else:
            run.refusals.clear()
            run.builder.telemetry.clear()

    try:
        run = rebuild(key, segments, partition.dialect_of, partition.ends.out.dead, partition.limits.run_bytes, take)
    except OSError:
        raise
    except Exception as error:  # an error of this program, which must not stop other runs
        partition.ends.give_up(key, before.run, f"the run could not be built: {type(error).__name__}: {error}")
    else:
        _go_on(partition, parked, before, run)
    waiting = partition.ends.waited(key)
    for record in waiting:
        partition.take(record)
    if waiting:  # other runs have been opened since these records came
        partition.runs.sort_open()


def _go_on(partition: Partition, parked: Parked, before: SpilledRun, run: Run | None) -> None:
    """Replace the outline of a run by the run itself, and close it; `run` None: nothing of it can be read."""
    key = parked.run
    if run is None:
        partition.runs.give_up(key)
        partition.ends.remove_segments(key)
        return
    run.revision = before.revision
    partition.runs.replace_spilled(key, SpilledRun.of(run))
    event = ended(run, partition.limits) or overdue(run, parked.at, partition.limits)
    if event is not None:
        partition.ends.close(key, run, event, parked.at)
    else:  # its stream has not ended after all
        run.park()
        partition.runs.replace_spilled(key, SpilledRun.of(run))

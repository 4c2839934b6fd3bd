"""Parks runs of a partition if memory is short, and builds them when they are over; see `parking`."""

from collections.abc import Iterable

from pipeline.assembly.deadlines import ended, overdue
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import Record
from pipeline.assembly.results import Parked
from pipeline.assembly.run import Run
from pipeline.assembly.run_states import Event
from pipeline.assembly.spilled_run import SpilledRun, rebuild
from topics.state import RunKey, Segment


def weight(partition: Partition) -> int:
    """Return the memory of the open runs, in bytes."""
    return partition.runs.spilled.weight + sum([run.weight for run in partition.runs.open.values()])


def weigh(partition: Partition) -> None:
    """Look how much memory the runs take; without that it is estimated by their records."""
    for run in partition.runs.open.values():
        if run.read is None:
            run.weigh()
    partition.runs.spilled.weigh()


def park(partition: Partition, most: int) -> None:
    """Park runs until the weight of all is at most `most`, or all are parked.

    Each step parks one of the heaviest runs of the tenant whose runs weigh most, so that no tenant makes room for
    another. Of those that weigh about the same it is the oldest: runs of the same time lie beside each other, so that
    whole pages of memory become free.
    """
    runs, excess = partition.runs, weight(partition) - most
    of_tenant: dict[str | None, list[tuple[int, RunKey]]] = {}
    sizes = [(spilled.weight, key) for key, spilled in runs.spilled.whole.items() if spilled.read is None]
    sizes += [(run.weight, key) for key, run in runs.open.items()]
    for size, key in reversed(sizes):
        of_tenant.setdefault(key.tenant, []).append((size, key))
    held = {tenant: sum([size for size, _ in theirs]) for tenant, theirs in of_tenant.items()}
    for theirs in of_tenant.values():
        theirs.sort(key=lambda run: run[0].bit_length())
    while excess > 0 and held:
        tenant = max(held, key=held.__getitem__)
        size, key = of_tenant[tenant].pop()
        before = runs.spilled.weight - (0 if key in runs.open else size)
        _park(partition, key)
        excess -= size - (runs.spilled.weight - before)
        held[tenant] -= size
        if not of_tenant[tenant]:
            del held[tenant]


def _park(partition: Partition, key: RunKey) -> None:
    run = partition.runs.open.get(key)
    if run is not None:
        partition.ends.store(key, run)
        if run.read is None:  # else it has had a record since it was parked
            run.park()
            partition.ends.counts.parked += 1
        partition.runs.spill(key, Event.MEMORY_BOUND)
        return
    partition.ends.counts.parked += 1
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

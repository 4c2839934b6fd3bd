"""What is looked at all the time: whether the works of a worker keep to their bounds of memory."""

from typing import Final

from pipeline.assembly.partition import Partition
from pipeline.worker.assemble.checkpoint import AssembleWork, AssignedPartition
from pipeline.worker.host.group_work import Group, GroupWork
from pipeline.worker.host.work import Records

GROUP_BYTES: Final = 20_000  # of one transaction of the store role


def watch_assembly(work: AssembleWork, problems: list[str]) -> None:
    """Note where a partition holds more than its limits allow, after each batch and each tick."""
    handle, tick = work.handle, work.tick

    async def handled(partition: int, records: Records) -> None:
        await handle(partition, records)
        held = work.held.get(partition)
        if held is not None:
            look(partition, held.core)

    async def ticked(partition: int, idle_ms: int) -> None:
        await tick(partition, idle_ms)
        held = work.held.get(partition)
        if held is not None:
            look(partition, held.core, spilled=True)
            look_at_all(held)

    def look(partition: int, core: Partition, *, spilled: bool = False) -> None:
        limits, runs = core.limits, core.runs
        open_runs = runs.open.values()
        found = [("runs that can be reopened", runs.reopenable_bytes, limits.reopen_bytes)]
        rebuilt = [spilled.run for spilled in runs.spilled.whole.values() if spilled.run is not None]
        for run in (*open_runs, *rebuilt):
            # Where a worker died before it could mark a run whose window was full, the next one waits for its gap.
            early = limits.window_bytes if run in open_runs else limits.window_bytes + limits.record_bytes
            found.append(("the early records of one run", run.ahead, early))
            if run.read is None:  # it is not parked
                found.append(("the records of one run", run.size - run.ahead, limits.run_bytes))
        if spilled:  # each tick spills what is too much
            found.append(("open runs", sum(run.size - run.spilled for run in open_runs), limits.open_bytes))
        for what, size, allowed in found:
            if size > allowed:
                problems.append(f"partition {partition}: {what} hold {size} bytes in memory, {allowed} are allowed")

    def look_at_all(held: AssignedPartition) -> None:
        """By what each partition weighed when it was looked at last: it may have grown since, until its next tick."""
        weight, most = sum(each.weight for each in work.held.values()), work.settings.assembly_bytes
        whole = any(run.read is None for run in held.core.runs.open.values())
        heavy = weight > most and held.weight > most // len(work.held) and whole
        if heavy and held.core in too_heavy:  # it has made no room at this tick, nor at the one before
            problems.append(f"the open runs of a worker weigh {weight} bytes, {most} are allowed")
        (too_heavy.add if heavy else too_heavy.discard)(held.core)

    too_heavy: set[Partition] = set()
    work.handle, work.tick = handled, ticked  # type: ignore[method-assign]


def watch_groups(work: GroupWork, problems: list[str]) -> None:
    """Note where one transaction has more than it may."""
    apply = work.apply

    async def watched(group: Group) -> None:
        sizes = [len(record.value or b"") for _, records in group for record in records]
        if len(sizes) > 1 and sum(sizes) > GROUP_BYTES:
            problems.append(f"a group of {len(sizes)} turns has {sum(sizes)} bytes, {GROUP_BYTES} are allowed")
        await apply(group)

    work.apply = watched

"""What each mutant puts in the place of a rule: mostly what was there before the rule was."""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func

from pipeline.assembly import deadlines, finish, finishing, parked_runs, partition, run_ends, spilled_run
from pipeline.assembly.finishing import Finishing
from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.results import Out
from pipeline.assembly.run import Run
from pipeline.assembly.run_ends import RunEnds
from pipeline.assembly.run_states import RunStates
from pipeline.assembly.spilled_run import SpilledRun
from pipeline.assembly.spilled_runs import SPAN_MS, SpilledRuns
from pipeline.kafka.dead_letters import outgoing_letter, without_value
from pipeline.kafka.outbox import Outbox, Outgoing
from pipeline.policies.retention import Retention
from pipeline.stores.database import held_and_erased
from pipeline.stores.threads import rows, statements, write
from pipeline.stores.turns import write_turns
from pipeline.stores.usage import sums as usage_sums
from pipeline.turns import branches, thread_document
from pipeline.turns.event_coverage import Verdict, Version
from pipeline.turns.redaction import Redaction
from pipeline.worker.assemble import outgoing_results
from pipeline.worker.assemble.checkpoint import AssembleWork
from pipeline.worker.assemble.outgoing_results import OutgoingResults
from pipeline.worker.host import group_work
from pipeline.worker.host.commits import Stage
from pipeline.worker.sinks.store import TurnWriter
from topics import turn_record
from topics.state import Clocks, RunKey, Segment
from topics.thread_key import ThreadKey
from turnmill.limits import LEVELS

Patch = pytest.MonkeyPatch


def commit_before_flush(patch: Patch) -> None:
    async def flush(self: Stage) -> bool:
        return True

    patch.setattr(Stage, "flush", flush)


def marks_before_turns(patch: Patch) -> None:
    send = AssembleWork._send

    async def marks_first(self: AssembleWork, number: int, held: Any) -> None:
        for name, value in held.core.out.marks:
            await self.outbox.send(type(held.unsent)([self.results.state(number, name, value)]))
        await send(self, number, held)

    patch.setattr(AssembleWork, "_send", marks_first)


def failed_deliveries_forgotten(patch: Patch) -> None:
    async def forgets(self: Outbox) -> bool:
        todo, self.pending = self.pending, deque()
        if todo:
            await asyncio.wait([delivery for delivery, _ in todo])
        return True

    patch.setattr(Outbox, "flush", forgets)


def floor_is_next(patch: Patch) -> None:
    patch.setattr(Partition, "floor", lambda self: self.next)


def holes_passed_over(patch: Patch) -> None:
    patch.setattr("pipeline.worker.host.commits.HOLE_READS", 0)


def other_generations(patch: Patch) -> None:
    patch.setattr(Stage, "_ours", lambda self, partition, generation: partition in self.next)


def group_not_halved(patch: Patch) -> None:
    write = TurnWriter._write

    async def whole(self: TurnWriter, store: Any, records: Any) -> Any:
        if len(records) == 1:
            return await write(self, store, records)
        await write_turns(store, [turn_record.decode(record.value) for _, record in records])
        return []

    patch.setattr(TurnWriter, "_write", whole)


def tenants_of_runs(patch: Patch) -> None:
    patch.setattr(partition, "RunKey", lambda tenant, thread_id, run_id: RunKey(None, thread_id, run_id))


def tenants_of_threads(patch: Patch) -> None:
    patch.setattr(rows, "key_of", lambda record: ThreadKey(record["thread_id"], None))


def results_taken_early(patch: Patch) -> None:
    """Telemetry is redacted when its results have left the core already, and that may raise."""
    send = AssembleWork._send

    async def early(self: AssembleWork, number: int, held: Any) -> None:
        self.results.others = partial(redacted, self)  # type: ignore[method-assign]
        try:
            await send(self, number, held)
        except Exception:
            held.core.take_out()
            raise

    def redacted(work: AssembleWork, number: int, out: Out) -> list[Outgoing]:
        if work.redaction is not None:
            out.telemetry = [work.redaction.telemetry(record) for record in out.telemetry]
        return OutgoingResults.others(work.results, number, out)

    patch.setattr(AssembleWork, "_send", early)
    patch.setattr(finishing, "polished", lambda run, records, polish, last: records)


def ranges_ignored(patch: Patch) -> None:
    def by_rank(self: Version, known: Version) -> Verdict:
        return Verdict.REPLACES if self.rank > known.rank else Verdict.KNOWN

    patch.setattr(Version, "beside", by_rank)


def letters_without_bytes(patch: Patch) -> None:
    def letter(*args: Any) -> Outgoing:
        return without_value(outgoing_letter(*args))

    patch.setattr(outgoing_results, "outgoing_letter", letter)


def again_without_pause(patch: Patch) -> None:
    patch.setattr(group_work, "RETRY_DELAY", 0.0)


def open_runs_unbounded(patch: Patch) -> None:
    patch.setattr(partition, "spill_due", lambda run, held, now, limits: None)


def reopenable_unbounded(patch: Patch) -> None:
    bounds = RunStates._keep_within_bounds

    def unbounded(self: RunStates) -> None:
        self.limits, limits = replace(self.limits, reopen_bytes=2**60), self.limits
        try:
            bounds(self)
        finally:
            self.limits = limits

    patch.setattr(RunStates, "_keep_within_bounds", unbounded)


def checkpoint_raises(patch: Patch) -> None:
    async def raises(self: AssembleWork, wave: Any) -> bool:
        await self.outbox.send(wave)
        return await self.outbox.flush()

    patch.setattr(AssembleWork, "_delivered", raises)


def any_size_fits(patch: Patch) -> None:
    patch.setattr(Finishing, "all_fit", lambda self, turns: True)


def spilled_records_forgotten(patch: Patch) -> None:
    bury = RunEnds._bury

    def unspilled(self: RunEnds, key: RunKey, run: Any, detail: str) -> None:
        bury(self, key, run, detail)
        self.out.unbuilt.clear()

    patch.setattr(RunEnds, "_bury", unspilled)


def deep_turn_raises(patch: Patch) -> None:
    async def each(records: Any, places: Any, offload: Any) -> None:
        for place in places:
            records[place] = records[place]._replace(value=await offload(records[place].value or b""))

    patch.setattr(outgoing_results, "_offload", each)
    patch.setattr(turn_record, "OWN_LEVELS", LEVELS)


def window_counts_events(patch: Patch) -> None:
    def by_events(run: Run, limits: Limits) -> bool:
        return run.early.events > limits.window_events

    patch.setattr(deadlines, "window_is_full", by_events)
    patch.setattr(partition, "window_is_full", by_events)


def runs_of_any_size(patch: Patch) -> None:
    def boundless(envelope: Any, dialect: Any, record: Any, most: int = 0) -> Run:
        return Run(envelope, dialect, record)

    patch.setattr(partition, "Run", boundless)
    patch.setattr(spilled_run, "Run", boundless)


def groups_count_records(patch: Patch) -> None:
    patch.setattr(group_work, "GROUP_BYTES", 2**60)


def telemetry_as_it_is(patch: Patch) -> None:
    patch.setattr(Redaction, "telemetry", lambda self, record: record)


def answers_as_they_are(patch: Patch) -> None:
    patch.setattr(Redaction, "words", lambda self, text: text)


def one_history(patch: Patch) -> None:
    patch.setattr(branches, "_answer_hash", lambda turn: "")


def facts_as_they_are(patch: Patch) -> None:
    patch.setattr(Redaction, "_facts", lambda self, facts: facts)


def times_of_any_size(patch: Patch) -> None:
    for module in (finish, thread_document):
        patch.setattr(module, "bounded", lambda ms: ms)


def clocks_forgotten(patch: Patch) -> None:
    segments_of = run_ends.segments_of

    def without(run: Run) -> Iterator[Segment]:
        return (replace(segment, clocks=Clocks(segment.at)) for segment in segments_of(run))

    patch.setattr(run_ends, "segments_of", without)


def nothing_parked(patch: Patch) -> None:
    patch.setattr(parked_runs, "park", lambda partition, most: None)


def one_deadline_for_each(patch: Patch) -> None:
    """Only the first time that a run is spilled counts."""
    put, known = SpilledRuns.put, set()

    def put_once(runs: SpilledRuns, key: RunKey, spilled: SpilledRun) -> None:
        put(runs, key, spilled)
        if (id(runs), key) in known:
            runs._due[spilled.due // SPAN_MS].popitem()
        known.add((id(runs), key))

    patch.setattr(SpilledRuns, "put", put_once)


def ranges_not_read(patch: Patch) -> None:
    async def none(connection: Any, keys: Any) -> dict[Any, Any]:
        return {}

    patch.setattr(write, "_ranges", none)


def plain_sums(patch: Patch) -> None:
    patch.setattr(statements, "BoundedSum", func.sum)


def sums_only_grow(patch: Patch) -> None:
    right = usage_sums.of_changes

    def added(source: Any, *where: Any, undone: bool = False) -> Any:
        return right(source, source.c.sign > 0, *where, undone=undone)

    patch.setattr(usage_sums, "of_changes", added)


def late_turns_as_the_last(patch: Patch) -> None:
    with_turns = rows.with_turns
    patch.setattr(write, "with_turns", lambda row, added: (with_turns(row, added)[0], False))


def expired_turns_come_back(patch: Patch) -> None:
    apply = TurnWriter.apply

    async def forever(self: TurnWriter, group: Any) -> None:
        self.retention = Retention()
        await apply(self, group)

    patch.setattr(TurnWriter, "apply", forever)


def held_ones_expire(patch: Patch) -> None:
    async def none(connection: Any, keys: Any) -> set[ThreadKey]:
        return set()

    patch.setattr(held_and_erased, "held_of", none)


def late_ones_are_not_held(patch: Patch) -> None:
    async def none(connection: Any, keys: Any) -> set[ThreadKey]:
        return set()

    patch.setattr(write, "held_of", none)


def sums_forget_the_expired(patch: Patch) -> None:
    async def nothing(connection: Any, thread: ThreadKey) -> None:
        pass

    patch.setattr(usage_sums, "keep_expired", nothing)


def expired_rows_alone(patch: Patch) -> None:
    async def nothing(connection: Any, expired_remnants: Any) -> None:
        pass

    patch.setattr(held_and_erased, "remember", nothing)

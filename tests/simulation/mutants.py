"""Mends that are taken out again, one at a time, by putting old behaviour in their place: a schedule must find each."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import click
import pytest
from sqlalchemy import func

from pipeline.assembly import deadlines, finish, partition, spilled_run
from pipeline.assembly.finishing import Finishing
from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.results import Out
from pipeline.assembly.run import Run
from pipeline.assembly.run_states import RunStates
from pipeline.kafka.dead_letters import outgoing_letter, without_value
from pipeline.kafka.outbox import Outbox, Outgoing
from pipeline.stores import rows, statements, versions
from pipeline.turns import thread_document
from pipeline.turns.held_events import Verdict, Version
from pipeline.turns.redaction import Redaction
from pipeline.worker import assemble_work, group_work
from pipeline.worker.assemble_work import AssembleWork
from pipeline.worker.stage import Stage
from pipeline.worker.store_role import TurnWriter
from tests.chaos.report import table, write_part
from tests.simulation.schedule import Played, play
from threadmill.nesting import LEVELS
from topics import turn_record
from topics.state import RunKey
from topics.thread_key import ThreadKey

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Mutant:
    """`only`: the scenario that shows it soonest."""

    name: str
    take_out: Callable[[Patch], None]
    only: str


def _commit_before_flush(patch: Patch) -> None:
    async def flush(self: Stage) -> bool:
        return True

    patch.setattr(Stage, "flush", flush)


def _marks_before_turns(patch: Patch) -> None:
    send = AssembleWork._send

    async def marks_first(self: AssembleWork, number: int, held: Any) -> None:
        for name, value in held.core.out.marks:
            await self.outbox.send(type(held.unsent)([self._state(number, name, value)]))
        await send(self, number, held)

    patch.setattr(AssembleWork, "_send", marks_first)


def _failed_deliveries_forgotten(patch: Patch) -> None:
    async def forgets(self: Outbox) -> bool:
        todo, self.pending = self.pending, deque()
        if todo:
            await asyncio.wait([delivery for delivery, _ in todo])
        return True

    patch.setattr(Outbox, "flush", forgets)


def _floor_is_next(patch: Patch) -> None:
    patch.setattr(Partition, "floor", lambda self: self.next)


def _holes_passed_over(patch: Patch) -> None:
    patch.setattr("pipeline.worker.stage.HOLE_READS", 0)


def _other_generations(patch: Patch) -> None:
    patch.setattr(Stage, "_ours", lambda self, partition, generation: partition in self.next)


def _group_not_halved(patch: Patch) -> None:
    write = TurnWriter._write

    async def whole(self: TurnWriter, store: Any, records: Any) -> Any:
        if len(records) == 1:
            return await write(self, store, records)
        await store.write([turn_record.decode(record.value) for _, record in records])
        return []

    patch.setattr(TurnWriter, "_write", whole)


def _tenants_of_runs(patch: Patch) -> None:
    patch.setattr(partition, "RunKey", lambda tenant, thread_id, run_id: RunKey(None, thread_id, run_id))


def _tenants_of_threads(patch: Patch) -> None:
    patch.setattr(rows, "key_of", lambda record: ThreadKey(record["thread_id"], None))


def _results_taken_early(patch: Patch) -> None:
    """Telemetry is redacted when its results have left the core already, and that may raise."""
    send, results = AssembleWork._send, AssembleWork._results

    async def early(self: AssembleWork, number: int, held: Any) -> None:
        try:
            await send(self, number, held)
        except Exception:
            held.core.out = Out()
            raise

    def redacted(self: AssembleWork, number: int, out: Out) -> list[Outgoing]:
        if self.redaction is not None:
            out.telemetry = [self.redaction.telemetry(record) for record in out.telemetry]
        return results(self, number, out)

    patch.setattr(AssembleWork, "_send", early)
    patch.setattr(AssembleWork, "_results", redacted)
    patch.setattr(partition, "polished", lambda run, records, polish, last: records)


def _ranges_ignored(patch: Patch) -> None:
    def by_rank(self: Version, known: Version) -> Verdict:
        return Verdict.REPLACES if self.rank > known.rank else Verdict.KNOWN

    patch.setattr(Version, "beside", by_rank)


def _letters_without_bytes(patch: Patch) -> None:
    def letter(*args: Any) -> Outgoing:
        return without_value(outgoing_letter(*args))

    patch.setattr(assemble_work, "outgoing_letter", letter)


def _again_without_pause(patch: Patch) -> None:
    patch.setattr(group_work, "PAUSE", 0.0)


def _open_runs_unbounded(patch: Patch) -> None:
    patch.setattr(partition, "spill_due", lambda run, held, now, limits: None)


def _reopenable_unbounded(patch: Patch) -> None:
    bounds = RunStates._keep_within_bounds

    def unbounded(self: RunStates) -> None:
        self.limits, limits = replace(self.limits, reopen_bytes=2**60), self.limits
        try:
            bounds(self)
        finally:
            self.limits = limits

    patch.setattr(RunStates, "_keep_within_bounds", unbounded)


def _checkpoint_raises(patch: Patch) -> None:
    async def raises(self: AssembleWork, wave: Any) -> bool:
        await self.outbox.send(wave)
        return await self.outbox.flush()

    patch.setattr(AssembleWork, "_delivered", raises)


def _any_size_fits(patch: Patch) -> None:
    patch.setattr(Finishing, "all_fit", lambda self, turns: True)


def _spilled_records_forgotten(patch: Patch) -> None:
    bury = Partition._bury

    def unspilled(self: Partition, key: RunKey, run: Any, detail: str) -> None:
        bury(self, key, run, detail)
        self.out.unbuilt.clear()

    patch.setattr(Partition, "_bury", unspilled)


def _deep_turn_raises(patch: Patch) -> None:
    async def each(records: Any, places: Any, offload: Any) -> None:
        for place in places:
            records[place] = replace(records[place], value=await offload(records[place].value or b""))

    patch.setattr(assemble_work, "_offload", each)
    patch.setattr(turn_record, "OWN_LEVELS", LEVELS)


def _window_counts_events(patch: Patch) -> None:
    def by_events(run: Run, limits: Limits) -> bool:
        return run.early.events > limits.window_events

    patch.setattr(deadlines, "window_is_full", by_events)
    patch.setattr(partition, "window_is_full", by_events)


def _runs_of_any_size(patch: Patch) -> None:
    def boundless(envelope: Any, dialect: Any, record: Any, most: int = 0) -> Run:
        return Run(envelope, dialect, record)

    patch.setattr(partition, "Run", boundless)
    patch.setattr(spilled_run, "Run", boundless)


def _groups_count_records(patch: Patch) -> None:
    patch.setattr(group_work, "MOST", 2**60)


def _telemetry_as_it_is(patch: Patch) -> None:
    patch.setattr(Redaction, "telemetry", lambda self, record: record)


def _facts_as_they_are(patch: Patch) -> None:
    patch.setattr(Redaction, "_facts", lambda self, facts: facts)


def _times_of_any_size(patch: Patch) -> None:
    for module in (finish, thread_document):
        patch.setattr(module, "bounded", lambda ms: ms)


def _ranges_not_read(patch: Patch) -> None:
    async def none(connection: Any, keys: Any) -> dict[Any, Any]:
        return {}

    patch.setattr(versions, "_ranges", none)


def _plain_sums(patch: Patch) -> None:
    patch.setattr(statements, "BoundedSum", func.sum)


def _names_collide(patch: Patch) -> None:
    def escaped(value: Any, limit: int = 500) -> str | None:
        if value is None:
            return None
        return str(value).encode("utf-8", "backslashreplace").decode().replace("\0", "\\u0000")[:limit]

    patch.setattr(rows, "column_text", escaped)


def _names_collide_and_stop(patch: Patch) -> None:
    _names_collide(patch)
    _group_not_halved(patch)


MUTANTS: Final = (
    Mutant("tenant in the name of a run", _tenants_of_runs, "hostile"),
    Mutant("tenant in the name of a thread", _tenants_of_threads, "hostile"),
    Mutant("results leave the core only in full", _results_taken_early, "hostile"),
    Mutant("a turn gives way only to one with all of its events", _ranges_ignored, "short memory"),
    Mutant("a dead letter has its bytes", _letters_without_bytes, "hostile"),
    Mutant("a pause between two tries of a group", _again_without_pause, "full"),
    Mutant("a turn that is too large is cut off", _any_size_fits, "inline"),
    Mutant("an unbuildable run's spilled records are dead letters", _spilled_records_forgotten, "tight"),
    Mutant("a turn nested too deeply to be offloaded goes as it is", _deep_turn_raises, "hostile"),
    Mutant("a bound of early bytes", _window_counts_events, "tight"),
    Mutant("a bound of a run's bytes", _runs_of_any_size, "tight"),
    Mutant("a bound of what one transaction has", _groups_count_records, "inline"),
    Mutant("rules for telemetry", _telemetry_as_it_is, "hostile"),
    Mutant("rules for facts of threads", _facts_as_they_are, "hostile"),
    Mutant("times that a column holds", _times_of_any_size, "hostile"),
    Mutant("ranges in SQL", _ranges_not_read, "sqlite"),
    Mutant("sums that can't overflow", _plain_sums, "sqlite"),
    Mutant("names that stay different as columns", _names_collide, "sqlite"),
    Mutant("the same, and groups are not halved", _names_collide_and_stop, "sqlite"),
    Mutant("a bound of open runs", _open_runs_unbounded, "tight"),
    Mutant("a bound of reopenable runs", _reopenable_unbounded, "tight"),
    Mutant("a checkpoint that fails ends no worker", _checkpoint_raises, "outages"),
    Mutant("flush, then commit", _commit_before_flush, "kills"),
    Mutant("turns, then marks", _marks_before_turns, "kills"),
    Mutant("failed deliveries are sent again", _failed_deliveries_forgotten, "outages"),
    Mutant("the floor waits for open runs", _floor_is_next, "kills"),
    Mutant("holes are read again", _holes_passed_over, "members"),
    Mutant("no batch of another generation", _other_generations, "hanging"),
    Mutant("a group with a bad record is halved", _group_not_halved, "hostile"),
)
BY_NAME: Final = {mutant.name: mutant for mutant in MUTANTS}
MOST: Final = 150  # schedules of each
SHOWN: Final = 110  # characters of a failure
NONE: Final = f"none of {MOST}"
SENT: Final = re.compile("[<>|`\n]+")  # what is none in a table


def found_by(mutant: Mutant, only: str | None = None, most: int = MOST) -> Played | None:
    """The first schedule that finds it."""
    gc.disable()
    for seed in range(most):
        if seed % 10 == 0:
            gc.collect()
        played = play(seed, only or mutant.only, mutant.take_out)
        if played.failure is not None:
            return played
    return None


def main(only: str | None, name: str | None) -> int:
    """Print the table, or one row of it -> the exit status."""
    names = [mutant.name for mutant in MUTANTS] if name is None else [name]
    lines = []
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for line in pool.imap(partial(_line, only=only), names):
            click.echo(" | ".join(line))
            lines.append(line)
    if only is None and name is None:
        header = ("taken out", "scenario", "first seed that finds it", "how it shows")
        write_part("simulation", table(header, lines))
    return int(any(seed == NONE for _, _, seed, _ in lines))


def _line(name: str, only: str | None) -> tuple[str, str, str, str]:
    mutant = BY_NAME[name]
    played = found_by(mutant, only)
    if played is None:
        return name, only or mutant.only, NONE, "–"
    return name, only or mutant.only, str(played.seed), SENT.sub("…", played.failure or "")[:SHOWN]

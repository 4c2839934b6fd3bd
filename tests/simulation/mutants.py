"""Mends that are taken out again, one at a time, by putting old behaviour in their place: a schedule must find each."""

import gc
import multiprocessing
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import click
import pytest

from tests.chaos.report import table, write_results
from tests.simulation import taken_out
from tests.simulation.schedule import Played, play


@dataclass(frozen=True, slots=True)
class Mutant:
    """`only`: the scenario that shows it soonest."""

    name: str
    take_out: Callable[[pytest.MonkeyPatch], None]
    only: str


MUTANTS: Final = (
    Mutant("tenant in the name of a run", taken_out.tenants_of_runs, "hostile"),
    Mutant("tenant in the name of a thread", taken_out.tenants_of_threads, "hostile"),
    Mutant("results leave the core only in full", taken_out.results_taken_early, "hostile"),
    Mutant("a turn gives way only to one with all of its events", taken_out.ranges_ignored, "short memory"),
    Mutant("a dead letter has its bytes", taken_out.letters_without_bytes, "hostile"),
    Mutant("a pause between two tries of a group", taken_out.again_without_pause, "full"),
    Mutant("a turn that is too large is cut off", taken_out.any_size_fits, "inline"),
    Mutant("an unbuildable run's spilled records are dead letters", taken_out.spilled_records_forgotten, "tight"),
    Mutant("a turn nested too deeply to be offloaded goes as it is", taken_out.deep_turn_raises, "hostile"),
    Mutant("a bound of early bytes", taken_out.window_counts_events, "tight"),
    Mutant("a bound of a run's bytes", taken_out.runs_of_any_size, "tight"),
    Mutant("a bound of all that a worker's open runs weigh", taken_out.nothing_parked, "outages"),
    Mutant("a bound of what one transaction has", taken_out.groups_count_records, "inline"),
    Mutant("rules for telemetry", taken_out.telemetry_as_it_is, "hostile"),
    Mutant("rules for facts of threads", taken_out.facts_as_they_are, "hostile"),
    Mutant("answers are compared as they are stored", taken_out.answers_as_they_are, "forks"),
    Mutant("a branch goes on behind the answer that its client had", taken_out.one_history, "forks"),
    Mutant("times that a column holds", taken_out.times_of_any_size, "hostile"),
    Mutant("deadlines go on behind a restart", taken_out.clocks_forgotten, "parked"),
    Mutant("a run that is spilled again has a deadline again", taken_out.one_deadline_for_each, "tight"),
    Mutant("ranges in SQL", taken_out.ranges_not_read, "sqlite"),
    Mutant("sums that can't overflow", taken_out.plain_sums, "sqlite"),
    Mutant("a revision takes its turn's older usage from the sums", taken_out.sums_only_grow, "sqlite"),
    Mutant("a late turn leaves a thread's newest values", taken_out.late_turns_as_the_last, "sqlite"),
    Mutant("no record that has expired is stored", taken_out.expired_turns_come_back, "retention"),
    Mutant("held threads don't expire", taken_out.held_ones_expire, "retention"),
    Mutant("what comes late of a held thread is stored", taken_out.late_ones_are_not_held, "retention"),
    Mutant("sums keep what has expired", taken_out.sums_forget_the_expired, "retention"),
    Mutant("large values and archived rows follow", taken_out.expired_rows_alone, "retention"),
    Mutant("a bound of open runs", taken_out.open_runs_unbounded, "tight"),
    Mutant("a bound of reopenable runs", taken_out.reopenable_unbounded, "tight"),
    Mutant("a checkpoint that fails ends no worker", taken_out.checkpoint_raises, "outages"),
    Mutant("flush, then commit", taken_out.commit_before_flush, "kills"),
    Mutant("turns, then marks", taken_out.marks_before_turns, "kills"),
    Mutant("failed deliveries are sent again", taken_out.failed_deliveries_forgotten, "outages"),
    Mutant("the floor waits for open runs", taken_out.floor_is_next, "kills"),
    Mutant("holes are read again", taken_out.holes_passed_over, "members"),
    Mutant("no batch of another generation", taken_out.other_generations, "hanging"),
    Mutant("a group with a bad record is halved", taken_out.group_not_halved, "hostile"),
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
        write_results("simulation", table(header, lines))
    return int(any(seed == NONE for _, _, seed, _ in lines))


def _line(name: str, only: str | None) -> tuple[str, str, str, str]:
    mutant = BY_NAME[name]
    played = found_by(mutant, only)
    if played is None:
        return name, only or mutant.only, NONE, "–"
    return (
        name,
        only or mutant.only,
        str(played.seed),
        SENT.sub("…", (played.failure or "").removeprefix("AssertionError: "))[:SHOWN],
    )

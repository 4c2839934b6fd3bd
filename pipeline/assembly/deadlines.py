"""Determines which event has happened to a run, from its last record and the broker's time (epoch ms)."""

from typing import Final

from pipeline.assembly.limits import Limits
from pipeline.assembly.run import Run
from pipeline.assembly.run_states import Event
from pipeline.assembly.spilled_run import SpilledRun

# The end of a run that was ended neither by its publisher nor by its stream.
ENDINGS: Final = {
    Event.WINDOW_FULL: "events_lost",
    Event.GAP_TIMEOUT: "events_lost",
    Event.IDLE_TIMEOUT: "timeout",
    Event.RUN_TIMEOUT: "timeout",
    Event.TOO_LARGE: "too_large",
}


def ending(run: Run, event: Event) -> str:
    """Return the end of a run that `event` has closed; see `finish`."""
    return ENDINGS.get(event) or run.verdict()


def ended(run: Run, limits: Limits) -> Event | None:
    """Return the event that closes the run after its last record; None while the run goes on."""
    if run.beyond is not None:
        return Event.TOO_LARGE
    if run.end is not None:
        complete = run.verdict() == "complete" and not run.early
        return Event.PUBLISHER_COMPLETE if complete else Event.PUBLISHER_INTERRUPTED
    return Event.WINDOW_FULL if run.early and window_is_full(run, limits) else None


def window_is_full(run: Run, limits: Limits) -> bool:
    """Return True if more than the limit waits for the missing event."""
    return run.early.events > limits.window_events or run.ahead > limits.window_bytes


def overdue(run: Run, now: int, limits: Limits) -> Event | None:
    """Return the deadline of a run in memory that has passed; None if there is none."""
    if _gap_is_over(run, now, limits):
        return Event.GAP_TIMEOUT
    if _grace_is_over(run, now, limits) and not run.early:
        return Event.STREAM_COMPLETE if run.verdict() == "complete" else Event.STREAM_INTERRUPTED
    return _silent(run, now, limits)


def overdue_spilled(spilled: SpilledRun, now: int, limits: Limits) -> Event | None:
    """Return the deadline of a spilled run that has passed, as far as it is known without rebuilding the run."""
    if spilled.run is not None:
        return overdue(spilled.run, now, limits)
    if _gap_is_over(spilled, now, limits):
        return Event.GAP_TIMEOUT
    if _grace_is_over(spilled, now, limits) and spilled.gap_at is None:
        return Event.STREAM_INTERRUPTED  # or complete: that is known once it is built again
    return _silent(spilled, now, limits)


def _gap_is_over(run: Run | SpilledRun, now: int, limits: Limits) -> bool:
    return run.gap_at is not None and now - run.gap_at > limits.gap_ms


def _grace_is_over(run: Run | SpilledRun, now: int, limits: Limits) -> bool:
    return run.ended_at is not None and now - max(run.ended_at, run.last_at) > limits.grace_ms


def _silent(run: Run | SpilledRun, now: int, limits: Limits) -> Event | None:
    if now - run.last_at > limits.idle_ms:
        return Event.IDLE_TIMEOUT
    return Event.RUN_TIMEOUT if now - run.opened_at > limits.run_ms else None


def spill_due(run: Run, held: int, now: int, limits: Limits) -> Event | None:
    """Return why the oldest open run must be spilled, or None. `held`: bytes of open runs not on the state topic."""
    if now - run.unspilled_at > limits.spill_ms:
        return Event.SPILL_DUE
    return Event.MEMORY_BOUND if held > limits.open_bytes else None

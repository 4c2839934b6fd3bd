"""Finishes the turns of a run: redacts them, and keeps them within the record limit of their topic."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pipeline.assembly.deadlines import ending
from pipeline.assembly.limits import Limits
from pipeline.assembly.offline import close
from pipeline.assembly.oversized import ADVICE, cut_off, with_key
from pipeline.assembly.records import Record, Refused, StoredRecord
from pipeline.assembly.results import Out, Oversized
from pipeline.assembly.run import Run
from pipeline.assembly.run_states import Event
from pipeline.assembly.spilled_run import DialectOf
from pipeline.assembly.telemetry import closing_records, open_record, polished, streamed_records
from pipeline.turns.lineage import Redacted
from pipeline.turns.requests import without_bodies
from topics.state import Segment
from topics.telemetry import TelemetryRecord
from topics.turn_record import TurnRecord
from turnmill.errors import Reason

# Not Final, since tests set it: compiled code would not read it again.
LARGE_RUN_BYTES = 1_000_000  # the turns of a larger run may be too large for their topic

Polish = Callable[[TurnRecord], TurnRecord]
PolishTelemetry = Callable[[TelemetryRecord], TelemetryRecord]


@dataclass(frozen=True, slots=True)
class Finishing:
    """The last steps of a run.

    `polish` redacts each finished turn before it is handed over, `polish_telemetry` each telemetry record, and
    `redacted` a text of which a hash is kept. `fits`: whether the turns topic takes a record of a large run, in the
    form in which the host sends it.
    """

    limits: Limits
    dialect_of: DialectOf
    polish: Polish | None = None
    polish_telemetry: PolishTelemetry | None = None
    fits: Callable[[TurnRecord], bool] | None = None
    redacted: Redacted = str

    def finished(self, run: Run, event: Event) -> tuple[list[TurnRecord], list[TelemetryRecord]]:
        """Return the turns of a run that `event` has ended, and the telemetry derived from them."""
        large = event is Event.TOO_LARGE or run.size > self.limits.reopen_bytes  # then it can't be reopened
        bounded = self.fits if self.limits.keep_requests and is_large(run) else None
        turns, builder = close(
            run,
            ending(run, event),
            keep_telemetry=self.limits.keep_telemetry,
            keep_requests=self.limits.keep_requests,
            last=large,
            redacted=self.redacted,
        )
        if self.polish is not None:
            turns = [self.polish(turn) for turn in turns]
        if bounded is not None:  # too large: keep the conversation rather than the requests
            turns = [turn if bounded(turn) else without_bodies(turn) for turn in turns]
        telemetry: Iterable[TelemetryRecord] = closing_records(run, builder, turns)
        return turns, list(self._polished(run, telemetry))

    def used(self, run: Run) -> list[TelemetryRecord]:
        """Return a report on what an open run has used so far.

        Return none if it can't be built yet, is too large to be copied, or was stored already and reopened.
        """
        run.metered = run.next
        if run.revision or run.size > self.limits.reopen_bytes:
            return []
        try:
            record = open_record(run, close(run, "disconnected")[1])
            return list(self._polished(run, [record] if record["data"]["used"] else []))
        except Exception:  # a dead letter will report the error at its end
            return []

    def _polished(self, run: Run, telemetry: Iterable[TelemetryRecord]) -> Iterable[TelemetryRecord]:
        if self.polish_telemetry is None:
            return telemetry
        return polished(run, telemetry, self.polish_telemetry, StoredRecord(b"", run.last_offset, run.last_at))

    def streamed(self, run: Run, record: Record) -> Iterable[TelemetryRecord]:
        """Return the telemetry of `record`, the last that the run has applied."""
        records = streamed_records(run)
        return records if self.polish_telemetry is None else polished(run, records, self.polish_telemetry, record)

    def all_fit(self, turns: Iterable[TurnRecord]) -> bool:
        """Return True if the turns topic takes them."""
        return self.fits is None or all(map(self.fits, turns))

    def cut_off(self, oversized: Oversized, segments: Iterable[Segment]) -> Out:
        """Return the turns of as much of a run as fits, and its other records as dead letters.

        `segments`: all its segments on the state topic.
        """
        run, rest = cut_off([*segments, oversized.rest], self.dialect_of, self.limits.run_bytes, self._run_fits)
        out = Out(
            dead=[Refused(with_key(record, oversized.run.thread_id), Reason.TOO_LARGE, ADVICE) for record in rest]
        )
        if run is not None:
            run.revision = oversized.revision
            out.turns, out.telemetry = self.finished(run, Event.TOO_LARGE)
            out.large.update((oversized.run.tenant, turn["turn_id"]) for turn in out.turns)
        return out

    def _run_fits(self, run: Run) -> bool:
        try:
            return self.all_fit(self.finished(run, Event.TOO_LARGE)[0])
        except Exception:  # cut at another record, it may be possible to build it
            return False


def is_large(run: Run) -> bool:
    """Return True if the run's turns might exceed the record limit of the turns topic.

    Many small messages add up, since each repeats the names of agent and model.
    """
    context = run.builder.context
    names = len(context.agent_id) + len(context.model_name or "") + len(context.provider_name or "")
    return run.size + names * run.next > LARGE_RUN_BYTES

"""The assembler's metrics and log lines: both are emitted only here."""

import logging
from collections.abc import Iterable
from typing import Final

from pipeline.assembly.partition import Partition
from pipeline.assembly.records import Refused
from pipeline.assembly.results import Counts, Out
from pipeline.kafka.dead_letters import DeadLetterLog
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.turns.redaction import Redaction
from turnmill.wire.traceparent import log_ids

log = logging.getLogger(__name__)

NOTHING: Final = Counts()


class AssemblyMetrics:
    """Counts of one worker's assembly; open runs are summed over its partitions."""

    def __init__(self, metrics: Metrics, topic: str) -> None:
        self.metrics = metrics
        self.topic = topic
        self.log_refused = DeadLetterLog(topic, metrics)
        self.open: dict[int, int] = {}
        self.early: dict[int, int] = {}
        metrics.add(m.RECORDS_READ, 0, topic=topic)  # so that the first records increase an existing counter

    def count(self, number: int, core: Partition, out: Out) -> None:
        """Count the results of a batch, or of the passing of time; mostly there are none."""
        counts = core.take_counts()
        if counts != NOTHING:
            self._add(counts)
        for record in out.turns:
            turn = record["turn"] or {}
            reason = (turn.get("interruption") or {}).get("reason", m.NO_REASON)
            self.metrics.add(m.TURNS_PRODUCED, status=record["status"], reason=reason)
            if log.isEnabledFor(logging.DEBUG):
                extra = log_ids(record["thread_id"], record["run_id"], record.get("traceparent"))
                log.debug("turn %s: %s (%s)", record["turn_id"], record["status"], reason, extra=extra)
        self.refused(number, out.dead)
        if self.open.get(number) != core.open_runs():
            self.open[number] = core.open_runs()
            self.metrics.set(m.OPEN_TURNS, sum(self.open.values()))

    def count_early(self, number: int, core: Partition) -> None:
        """Count the events that wait for earlier ones: a walk over all open runs, which no batch should pay."""
        self.early[number] = sum([run.early.events for run in core.runs.open.values()])
        self.metrics.set(m.EARLY_EVENTS, sum(self.early.values()))

    def _add(self, counts: Counts) -> None:
        add = self.metrics.add
        add(m.RECORDS_READ, counts.records, topic=self.topic)
        for dialect, events in counts.events.items():
            add(m.EVENTS_ASSEMBLED, events, dialect=dialect)
        for metric, count in (
            (m.DUPLICATES_DROPPED, counts.duplicates),
            (m.RUNS_OPENED, counts.opened),
            (m.RUNS_REOPENED, counts.reopened),
            (m.RUNS_CLOSED, counts.closed),
            (m.SEGMENTS_SPILLED, counts.spilled),
            (m.RUNS_PARKED, counts.parked),
        ):
            if count:
                add(metric, count)

    def refused(self, number: int, dead: Iterable[Refused]) -> None:
        """Count and log dead letters."""
        for refused in dead:
            self.log_refused(number, refused)

    def redacted(self, redaction: Redaction) -> None:
        """Count what each rule has replaced since the last call."""
        counts, redaction.counts = redaction.counts, {}
        for rule, count in counts.items():
            self.metrics.add(m.REDACTIONS, count, rule=rule)

    def forget(self) -> None:
        """Forget revoked partitions."""
        self.open.clear()
        self.early.clear()
        self.metrics.set(m.OPEN_TURNS, 0)
        self.metrics.set(m.EARLY_EVENTS, 0)

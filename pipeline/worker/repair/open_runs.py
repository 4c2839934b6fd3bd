"""Reads from the broker exactly which runs are open, without having followed them.

The committed offset of the assemble group never passes the first record of an open run that is not on the state topic.
So the open runs are on the state topic, or among the records after that offset. The offset is requested first: records
that it passes later are then on the state topic, or are read here, too.
"""

import time
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from pipeline.assembly.limits import Limits
from pipeline.assembly.run_list import ListedRun, RunList
from pipeline.assembly.usual_silence import UsualSilence
from pipeline.kafka.offsets import bounds, group_lag
from pipeline.kafka.reading import offsets_at, read, reader
from pipeline.worker.host.roles import ROLES
from topics.catalog import EVENTS, STATE
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid
from turnmill.settings import BrokerSettings

LEARN_SECONDS: Final = 3600.0  # seconds before the committed offset; their runs determine the usual silence
LEARN_RECORDS: Final = 3_000  # maximum per partition
BATCH_SIZE: Final = 1_000  # records


async def open_runs(brokers: BrokerSettings, reopen_ms: int) -> RunList:
    """Return the runs that are open now; `reopen_ms`: see `Limits`. Raises BrokerError."""
    runs = RunList(reopen_ms, UsualSilence())
    async with reader(brokers, max_poll_records=BATCH_SIZE) as consumer:
        starts = await beginnings(brokers, consumer, reopen_ms, runs.usual)
        ends = await bounds(brokers, [EVENTS, STATE])
        spans = {partition: (start, ends[partition][1]) for partition, start in starts.items()}
        async for partition, records in read(consumer, spans):
            for record in records:
                if partition.topic == EVENTS.full_name(brokers.topic_prefix):
                    runs.take_event(record.value, record.offset, record.timestamp, record.partition)
                else:
                    runs.take_state(record.key, record.value, record.partition)
    return runs


async def beginnings(
    brokers: BrokerSettings, consumer: AIOKafkaConsumer, reopen_ms: int, usual: UsualSilence
) -> dict[TopicPartition, int]:
    """Return the offsets of both topics from which open runs can be derived.

    `usual` is learnt from the last records before the committed offsets, which don't show which of their runs are open.
    The ends must be requested afterwards. Raises BrokerError, and the client's errors.
    """
    lags = await group_lag(brokers, ROLES["assemble"].group(brokers), [EVENTS])
    needed = {TopicPartition(row.topic, row.partition): max(row.begin, row.committed or 0) for row in lags}
    begins = {partition: begin for partition, (begin, _) in (await bounds(brokers, [EVENTS, STATE])).items()}
    since = await offsets_at(consumer, int((time.time() - LEARN_SECONDS) * 1000), needed)
    spans = {
        partition: (max(begins[partition], end - LEARN_RECORDS, min(since[partition], end)), end)
        for partition, end in needed.items()
    }
    past = RunList(reopen_ms, usual)
    async for _, records in read(consumer, spans):
        for record in records:
            past.take_event(record.value, record.offset, record.timestamp)
    return begins | needed


@dataclass(frozen=True, slots=True)
class OpenRunRow:
    """One open run. `started_at`, `last_at` and `deadline_at` are epoch ms by the broker's clock.

    `age_ms` and `silence_ms` are up to now. `silent`: for longer than `usual_silence_ms`; both are null until enough
    runs of the agent were seen. At `deadline_at` it is closed as interrupted, unless it goes on before. `imported`: no
    command reaches it.
    """

    thread_id: str
    external_id: str | None
    run_id: str
    tenant: str | None
    agent_id: str
    agent_name: str | None
    model: str | None
    dialect: str
    started_at: int
    last_at: int
    age_ms: int
    silence_ms: int
    usual_silence_ms: int | None
    silent: bool | None
    deadline_at: int
    events: int
    last_event: str | None
    imported: bool

    @property
    def thread(self) -> ThreadKey:
        """The run's thread."""
        return ThreadKey.of(self.thread_id, self.tenant)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter of runs; None: any. `tenant`: "" for runs without one; `thread`: thread id or conversation id."""

    tenant: str | None = None
    agent: str | None = None
    thread: str | None = None
    silent: bool = False

    def matches(self, run: ListedRun) -> bool:
        """Return True if a run matches all filters that do not depend on the time."""
        tenant, thread_id, _ = run.key
        return (
            (self.tenant is None or self.tenant == (tenant or ""))
            and (self.agent is None or self.agent == run.agent_id)
            and (
                self.thread is None
                or self.thread == run.external_id
                or thread_uuid(self.thread, tenant)[0] == thread_id
            )
        )


def rows(runs: RunList, limits: Limits, wanted: Wanted, now: int, limit: int) -> list[OpenRunRow]:
    """Return the rows of at most `limit` runs, longest silence first. `now`: epoch ms."""
    listed = (run for run in runs if wanted.matches(run) and (not wanted.silent or _silent(runs, run, now)))
    chosen = nsmallest(limit, listed, key=lambda run: (run.last_at, run.key[1:], run.key.tenant or ""))
    return [_row(runs, run, limits, now) for run in chosen]


def silent(runs: RunList, now: int) -> int:
    """Return the number of runs that are silent for longer than usual."""
    return sum(1 for run in runs if _silent(runs, run, now))


def _silent(runs: RunList, run: ListedRun, now: int) -> bool | None:
    usual = runs.usual.of((run.key.tenant, run.agent_id))
    return None if usual is None else now - run.last_at > usual


def _row(runs: RunList, run: ListedRun, limits: Limits, now: int) -> OpenRunRow:
    tenant, thread_id, run_id = run.key
    return OpenRunRow(
        thread_id=thread_id,
        external_id=run.external_id,
        run_id=run_id,
        tenant=tenant,
        agent_id=run.agent_id,
        agent_name=run.agent_name,
        model=run.model,
        dialect=run.dialect,
        started_at=run.started_at,
        last_at=run.last_at,
        age_ms=max(0, now - run.started_at),
        silence_ms=max(0, now - run.last_at),
        usual_silence_ms=runs.usual.of((tenant, run.agent_id)),
        silent=_silent(runs, run, now),
        deadline_at=min(run.last_at + limits.idle_ms, run.started_at + limits.run_ms),
        events=run.events,
        last_event=run.last_event,
        imported=run.imported,
    )

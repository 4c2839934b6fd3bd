"""The loss ledger: each run that is on the events topic is stored, or a dead letter, or still open."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from pipeline.kafka.reading import records_of
from pipeline.kafka.redrive import filed_letters
from pipeline.settings import Settings
from pipeline.stores.sql import ThreadStore
from pipeline.turns.column_text import column_text
from topics import turn_record
from topics.catalog import EVENTS
from topics.dead_letter import DeadLetter
from topics.thread_key import ThreadKey
from turnmill.envelope import decode
from turnmill.errors import InvalidRecord

# (tenant, thread_id, run_id), tenant and run as the store's columns hold them, or (None, topic-partition, offset)
RunName = tuple[str | None, str, str]


@dataclass(frozen=True, slots=True)
class Ledger:
    """Runs by what became of them. A run that is stored and has dead letters as well counts as stored.

    `open_runs` are those of which nothing has become yet, with the broker's time (ms) of their newest record; `erased`
    counts those of threads that were deleted.
    """

    runs: int
    stored: int
    dead: int
    open_runs: dict[RunName, int]
    erased: int = 0

    @property
    def open(self) -> int:
        """The number of open runs."""
        return len(self.open_runs)


async def take_stock(settings: Settings, store: ThreadStore) -> Ledger:
    """Read the events and the dead-letters topic whole, and compare with the store.

    Records that hold no run, since they can't be read, are runs of their own. Raises BrokerError and StoreError.
    """
    newest: dict[RunName, int] = {}
    async for record in records_of(settings, EVENTS):
        run = _run(record.topic, record.partition, record.offset, record.value)
        newest[run] = max(newest.get(run, 0), record.timestamp)
    refused = set()
    async for filed in filed_letters(settings):
        if letter := filed.letter:
            refused.add(run_of_letter(letter))
    stored = {run async for run in store.runs() if run in newest}
    dead = {run for run in refused if run in newest} - stored
    unknown = {run: at for run, at in newest.items() if run not in stored and run not in dead}
    deleted = await store.erased({_thread(run) for run in unknown})
    open_runs = {run: at for run, at in unknown.items() if _thread(run) not in deleted}
    return Ledger(len(newest), len(stored), len(dead), open_runs, len(unknown) - len(open_runs))


def run_of_letter(letter: DeadLetter) -> RunName:
    """Return the run of a dead letter, which may be an event's record or a turn that the store did not take."""
    with suppress(InvalidRecord):
        record = turn_record.decode(letter.value)
        return column_text(record.get("tenant") or None), record["thread_id"], column_text(record["run_id"]) or ""
    return _run(letter.topic, letter.partition, letter.offset, letter.value)


def _run(topic: str, partition: int, offset: int, value: bytes | None) -> RunName:
    try:
        envelope = decode(value)
    except InvalidRecord:
        return None, f"{topic}/{partition}", str(offset)
    tenant = column_text(envelope.get("tenant") or None)
    return tenant, envelope["thread_id"].lower(), column_text(envelope["run_id"]) or ""


def _thread(run: RunName) -> ThreadKey:
    tenant, thread_id, _ = run
    return ThreadKey(thread_id, tenant)

"""The loss ledger: each run that is on the events topic is stored, or a dead letter, or still open."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.kafka.reading import records_of
from pipeline.kafka.redrive import filed_letters
from pipeline.settings import Settings
from pipeline.stores.sql import ThreadStore
from pipeline.turns.column_text import column_text
from threadmill.envelope import decode
from threadmill.errors import InvalidRecord
from topics.catalog import EVENTS

RunName = tuple[str, str]  # (thread_id, run_id) as the store's columns hold them, or (topic-partition, offset)


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
        """How many runs are open."""
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
            refused.add(_run(letter.topic, letter.partition, letter.offset, letter.value))
    stored = {run async for run in store.runs() if run in newest}
    dead = {run for run in refused if run in newest} - stored
    unknown = {run: at for run, at in newest.items() if run not in stored and run not in dead}
    deleted = await store.erased(sorted({thread_id for thread_id, _ in unknown}))
    open_runs = {run: at for run, at in unknown.items() if run[0] not in deleted}
    return Ledger(len(newest), len(stored), len(dead), open_runs, len(unknown) - len(open_runs))


def _run(topic: str, partition: int, offset: int, value: bytes | None) -> RunName:
    try:
        envelope = decode(value)
    except InvalidRecord:
        return f"{topic}/{partition}", str(offset)
    return envelope["thread_id"].lower(), column_text(envelope["run_id"]) or ""

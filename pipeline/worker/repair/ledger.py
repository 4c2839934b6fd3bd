"""The loss ledger: each run on the events topic is stored, or a dead letter, or still open."""

from contextlib import suppress
from dataclasses import dataclass

from pipeline.kafka.dead_letters import filed_letters
from pipeline.kafka.reading import records_of
from pipeline.stores.accounts.audit import removed_records
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import erased_among, stored_runs
from pipeline.turns.column_text import column_text
from topics import turn_record
from topics.catalog import EVENTS
from topics.dead_letter import DeadLetter
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord
from turnmill.settings import BrokerSettings
from turnmill.wire.envelope import decode

# (tenant, thread_id, run_id), with tenant and run as in the store's columns; or (None, topic-partition, offset)
RunName = tuple[str | None, str, str]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The number of runs by state. A run that is stored, and has dead letters as well, counts as stored.

    `open_runs`: those neither stored nor dead, with the broker's time (ms) of their newest record; `erased`: the number
    of those in deleted threads; `removed`: records that retention removed before they were read, of runs that nobody
    knows.
    """

    runs: int
    stored: int
    dead: int
    open_runs: dict[RunName, int]
    erased: int = 0
    removed: int = 0

    @property
    def open(self) -> int:
        """The number of open runs."""
        return len(self.open_runs)


async def take_stock(settings: BrokerSettings, store: ThreadStore) -> Ledger:
    """Read the whole events and dead-letters topics, and compare them with the store.

    Unreadable records, which name no run, count as runs of their own. Raises BrokerError and StoreError.
    """
    newest: dict[RunName, int] = {}
    async for record in records_of(settings, EVENTS):
        run = _run(record.topic, record.partition, record.offset, record.value)
        newest[run] = max(newest.get(run, 0), record.timestamp)
    refused = set()
    async for filed in filed_letters(settings):
        if letter := filed.letter:
            refused.add(run_of_letter(letter))
    stored = {run async for run in stored_runs(store) if run in newest}
    dead = {run for run in refused if run in newest} - stored
    unknown = {run: at for run, at in newest.items() if run not in stored and run not in dead}
    deleted = await erased_among(store, {_thread(run) for run in unknown})
    open_runs = {run: at for run, at in unknown.items() if _thread(run) not in deleted}
    removed = await removed_records(store, EVENTS.full_name(settings.topic_prefix))
    return Ledger(len(newest), len(stored), len(dead), open_runs, len(unknown) - len(open_runs), removed)


def run_of_letter(letter: DeadLetter) -> RunName:
    """Return the run of a dead letter: of a record of events, or of a turn that the store did not take."""
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

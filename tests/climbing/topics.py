"""Records of each topic, as their readers take them: assembler, stores, gateway, webhooks, metrics."""

import json
import sqlite3
from asyncio import Runner
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.restored_state import RestoredState
from pipeline.assembly.run_list import RunList
from pipeline.assembly.usual_silence import UsualSilence
from pipeline.dialects import DIALECTS, shown
from pipeline.gateway.dashboard.dead_letters import _letter
from pipeline.gateway.dashboard.figures import Intake
from pipeline.gateway.live.event_record import EventRecord
from pipeline.observability.metrics import Metrics
from pipeline.observability.telemetry_meter import TelemetryMeter
from pipeline.observability.turn_spans import turn_span
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.schema import metadata
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from pipeline.turns.thread_document import thread_document
from pipeline.worker.webhooks.role import MALFORMED, notice_event, turn_event
from tests.climbing.cost import Target
from tests.property.test_hostile_events import FILES, streams
from tests.support.assembled import START, THREAD_ID
from topics import json_text, notice, telemetry, turn_record
from topics.catalog import DEAD_LETTERS, EVENTS, NOTICES, STATE, TELEMETRY, TURNS
from topics.dead_letter import DeadLetter
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord, Reason

LATER: Final = START + 10 * Limits().run_ms
STREAMS: Final = 4  # recorded ones of a wire, to begin with
SEED_BYTES: Final = 16_384
Values = list[bytes]


def values(records: Any) -> Values:
    """A list of JSON -> records; what is text travels as it is, so that it may be no JSON."""
    if not isinstance(records, list):
        raise TypeError
    return [(one if isinstance(one, str) else json.dumps(one, separators=(",", ":"))).encode("utf-8", "surrogatepass")
            for one in records]  # fmt: skip


def total(records: Values) -> int:
    return sum(map(len, records))


def envelope(dialect: str, seq: int, events: list[Any], **more: Any) -> dict[str, Any]:
    fixed = {"v": 1, "thread_id": THREAD_ID, "run_id": "r", "agent_id": "a", "seq": seq, "ts": START + seq}
    return {**fixed, "dialect": dialect, "events": events, **more}


@cache
def recorded(dialect: str) -> list[list[dict[str, Any]]]:
    """Runs of a wire as records, each some KB: the shortest streams that were recorded."""
    found = []
    for number, stream in enumerate(sorted(streams(dialect), key=lambda events: len(json.dumps(events)))[-12::3]):
        room = SEED_BYTES
        events = []
        for event in stream:
            room -= len(json.dumps(event))
            if room < 0:
                break
            events.append(event)
        request = {"request": {"messages": [{"role": "user", "content": "hi"}]}, "agent_name": "A", "model_name": "m"}
        half = len(events) // 2
        found.append([
            envelope(dialect, 0, events[:half], run=request, run_id=f"r{number}"),
            envelope(dialect, half, events[half:], end="complete", run_id=f"r{number}"),
        ])  # fmt: skip
    return found or [[envelope(dialect, 0, [{}], end="complete")]]


def assembled(records: Values, limits: Limits | None = None) -> Partition:
    partition = Partition(DIALECTS, limits or Limits(), 0)
    for number, value in enumerate(records):
        partition.feed([StoredRecord(value, number, START + number)])
        if limits is not None:
            partition.spill()
    partition.tick(LATER)
    return partition


def assemble(records: Values) -> int:
    """As the assembler does, with all that it writes, but for a dead letter of each record: it is a row as well."""
    out = assembled(records).out
    for turn in out.turns:
        turn_record.encode(turn)
    for one in out.telemetry:
        telemetry.encode(one)
    made = len(out.turns) + len(out.telemetry) + len(out.dead) + len(out.segments) + len(out.marks)
    return max(0, made - len(records))


def watch(records: Values) -> int:
    """As a gateway does, for the list of open runs, live figures and streams."""
    intake, listed = Intake(), RunList(Limits().reopen_ms, UsualSilence())
    for number, value in enumerate(records):
        record = EventRecord(0, number, START + number, value)
        if (found := record.envelope) is not None:
            record.run = listed.take(found, number, START + number)
            intake.event(record)
            for event in found["events"]:
                shown(found["dialect"], event)
    return len(listed)


@cache
def results(dialect: str) -> Partition:
    return assembled([value for run in recorded(dialect) for value in values(run)])


def turns_of(dialect: str) -> list[list[Any]]:
    """Turn records of a wire."""
    made = [json.loads(turn_record.encode(turn)) for turn in results(dialect).out.turns]
    return [[record] for record in islice(made, STREAMS)]


class Store:
    """An SQLite store that is empty before each input."""

    def __init__(self, folder: Path, runner: Runner) -> None:
        self.path = folder / "climbing.db"
        self.runner = runner
        self.store = runner.run(ThreadStore.open(f"sqlite:///{self.path}", migrate=True))
        self.rows = sqlite3.connect(self.path, isolation_level=None)
        self.names = [table.name for table in metadata.sorted_tables]
        self.before = {name: self._count(name) for name in self.names}

    def _count(self, name: str) -> int:
        return int(self.rows.execute(f"SELECT count(*) FROM {name}").fetchone()[0])

    def write(self, records: Values) -> int:
        """As the roles do that follow the topic: rows, a document, spans, events of webhooks."""
        for name in reversed(self.names):
            if not self.before[name]:
                self.rows.execute(f"DELETE FROM {name}")
        taken = []
        for value in records:
            with suppress(InvalidRecord):
                taken.append(turn_record.decode(value))
        for record in taken:
            with suppress(*MALFORMED):
                turn_span(record)
            with suppress(*MALFORMED):
                turn_event(record, ("turns", 0, 0), START)
        self.runner.run(self._write(taken))
        return sum(map(self._count, self.names)) - sum(self.before.values())

    async def _write(self, taken: list[Any]) -> None:
        with suppress(StoreError, *MALFORMED):  # the role writes such a batch one by one
            await write_turns(self.store, taken)
        for thread in {ThreadKey.of(record["thread_id"], record.get("tenant")) for record in taken}:
            own = [one for one in taken if one["thread_id"] == thread.thread_id]
            with suppress(*MALFORMED):
                thread_document(thread.thread_id, own)

    def close(self) -> None:
        self.rows.close()
        self.runner.run(self.store.close())


def measure_telemetry(records: Values) -> int:
    meter = TelemetryMeter(Metrics(1000))
    for value in records:
        with suppress(InvalidRecord):
            meter.take(telemetry.decode(value))
    return 0


def hear(records: Values) -> int:
    """As the webhooks' role does."""
    for value in records:
        with suppress(*MALFORMED):
            notice_event(notice.decode(value), ("notices", 0, 0), START)
    return 0


def bury(records: Values) -> int:
    """As the dashboard does."""
    headers = DeadLetter(Reason.INVALID_EVENT, "detail", EVENTS.name, 0, 0, START, None, None).headers()
    for number, value in enumerate(records):
        _letter(SimpleNamespace(key=b"k", value=value, headers=headers, partition=0, offset=number))
    return 0


def restore(entries: Any) -> int:
    """As an assembler does that starts, and a gateway for the list of open runs."""
    found, listed = RestoredState(DIALECTS), RunList(Limits().reopen_ms, UsualSilence())
    for key, value in entries:
        listed.take_state(key, value)
        with suppress(InvalidRecord):
            found.take(key, value)
    partition = Partition(DIALECTS, Limits(), 0)
    partition.restore(found)
    partition.tick(LATER)
    out = partition.out
    return len(out.turns) + len(out.telemetry) + len(out.dead) + len(out.marks)


def entries(value: Any) -> list[tuple[bytes, bytes]]:
    return [(key.encode("utf-8", "surrogatepass"), rest.encode("utf-8", "surrogatepass")) for key, rest in value]


def state_seeds() -> list[Any]:
    found = []
    for dialect in FILES:
        partition = assembled([values(run)[0] for run in recorded(dialect)[:1]], Limits(open_bytes=1))
        entries = [*partition.out.segments, *((key, value) for key, value in partition.out.marks if value)]
        found.append([[key, value.decode("utf-8", "replace")] for key, value in entries])
    return [one for one in found if one]


def targets(store: Store) -> Iterator[Target]:
    """All topics of the catalog."""
    of_records: Callable[..., Target] = partial(Target, rendered=values, size=total)
    for dialect in FILES:
        yield of_records(f"{EVENTS.name}: {dialect}", recorded(dialect), take=assemble)
    yield of_records(f"{EVENTS.name}: in a gateway", [recorded(dialect)[0] for dialect in FILES], take=watch)
    for dialect in FILES:
        yield of_records(f"{TURNS.name}: {dialect}", turns_of(dialect), take=partial(write_turns, store))
    of_telemetry = [[one] for dialect in FILES for one in results(dialect).out.telemetry[:2]]
    yield of_records(TELEMETRY.name, json.loads(json_text.dumps(of_telemetry)), take=measure_telemetry)
    yield of_records(DEAD_LETTERS.name, [recorded(dialect)[0] for dialect in FILES], take=bury)
    size = lambda given: sum(len(key) + len(value) for key, value in given)  # noqa: E731
    yield Target(STATE.name, state_seeds(), rendered=entries, take=restore, size=size)
    reached = {"budget": "b", "level": 80, "used": 1, "limit": 2, "unit": "tokens", "per": "day", "start": 1, "end": 2}
    on = {"alert": "a", "figure": "cost_usd", "above": 1, "value": 2, "within_ms": 1, "of": {"user": "u"}, "start": 1}
    some = [
        [{"v": 1, "id": "i", "type": kind, "at": START, "thread_id": THREAD_ID, "tenant": "t", "data": data}]
        for kind, data in (
            (notice.THREAD_DELETED, {"reason": "deleted"}),
            (notice.BUDGET_REACHED, reached),
            (notice.ALERT_STARTED, on),
        )
    ]
    yield of_records(NOTICES.name, some, take=hear)

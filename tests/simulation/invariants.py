"""What must be true once everything has come to rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pipeline.worker.assemble.limits import limits_of
from tests.simulation import stores
from tests.simulation.broker import Entry
from tests.simulation.conversations import wrong_branches
from tests.simulation.restarts import changed
from tests.simulation.retained import retained, turns_assembled
from tests.simulation.right import compared, right_turns, whole
from tests.simulation.scenarios import RECORD_BYTES
from tests.simulation.tenants import Run, key_of
from tests.simulation.wire import marks
from tests.simulation.worker import SECRET
from topics import json_text, turn_record
from topics.turn_record import TurnRecord
from turnmill.errors import InvalidRecord, Reason
from turnmill.wire.envelope import decode

if TYPE_CHECKING:
    from tests.simulation.world import World

REFUSED: Final = Reason.UNPROCESSABLE.value.encode()
UNSTORABLE: Final = (stores.REFUSED, stores.BREAKS)
REPLAYED: Final = 0.25  # of the schedules: it takes as long as much of the rest
Key = tuple[Any, str, str]


def check(world: World) -> None:
    """Raises AssertionError that says what is wrong."""
    problems = [problem for look in LOOKS for problem in look(Found(world))]
    if problems:
        more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
        raise AssertionError("; ".join(problems[:5]) + more)


class Found:
    """What a schedule has left, in the shapes that are asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.events = [entry for log in world.broker.topic("events") for entry in log.written]
        self.letters = [entry for log in world.broker.topic("dead-letters") for entry in log.written]
        self.buried = Counter(entry.value for entry in self.letters)
        self.stored: list[TurnRecord] = world.database.records()
        if world.scenario.retention:  # what was assembled may be gone again: `retained` says where it has to be
            self.stored += turns_assembled(world)
        self.by_run: dict[Key, list[TurnRecord]] = defaultdict(list)
        for record in self.stored:
            self.by_run[run_of(record)].append(record)
        self.gone = {(key.tenant, key.thread_id) for key in world.database.gone}
        self.good = {(run.tenant, run.thread_id, run.run_id): run for run in world.runs}

    def envelopes(self) -> Iterator[tuple[Entry, dict[str, Any] | None]]:
        """Each record of the events topic, with its envelope; None where it is none."""
        for entry in self.events:
            if len(entry.value or b"") > RECORD_BYTES:
                yield entry, None
                continue
            try:
                yield entry, decode(entry.value)
            except InvalidRecord:
                yield entry, None


def run_of(record: TurnRecord) -> Key:
    """Whose run a turn is of."""
    return record.get("tenant") or None, record["thread_id"], record["run_id"]


def covered(records: Sequence[TurnRecord]) -> list[tuple[int, int]]:
    """The seqs that turns hold, as (first, last)."""
    found = []
    for record in records:
        ranges: Any = record.get("ranges")
        found += [(first, last) for first, last in ranges] if ranges is not None else [(0, 2**53)]
    return found


def ledger(found: Found) -> Iterator[str]:
    """Each acknowledged record is in a stored turn, or a dead letter with its bytes."""
    lost_turns = defaultdict(list)  # turns that the store has refused
    for letter in found.letters:
        headers = dict(letter.headers)
        if headers.get("turnmill.topic") == b"turnmill.turns":
            try:
                record = turn_record.decode(letter.value)
            except InvalidRecord:
                continue
            lost_turns[run_of(record)].append(record)
    for entry, envelope in found.envelopes():
        if entry.value is None:
            if found.buried[None] + found.buried[b""] == 0:
                yield f"the record at {entry.offset} without a value is nowhere"
            continue
        if found.buried[entry.value]:
            continue
        if envelope is None:
            yield f"{entry.value[:80]!r} is no envelope and no dead letter"
            continue
        key = key_of(envelope)
        if key[:2] in found.gone:
            continue
        spans = covered([*found.by_run[key], *lost_turns[key]])
        first = envelope["seq"]
        missing = [
            seq
            for seq in range(first, first + len(envelope["events"]))
            if not any(begin <= seq <= end for begin, end in spans)
        ]
        if missing:
            yield f"{key}: seq {missing} is in no stored turn, and its record is no dead letter"


def good_runs(found: Found) -> Iterator[str]:
    """A good run is stored as if nothing else had happened, and none of it is a dead letter."""
    logged: dict[Key, list[tuple[Entry, dict[str, Any]]]] = defaultdict(list)
    for entry, envelope in found.envelopes():
        if envelope is not None and (key := key_of(envelope)) in found.good:
            logged[key].append((entry, envelope))
    if not found.world.scenario.exact:
        return
    redact = found.world.scenario.settings.redact
    for key, records in logged.items():
        if key[:2] in found.gone:
            continue
        stored = {record["turn_id"]: whole(record, found.world.objects.held) for record in found.by_run[key]}
        # A stream that is over is closed after its grace: the `end` behind it may come in time, or not.
        choices = (records, [record for record in records if record[1]["events"]])
        wrong = (compared(stored, right_turns(some, redact=redact)) for some in choices)
        first = next(wrong)
        if first is not None and next(wrong) is not None:
            yield f"{key}: {first}"
        yield from (f"{key}: a record of it is a dead letter" for entry, _ in records if found.buried[entry.value])


def nothing_made_up(found: Found) -> Iterator[str]:
    """Each stored turn is of a run that somebody sent, and holds only what its tenant said in that run."""
    sent = {key_of(envelope) for _, envelope in found.envelopes() if envelope is not None}
    for key, records in found.by_run.items():
        if key not in sent:
            yield f"{key} is stored, and nobody sent it"
        tenant, _, run_id = key
        for mark in {mark for record in records for mark in marks(json_text.dumps(record))}:
            if mark[:2] != (tenant or "", run_id):
                yield f"{key} holds {mark}, which is another's"


def redacted(found: Found) -> Iterator[str]:
    """With rules of redaction, what they find is nowhere but in the raw records."""
    world = found.world
    if not world.scenario.settings.redact:
        return
    for topic in ("turns", "telemetry"):
        for entry in (entry for log in world.broker.topic(topic) for entry in log.written):
            if SECRET.encode() in (entry.value or b""):
                yield f"{topic}: {(entry.value or b'')[:200]!r} has a secret that a rule finds"
    yield from (
        f"{uri} has a secret that a rule finds" for uri, data in world.objects.held.items() if SECRET.encode() in data
    )


def promises(found: Found) -> Iterator[str]:
    """What a publisher has kept is on the events topic."""
    written = {entry.value for entry in found.events}
    for agent in found.world.agents:
        lost = sum(value not in written for value in agent.promised)
        if lost:
            yield f"{agent.process.name}: {lost} of {len(agent.promised)} records that were kept never came"


def forks(found: Found) -> Iterator[str]:
    """Each branch of a conversation is what its client had on the screen, and that of all that was published."""
    world = found.world
    if not world.scenario.talks:
        return
    logged: dict[Key, list[tuple[Entry, dict[str, Any]]]] = defaultdict(list)
    for entry, envelope in found.envelopes():
        if envelope is not None:
            logged[key_of(envelope)].append((entry, envelope))
    talks: dict[Any, list[Run]] = defaultdict(list)
    for run in world.runs:
        talks[run.tenant, run.thread_id].append(run)
    for (tenant, thread), runs in talks.items():
        keys = {run.run_id: (tenant, thread, run.run_id) for run in runs}
        stored = {run_id: found.by_run[key] for run_id, key in keys.items()}
        if (tenant, thread) in found.gone:
            yield from (f"{keys[run_id]} is stored, and was erased" for run_id, some in stored.items() if some)
            continue
        right = {
            run_id: right_turns(logged[key], redact=world.scenario.settings.redact) for run_id, key in keys.items()
        }
        yield from wrong_branches(runs, stored, right)


def refused_by_the_store(found: Found) -> Iterator[str]:
    """Only what no store takes is refused: a value of it that could not be written, and no count or name."""
    for letter in found.letters:
        headers = dict(letter.headers)
        mine = headers.get("turnmill.topic") == b"turnmill.turns" and headers.get("turnmill.reason") == REFUSED
        if mine and not any(title.encode() in (letter.value or b"") for title in UNSTORABLE):
            detail = headers.get("turnmill.detail", b"").decode("utf-8", "replace")
            yield f"the store has refused {(letter.value or b'')[:80]!r}: {detail:.200}"


def summed(found: Found) -> Iterator[str]:
    """The sums of usage are those of all rows, and the rows of threads those of their turns."""
    for place in found.world.database.wrong_sums():
        yield f"the sum at {place} is not that of the rows"
    for stored, derived in found.world.database.wrong_threads():
        yield f"a thread's row is {stored}, but by its turns {derived}"


def archived(found: Found) -> Iterator[str]:
    """What the archive's group has committed is in the archive."""
    group = found.world.groups["archive"]
    if found.world.scenario.retention:
        return
    for number, log in enumerate(found.world.broker.topic("turns")):
        held = found.world.archive.offsets.get(number, set())
        lost = [e.offset for e in log.written if e.offset < group.committed.get(number, 0) and e.offset not in held]
        if lost:
            yield f"turns/{number}: {lost} are not in the archive"
    yield from found.world.archive.wrong([e for log in found.world.broker.topic("turns") for e in log.written])


def all_the_time(found: Found) -> Iterator[str]:
    """Memory was within its limits, and no stored turn ever shrank."""
    yield from found.world.problems


def restarts(found: Found) -> Iterator[str]:
    """What is on the events topic gives the same turns, at the same times, whether workers come and go or not."""
    world = found.world
    if not world.scenario.exact or world.rng.random() > REPLAYED:
        return
    limits = replace(limits_of(world.scenario.settings), **world.scenario.limits)
    for number, log in enumerate(world.broker.topic("events")):
        difference = changed(log.written, limits, world.rng)
        if difference is not None:
            yield f"a restart changes what comes of events/{number}: {difference}"


def crashes(found: Found) -> Iterator[str]:
    """No task has died of an error that nobody looked at."""
    for process in found.world.processes:
        for task in process.crashed:
            yield f"{process.name}: {task.get_coro().__qualname__} died: {task.exception()!r}"


LOOKS = (
    ledger,
    good_runs,
    forks,
    nothing_made_up,
    redacted,
    promises,
    refused_by_the_store,
    summed,
    archived,
    retained,
    all_the_time,
    restarts,
    crashes,
)

"""What is published in chaos: runs over all dialects, recorded and generated, and the answer that must be stored."""

import random
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from pipeline.assembly.offline import assemble, close
from pipeline.assembly.records import StoredRecord
from pipeline.assembly.run import Run
from pipeline.dialects import DIALECTS
from pipeline.stores.threads.rows import record_rows
from tests.support.fleet import START, AgentRun, interleaved, run_of
from tests.support.places import ROOT
from turnmill.wire.framing import decode

CORPUS: Final = ROOT / "tests" / "corpus"
STREAMS: Final = {
    "agents-sdk": "agents-sdk/*.sse",
    "pi-agent": "pi-agent/*/*.jsonl",
    "pi-proxy": "pi-proxy/*.sse",
    "pydantic-ai": "pydantic-ai/*/*.pai_events.jsonl",
    "vercel-ai": "vercel-ai/*.sse",
}
LARGEST_STREAM: Final = 60_000  # bytes
RECORDS: Final = 3  # events a record, at most

Events = list[dict[str, Any]]
Record = tuple[bytes, bytes | None]  # key, value
TurnKey = tuple[str, str]  # thread_id, turn_id


@dataclass(frozen=True, slots=True)
class Right:
    """A turn as it must be stored: canonical hash (None: facts without a turn), status, rows of usage."""

    hash: str | None
    status: str
    usage: int


@dataclass(slots=True)
class Answer:
    """What must come of a load: turns, and the values of the records that become dead letters."""

    turns: dict[TurnKey, Right] = field(default_factory=dict)
    letters: set[bytes | None] = field(default_factory=set)

    def add(self, run: AgentRun, silent_end: str | None = None) -> None:
        """Of one run, assembled without a broker. `silent_end`: how it ends where no `end` came."""
        dialect = DIALECTS[run.envelopes[0]["dialect"]]
        built: Run | None = None
        for offset, (envelope, value) in enumerate(zip(run.envelopes, run.values(), strict=True)):
            record = StoredRecord(value, offset, envelope["ts"])
            built = built or Run(envelope, dialect, record)
            built.feed(envelope, record)
        assert built is not None
        end = built.verdict() if built.end or built.builder.ended else silent_end or built.verdict()
        for turn in close(built, end)[0]:
            rows = record_rows(turn)
            self.turns[rows.thread.text, turn["turn_id"]] = Right(turn["hash"], turn["status"], len(rows.usage))
        self.letters |= {refused.record.value for refused in built.refusals}


@dataclass(frozen=True, slots=True)
class Load:
    """Records in the order in which they are published, their answer, and how many runs the ledger must know."""

    runs: list[AgentRun]
    records: list[Record]
    answer: Answer
    published: int
    later: list[Record] = field(default_factory=list)  # what the scenario publishes when it is time
    producers: int = 1


def load_of(runs: Sequence[AgentRun], seed: int, *, open_at_once: int = 50) -> Load:
    """All runs, interleaved, as they are."""
    answer = Answer()
    for run in runs:
        answer.add(run)
    return Load(list(runs), list(interleaved(list(runs), seed, open_at_once)), answer, len(runs))


def mixed(seed: int, runs: int, *, hot: bool = False) -> list[AgentRun]:
    """Every second run is generated, the others are recordings of each dialect in turn.

    A quarter of the runs go on in the thread of the one before; with `hot`, half of all are in one thread.
    """
    rng = random.Random(f"mixed/{seed}")
    found: list[AgentRun] = []
    for number in range(runs):
        run = run_of(seed, number, batch=RECORDS) if number % 2 else _recorded(rng, number)
        if hot and number % 4 < 2:
            run = _in_thread(run, found[0].thread_id if found else run.thread_id)
        elif number % 4 == 3 and found:
            run = _in_thread(run, found[-1].thread_id)
        found.append(run)
    return found


def cut(run: AgentRun, records: Iterable[int]) -> AgentRun:
    """The run with only these of its records."""
    return replace(run, envelopes=[run.envelopes[n] for n in records])


def _in_thread(run: AgentRun, thread_id: str) -> AgentRun:
    return AgentRun(thread_id, run.run_id, [{**envelope, "thread_id": thread_id} for envelope in run.envelopes])


def _recorded(rng: random.Random, number: int) -> AgentRun:
    dialects = [*STREAMS, "thread-protocol"]
    dialect = dialects[number // 2 % len(dialects)]
    events = _native(rng, number) if dialect == "thread-protocol" else rng.choice(recordings(dialect))
    return records_of(rng, str(uuid.UUID(int=rng.getrandbits(128), version=4)), f"run-{number}", dialect, events)


def records_of(rng: random.Random, thread_id: str, run_id: str, dialect: str, events: Events) -> AgentRun:
    """A stream -> its run, in records of a few events."""
    identity = {"v": 1, "thread_id": thread_id, "run_id": run_id, "agent_id": f"agent-{dialect}", "dialect": dialect}
    envelopes, at = [], 0
    while at < len(events):
        some = events[at : at + rng.randint(1, max(RECORDS, len(events) // 40))]
        dt = [13 * n for n in range(len(some))]
        envelopes.append({**identity, "seq": at, "ts": START + 13 * at, "events": some, "dt": dt})
        at += len(some)
    envelopes[0]["run"] = {"model_name": "model-1", "agent_name": dialect.title()}
    envelopes[-1]["end"] = "complete"
    return AgentRun(thread_id, run_id, envelopes)


@cache
def recordings(dialect: str) -> list[Events]:
    """The corpus of one dialect: all streams that are not large and can be read whole."""
    found = []
    for path in sorted(CORPUS.glob(STREAMS[dialect])):
        items = decode(path.read_bytes(), DIALECTS[dialect].wire) if path.stat().st_size <= LARGEST_STREAM else []
        events = [item.event for item in items if item.event is not None]
        if events and len(events) == len(items):
            found.append(events)
    return found


def _native(rng: random.Random, number: int) -> Events:
    """ThreadProtocol's own events: a user's turn and the agent's answer."""
    source = run_of(rng.getrandbits(32), number, words=10)
    records, _ = assemble(DIALECTS["vercel-ai"], source.envelopes)
    answers = [record["turn"] for record in records if record["turn"] and record["turn"]["turn_type"] == "agent"]
    asked = {"turn_type": "user", "submitted_at": "2026-01-20T16:58:00Z"}
    asked["parts"] = [{"part_kind": "user-prompt", "content": f"question {number}"}]  # type: ignore[assignment]
    said = [{key: value for key, value in turn.items() if not key.startswith("meta:")} for turn in answers if turn]
    return [
        {"type": "user-turn", "turn": asked},
        *({"type": "agent-turn", "turn": turn} for turn in said),
        {"type": "thread-metadata", "title": f"Title {number}"},
    ]

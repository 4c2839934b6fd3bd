"""Loads: many agent runs at once, as records of the events topic. A load gives the same records each time."""

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any, Final

from pipeline.assembly.limits import Limits
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from tests.bench.samples.vercel_ai import tool_results
from tests.bench.streams import STREAMS
from topics.json_text import Fields
from turnmill.wire.envelope import VERSION, encode

START_MS: Final = 1_768_928_342_002
EVENT_MS: Final = 20  # between two events of a run: 50 tokens a second
AT_ONCE: Final = 300  # runs that are open at the same time
DELTAS: Final = 144  # text deltas of one answer
BRIEF: Final = 4  # those of a short one
RESULTS: Final = (20_000, 60_000, 150_000)  # bytes of the tool results of one run; the last goes to the content store


@dataclass(frozen=True, slots=True)
class Script:
    """One run's native events, and the publisher's information about it."""

    dialect: str
    events: Sequence[Fields]
    info: dict[str, Any] = field(default_factory=lambda: {"agent_name": "Bench", "model_name": "model-1"})
    end: str | None = "complete"


Role = Callable[[random.Random], Script]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The number of turn records and of dead letters that a load gives."""

    turns: int
    dead: int


@dataclass(frozen=True)
class Load:
    """`runs` runs, which play the roles of `cast` in rotation, `per_record` events a record.

    `text`: the load is text deltas of one protocol alone; the other engines' programs assemble nothing else.
    """

    name: str
    title: str
    runs: int
    per_record: int
    cast: tuple[Role, ...]
    text: bool = False
    at_once: int = AT_ONCE

    @cached_property
    def events(self) -> int:
        """The number of events of all runs."""
        sizes = [len(role(random.Random(0)).events) for role in self.cast]  # nothing secret
        return sum(sizes[number % len(sizes)] for number in range(self.runs))

    @cached_property
    def outcome(self) -> Outcome:
        """The load's outcome, from assembling one run of each role in process."""
        turns, dead = [], []
        for number, role in enumerate(self.cast):
            partition = Partition(DIALECTS, Limits(), 0)
            records = enumerate(self._run(random.Random(0), number, role))
            partition.feed([StoredRecord(value, n, n, key) for n, (key, value) in records])
            turns.append(len(partition.out.turns))
            dead.append(len(partition.out.dead))
        shares = [number % len(self.cast) for number in range(self.runs)]
        return Outcome(sum(turns[share] for share in shares), sum(dead[share] for share in shares))

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) in the order in which they are published: `at_once` runs take turns, a record each."""
        rng = random.Random(self.name)  # the same load each time
        waiting = (self._run(rng, number, self.cast[number % len(self.cast)]) for number in range(self.runs))
        speaking = list(islice(waiting, self.at_once))
        while speaking:
            still = []
            for run in speaking:
                record = next(run, None)
                if record is not None:
                    yield record
                    still.append(run)
                else:
                    still += islice(waiting, 1)
            speaking = still

    def _run(self, rng: random.Random, number: int, role: Role) -> Iterator[tuple[bytes, bytes]]:
        thread_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        script = role(rng)
        key = thread_id.encode()
        for seq in range(0, len(script.events), self.per_record):
            some = script.events[seq : seq + self.per_record]
            envelope: dict[str, Any] = {
                "v": VERSION,
                "thread_id": thread_id,
                "run_id": f"run-{number}",
                "agent_id": "bench",
                "seq": seq,
                "ts": START_MS + seq * EVENT_MS,
                "dialect": script.dialect,
                "events": some,
            }
            if self.per_record > 1:
                envelope["dt"] = [n * EVENT_MS for n in range(len(some))]
            if seq == 0:
                envelope["run"] = script.info
            if script.end is not None and seq + self.per_record >= len(script.events):
                envelope["end"] = script.end
            yield key, encode(envelope)


def _answer(dialect: str, deltas: int, rng: random.Random) -> Script:
    return Script(dialect, STREAMS[dialect]([f" word{rng.randrange(9999)}" for _ in range(deltas)]))


def _answers() -> Iterator[Role]:
    """The same answer on each wire that has a sample."""
    return (partial(_answer, dialect, DELTAS) for dialect in STREAMS)


def _lookup(rng: random.Random) -> Script:
    return Script("vercel-ai", tool_results([f"{rng.getrandbits(64):x} " * (size // 17) for size in RESULTS]))


def _unfinished(size: int, rng: random.Random) -> Script:
    """A run without an end: text of `size` bytes in deltas of 40."""
    deltas = [f"{rng.getrandbits(64):016x} is a part of it, as is the next "[:40] for _ in range(size // 40)]
    return Script("vercel-ai", STREAMS["vercel-ai"](deltas)[:-3], end=None)


def text(name: str, title: str, runs: int, per_record: int, *, dialect: str = "vercel-ai") -> Load:
    """A load of answers in text deltas."""
    return Load(name, title, runs, per_record, (partial(_answer, dialect, DELTAS),), text=dialect == "vercel-ai")


def fleet(scripts: Sequence[Script], runs: int = 6_000) -> Load:
    """A load of recorded runs of several agents and protocols, repeated."""
    cast = tuple(partial(_recorded, script) for script in scripts)
    return Load("fleet", "mixed fleet: recorded runs of the demo's first agents, 8 events a record", runs, 8, cast)


def _recorded(script: Script, rng: random.Random) -> Script:
    return script


def staggered(runs: int) -> Load:
    """Answers of different lengths, 150 events on average, so that they don't all end at the same moment."""
    cast = tuple(partial(_answer, "vercel-ai", deltas) for deltas in range(DELTAS - 100, DELTAS + 101, 8))
    return Load("paced", "text deltas, 1 event a record", runs, 1, cast, text=True)


def brief(name: str, runs: int) -> Load:
    """A load of short answers, a record each."""
    cast = (partial(_answer, "vercel-ai", BRIEF),)
    return Load(name, f"{runs:,} short answers", runs, per_record=100, cast=cast, text=True)


def unfinished(runs: int, size: int) -> Load:
    """A load of runs with `size` bytes of text that all stay open."""
    cast = (partial(_unfinished, size),)
    return Load(f"open-{runs}", f"{runs:,} open turns", runs, 8, cast, at_once=runs)


LOADS: Final[dict[str, Load]] = {
    load.name: load
    for load in (
        text("text-1", "text deltas, 1 event a record", runs=10_000, per_record=1),
        text("text-8", "text deltas, 8 events a record", runs=40_000, per_record=8),
        Load("wires", "a fleet of all wires: text deltas, 8 events a record", 12_000, 8, tuple(_answers())),
        Load("tools", "large tool results: 20, 60 and 150 KB a run, 1 event a record", 1_500, 1, (_lookup,)),
    )
}

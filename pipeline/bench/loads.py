"""What is measured with: many agent runs at once, as the records of the events topic. The same for the same load."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pipeline.bench.streams import STREAMS
from topics import agent_event

START_MS: Final = 1_768_928_342_002
EVENT_MS: Final = 20  # between two events of a run: 50 tokens a second
AT_ONCE: Final = 300  # runs that are open at the same time
DELTAS: Final = 144  # text deltas of one answer


@dataclass(frozen=True, slots=True)
class Load:
    """`runs` answers of text deltas, `per_record` events a record."""

    name: str
    title: str
    runs: int
    per_record: int
    dialect: str = "vercel-ai"

    @property
    def events(self) -> int:
        """Of all runs."""
        return self.runs * len(STREAMS[self.dialect]([""] * DELTAS))

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) in the order in which they are published: AT_ONCE runs take turns, a record each."""
        rng = random.Random(self.name)  # noqa: S311  # the same load each time
        waiting = iter(range(self.runs))
        speaking = [self._run(rng, number) for number in islice(waiting, AT_ONCE)]
        while speaking:
            still = []
            for run in speaking:
                record = next(run, None)
                if record is not None:
                    yield record
                    still.append(run)
                else:
                    still += [self._run(rng, number) for number in [next(waiting, None)] if number is not None]
            speaking = still

    def _run(self, rng: random.Random, number: int) -> Iterator[tuple[bytes, bytes]]:
        thread_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        events = STREAMS[self.dialect]([f" word{rng.randrange(9999)}" for _ in range(DELTAS)])
        key = thread_id.encode()
        for seq in range(0, len(events), self.per_record):
            some = events[seq : seq + self.per_record]
            envelope: dict[str, Any] = {
                "v": agent_event.VERSION,
                "thread_id": thread_id,
                "run_id": f"run-{number}",
                "agent_id": "bench",
                "seq": seq,
                "ts": START_MS + seq * EVENT_MS,
                "dialect": self.dialect,
                "events": some,
            }
            if self.per_record > 1:
                envelope["dt"] = [n * EVENT_MS for n in range(len(some))]
            if seq == 0:
                envelope["run"] = {"agent_name": "Bench", "model_name": "model-1"}
            if seq + self.per_record >= len(events):
                envelope["end"] = "complete"
            yield key, agent_event.encode(envelope)


LOADS: Final[dict[str, Load]] = {
    load.name: load
    for load in (
        Load("text-1", "text deltas, 1 event a record", runs=10_000, per_record=1),
        Load("text-8", "text deltas, 8 events a record", runs=40_000, per_record=8),
    )
}

"""A fleet of agent runs whose right answer is known: generated streams, interleaved, and their offline assembly."""

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from topics import turn_record
from turnmill.wire.envelope import encode

START = 1_768_928_342_002
Envelope = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One run as records, in order."""

    thread_id: str
    run_id: str
    envelopes: list[Envelope]

    @property
    def key(self) -> bytes:
        return self.thread_id.encode()

    def values(self) -> list[bytes]:
        return [encode(envelope) for envelope in self.envelopes]


def vercel_events(rng: random.Random, words: int = 40) -> list[Envelope]:
    """A run with text, thinking, a tool and usage, as the AI SDK streams it."""
    events: list[Envelope] = [{"type": "start"}, {"type": "start-step"}]
    for step in range(rng.randint(1, 3)):
        if step:
            call = f"call-{step}"
            query = {"city": rng.choice(["Paris", "Oslo", "Kyōto"]), "n": rng.randrange(10**6)}
            events += [
                {"type": "tool-input-start", "toolCallId": call, "toolName": "weather"},
                {"type": "tool-input-available", "toolCallId": call, "toolName": "weather", "input": query},
                {"type": "tool-output-available", "toolCallId": call, "output": {"temp": rng.randint(-20, 40)}},
                {"type": "finish-step"},
                {"type": "start-step"},
            ]
        events.append({"type": "text-start", "id": f"t{step}"})
        events += [
            {"type": "text-delta", "id": f"t{step}", "delta": f" word{rng.randrange(9999)}"}
            for _ in range(rng.randint(1, words))
        ]
        events.append({"type": "text-end", "id": f"t{step}"})
        tokens = rng.randint(1, 500)
        usage = {"input_tokens": tokens, "output_tokens": 7, "total_tokens": tokens + 7}
        events.append({"type": "data-sys-usage", "data": usage})
    return [*events, {"type": "finish-step"}, {"type": "finish", "finishReason": "stop"}]


def run_of(seed: int, number: int, *, batch: int = 3, words: int = 40, end: str | None = "complete") -> AgentRun:
    """Run `number` of the fleet `seed`: the same for the same numbers."""
    rng = random.Random(f"{seed}/{number}")
    thread_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    events = vercel_events(rng, words)
    identity = {"thread_id": thread_id, "run_id": f"run-{number}", "agent_id": f"agent-{number % 5}"}
    base = {"v": 1, **identity, "dialect": "vercel-ai"}
    envelopes, at = [], 0
    while at < len(events):
        some = events[at : at + rng.randint(1, batch)]
        dt = [13 * n for n in range(len(some))]
        envelopes.append({**base, "seq": at, "ts": START + 13 * at, "events": some, "dt": dt})
        at += len(some)
    envelopes[0]["run"] = {"model_name": "model-1", "agent_name": f"Agent {number % 5}"}
    if end is not None:
        envelopes[-1]["end"] = end
    return AgentRun(thread_id, f"run-{number}", envelopes)


def fleet(seed: int, runs: int, **options: Any) -> list[AgentRun]:
    return [run_of(seed, number, **options) for number in range(runs)]


def interleaved(runs: list[AgentRun], seed: int, open_at_once: int = 50) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of all records: in order within a run, as if so many agents spoke at once."""
    rng = random.Random(seed)
    waiting = [(run.key, iter(run.values())) for run in reversed(runs)]
    speaking = []
    while waiting or speaking:
        while waiting and len(speaking) < open_at_once:
            speaking.append(waiting.pop())
        one = rng.choice(speaking)
        value = next(one[1], None)
        if value is None:
            speaking.remove(one)
        else:
            yield one[0], value


def expected(runs: list[AgentRun]) -> dict[str, str]:
    """turn_id -> canonical hash, from assembly without a broker."""
    answer = {}
    for run in runs:
        records, refused = assemble(DIALECTS["vercel-ai"], run.envelopes)
        assert not refused, refused
        answer.update({record["turn_id"]: str(record["hash"]) for record in records})
    return answer


def record_bytes(run: AgentRun) -> list[bytes]:
    records, _ = assemble(DIALECTS["vercel-ai"], run.envelopes)
    return [turn_record.encode(record) for record in records]

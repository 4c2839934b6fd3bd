"""Runs without end, at a steady rate: what the soak publishes."""

import asyncio
import time
import uuid
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import orjson
from aiokafka import AIOKafkaProducer

from tests.chaos.load import Answer
from tests.chaos.scene import Scene
from tests.support.fleet import START, AgentRun
from topics.catalog import EVENTS
from turnmill.kafka.client import client_options

SCRIPTS: Final = 64  # different answers, which all runs take turns with
PER_RECORD: Final = 8
AT_ONCE: Final = 300
EVENTS_A_RUN: Final = 151


@dataclass(frozen=True, slots=True)
class Script:
    """One answer: its records without their ids, and the hash of its turn."""

    tails: list[bytes]
    hash: str | None


def script(number: int) -> Script:
    """An answer of 144 words."""
    events: list[dict[str, Any]] = [{"type": "start"}, {"type": "start-step"}, {"type": "text-start", "id": "t"}]
    events += [
        {"type": "text-delta", "id": "t", "delta": f" word{(number * 977 + n * 7919) % 9999}"} for n in range(144)
    ]
    events += [
        {"type": "text-end", "id": "t"},
        {"type": "data-sys-usage", "data": {"input_tokens": 12, "output_tokens": 144}},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]
    envelopes = []
    for seq in range(0, EVENTS_A_RUN, PER_RECORD):
        some = events[seq : seq + PER_RECORD]
        envelope: dict[str, Any] = {"agent_id": "soak", "seq": seq, "ts": START + 20 * seq, "dialect": "vercel-ai"}
        envelope |= {"events": some, "dt": [20 * n for n in range(len(some))]}
        envelopes.append(envelope)
    envelopes[-1]["end"] = "complete"
    identity = {"v": 1, "thread_id": str(uuid.UUID(int=number, version=4)), "run_id": "r"}
    answer = Answer()
    whole = [identity | envelope for envelope in envelopes]
    answer.add(AgentRun(identity["thread_id"], "r", whole))  # type: ignore[arg-type]  # `v` alone is no text in identity
    (right,) = answer.turns.values()
    return Script([b"," + orjson.dumps(envelope)[1:] for envelope in envelopes], right.hash)


class Source:
    """Publishes runs without end, AT_ONCE of them open, at a steady rate."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.scripts = [script(number) for number in range(SCRIPTS)]
        self.begun = 0
        self.events = 0
        self.ended = False  # begin no more runs
        self.open: deque[tuple[int, bytes, bytes, int]] = deque()  # number, key, head, next record

    async def run(self, rate: float, *, runs: int | None = None) -> None:
        """`rate`: events a second, 0 for all that go; until `runs` were begun, or `ended`. Raises what fails."""
        producer = AIOKafkaProducer(
            **client_options(self.scene.settings), acks="all", max_batch_size=65_536, compression_type="zstd"
        )
        await producer.start()
        waiting: deque[Any] = deque()
        until = None if runs is None else self.begun + runs
        began, events = time.monotonic(), self.events
        try:
            while self._more(until):
                for batch, partition in self._batches(producer, until):
                    topic = EVENTS.full_name(self.scene.settings.topic_prefix)
                    waiting.append(await producer.send_batch(batch, topic, partition=partition))
                while len(waiting) > 48:
                    await waiting.popleft()
                ahead = (self.events - events) / rate - (time.monotonic() - began) if rate else 0.0
                await asyncio.sleep(max(0.0, ahead))
            for confirmed in waiting:
                await confirmed
        finally:
            await producer.stop()

    def _more(self, until: int | None) -> bool:
        """Open runs that may be begun. -> whether there is anything to send."""
        while len(self.open) < AT_ONCE and not self.ended and (until is None or self.begun < until):
            thread_id = str(uuid.uuid4())
            head = f'{{"v":1,"thread_id":"{thread_id}","run_id":"{self.begun}"'.encode()
            self.open.append((self.begun, thread_id.encode(), head, 0))
            self.begun += 1
        return bool(self.open)

    def _batches(self, producer: AIOKafkaProducer, until: int | None) -> list[tuple[Any, int]]:
        """The next record of each open run, in a batch for each partition."""
        batches: dict[int, Any] = {}
        for _ in range(len(self.open)):
            number, key, head, record = self.open.popleft()
            tails = self.scripts[number % SCRIPTS].tails
            partition = number % self.scene.settings.partitions
            batch = batches.get(partition) or batches.setdefault(partition, producer.create_batch())
            if batch.append(key=key, value=head + tails[record], timestamp=None) is None:
                self.open.append((number, key, head, record))  # with the next batch
                continue
            self.events += PER_RECORD if record < len(tails) - 1 else EVENTS_A_RUN % PER_RECORD
            if record < len(tails) - 1:
                self.open.append((number, key, head, record + 1))
        return [(batch, partition) for partition, batch in batches.items()]

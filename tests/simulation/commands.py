"""Schedules of commands: programs, gateways and callers that are slow, doubt, repeat themselves and die.

What runs is the real client (`PublishedRun`, `Control`) and the real gateway (`Commands`); the topics are lists, which
each process reads at its own pace. Then `tests.support.command_checker` looks at what is on them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import TopicPartition

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.gateway.control.commands import Commands, new_command
from pipeline.gateway.live.event_record import EventRecord
from pipeline.policies.budgets import BudgetAnswers
from pipeline.settings import Settings
from tests.simulation.loop import Process, SimulatedLoop, clock
from tests.support.command_checker import problems
from topics.catalog import CONTROL, EVENTS
from turnmill import clock as clock_module
from turnmill.clock import now_ms
from turnmill.control.claims import answer_id, open_answers
from turnmill.control.receiver import Control
from turnmill.control.record import ANSWER, NOW, STEER, STOP, Command, record_of
from turnmill.control.stopping import RunStopped
from turnmill.identity import thread_uuid
from turnmill.publish.counts import Counts
from turnmill.publish.micro_batch import MicroBatch
from turnmill.publish.run import PublishedRun
from turnmill.wire.envelope import decode
from turnmill.wire.registry import WIRES

WIRE: Final = "vercel-ai"
THREADS: Final = ("one", "two")
RUNS: Final = ("r1", "r2", "r3")  # of each thread: they have the same names
ASKS: Final = "r1"  # ends with a question
SECONDS: Final = 60.0  # in which things happen
REST: Final = 120.0  # in which all comes to rest


@dataclass(eq=False)
class World:
    """The topics, and who is there."""

    rng: random.Random
    loop: SimulatedLoop
    settings: Settings = field(default_factory=Settings)
    events: list[bytes] = field(default_factory=list)
    control: list[bytes] = field(default_factory=list)
    gateways: list[Gateway] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    given: list[Command] = field(default_factory=list)

    def process(self, name: str) -> Process:
        found = Process(self.loop, name)
        self.processes.append(found)
        return found

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(self.rng.expovariate(1 / seconds))

    def records(self) -> list[dict[str, Any]]:
        return [record_of(value) for value in self.control]


class Program:
    """A process with a publisher: the owner of its runs. What it has not sent when it dies is lost."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.counts = Counts()
        self.process = world.process(name)
        self.listening = Control(world.settings)
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()
        self.delivery: Any = SimpleNamespace(room=self._room, put=lambda _, value, __: self.sent.put_nowait(value))

    async def _room(self) -> None:
        await asyncio.sleep(0)

    def linger(self) -> None:
        """What waits goes with what comes next, or with the end."""

    def forget(self, run: PublishedRun) -> None:
        self.listening.over(run)

    def run(self, thread: str, run_id: str, parent: str | None = None) -> PublishedRun:
        uuid = thread_uuid(thread)[0]
        identity = {"thread_id": uuid, "run_id": run_id, "agent_id": "a", "dialect": WIRE}
        info = {"parent_run_id": parent} if parent else {}
        of = None if parent is None else (None, parent)
        run = PublishedRun(self, WIRES[WIRE], MicroBatch(identity, info), None, steers=run_id != "r3", parent=of)
        run.hear()
        self.listening._task = self.listening._task or asyncio.current_task()
        self.listening.begun(run)
        return run

    async def hear(self) -> None:
        at = 0
        while True:
            for value in self.world.control[at:]:
                self.listening.heard(value)
                at += 1
            await self.world.pause(0.5)

    async def send(self) -> None:
        while True:
            value = await self.sent.get()
            await self.world.pause(0.1)
            self.world.events.append(value)

    def start(self, work: Any) -> None:
        for task in (self.hear(), self.send(), work):
            self.process.start(task)


class Gateway:
    """A process with the commands of a gateway."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.process = world.process(name)
        follower: Any = None
        self.commands = Commands(
            CONTROL.full_name(world.settings.topic_prefix),
            follower,
            self._publisher,
            self._notify,
            BudgetAnswers(()),
            self._erased,
        )
        self.process.start(self._follow())

    async def _publisher(self) -> Any:
        await self.world.pause(0.1)
        return SimpleNamespace(put=self._put, flush=self._flush)

    async def _put(self, _: bytes, value: bytes) -> None:
        for _ in range(1 + (self.world.rng.random() < 0.3)):  # a producer that doubts sends twice
            await self.world.pause(0.1)
            self.world.control.append(value)

    async def _flush(self, _: float) -> None:
        await self.world.pause(0.1)

    async def _notify(self, _: Any) -> None:
        await self.world.pause(0.1)

    async def _erased(self, _: Any) -> set[Any]:
        return set()

    async def _follow(self) -> None:
        topics = [
            (TopicPartition(topic.full_name(self.world.settings.topic_prefix), 0), values)
            for topic, values in ((CONTROL, self.world.control), (EVENTS, self.world.events))
        ]
        at = [0, 0]
        while True:
            for n in self.world.rng.sample((0, 1), 2):
                place, values = topics[n]
                news = values[at[n] : at[n] + self.world.rng.randint(1, 5)]
                records = [EventRecord(0, at[n] + k, 0, value) for k, value in enumerate(news)]
                self.commands.take(place, records if n else [SimpleNamespace(value=one) for one in news], 0)
                at[n] += len(news)
            await self.world.pause(0.3)


async def speaks(world: World, run: PublishedRun, *, asks: bool) -> None:
    """Publish one run, which takes up messages between its words."""

    async def events() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "start"}
        yield {"type": "start-step"}
        for n in range(world.rng.randint(1, 20)):
            yield {"type": "text-start", "id": f"t{n}"}
            yield {"type": "text-end", "id": f"t{n}"}
            await world.pause(1.0)
            await run.steered()
        if asks:
            yield {"type": "tool-input-available", "toolCallId": "c", "toolName": "pay", "input": {}}
            yield {"type": "tool-approval-request", "approvalId": "q", "toolCallId": "c"}
        yield {"type": "finish-step"}
        yield {"type": "finish"}

    try:
        async with run:
            async for _ in run.tee(events()):
                await world.pause(0.2)
    except RunStopped:
        pass


async def publishes(world: World, program: Program, thread: str) -> None:
    """One run after the other; the second is started by the first."""
    for run_id in RUNS:
        await world.pause(4.0)
        run = program.run(thread, run_id, "r1" if run_id == "r2" else None)
        await speaks(world, run, asks=run_id == ASKS)


async def resumes(world: World, program: Program, thread: str) -> None:
    """Go on with each answer, once."""
    number = 0
    while True:
        await world.pause(5.0)
        found = open_answers(world.records(), None, thread_uuid(thread)[0], now_ms())
        if not found:
            continue
        number += 1
        run = program.run(thread, f"resumed-{program.process.name}-{number}")
        async with run:
            for answer in found:
                await run.acknowledge(answer)
            await world.pause(1.0)
        return  # another process looks at what comes later


async def calls(world: World) -> None:
    """Give commands: to runs that are there, that are to come, that are over; some twice."""
    rng = world.rng
    while world.loop.now < SECONDS:
        await world.pause(0.7)
        alive = [one for one in world.gateways if one.process.alive]
        if not alive:
            continue
        kind = rng.choice((STOP, STEER, STEER, STEER, STEER, ANSWER, ANSWER))
        key = (thread_uuid(rng.choice(THREADS))[0], None)
        run_id = ASKS if kind == ANSWER else rng.choice(RUNS)
        payload = {
            STOP: {},
            STEER: {"text": f"message {len(world.given)}"},
            ANSWER: {"answer_id": answer_id(ASKS, "q"), "value": True},
        }[kind]
        command = new_command(kind, key, run_id, NOW, f"caller {len(world.given)}", payload)
        world.given.append(command)
        gateway = rng.choice(alive)
        gateway.process.start(gateway.commands.give(command))


async def storms(world: World) -> None:
    """Kill gateways, and start others."""
    for number in range(6):
        await world.pause(12.0)
        victim = world.rng.choice(world.gateways)
        victim.process.kill()
        world.gateways.append(Gateway(world, f"gateway {number + 2}"))


async def schedule(world: World) -> None:
    """Play it, until all has come to rest."""
    world.gateways += [Gateway(world, f"gateway {number}") for number in range(2)]
    for thread in THREADS:
        program, resuming = Program(world, f"program {thread}"), Program(world, f"resumes {thread}")
        program.start(publishes(world, program, thread))
        resuming.start(resumes(world, resuming, thread))
        if world.rng.random() < 0.2:
            program.process.fuse = world.rng.randint(20, 400)
    storm = asyncio.create_task(storms(world))
    await calls(world)
    await asyncio.sleep(REST)
    storm.cancel()
    world.gateways.append(Gateway(world, "the last gateway"))
    await asyncio.sleep(REST)


def played(seed: int, take_out: Callable[[pytest.MonkeyPatch], None] | None = None) -> list[str]:
    """Play the schedule of a seed -> what is wrong with it."""
    loop = SimulatedLoop()
    world = World(random.Random(seed), loop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock_module, "time", clock(loop))
        if take_out is not None:
            take_out(patch)
        try:
            loop.run_until_complete(schedule(world))
            envelopes = [decode(value) for value in world.events]
            turns = turns_of(envelopes)
            return list(problems(envelopes, world.records(), turns))
        finally:
            for process in world.processes:
                process.bury()
            loop.close()


def turns_of(envelopes: list[dict[str, Any]]) -> list[Any]:
    """Return the turns that a worker makes of them."""
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for envelope in envelopes:
        runs.setdefault((envelope["thread_id"], envelope["run_id"]), []).append(envelope)
    return [record for records in runs.values() for record in assemble(DIALECTS[WIRE], records)[0]]

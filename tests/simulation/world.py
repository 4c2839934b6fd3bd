"""All that a schedule consists of: broker, groups, stores, workers, agents and attackers, and the storm over them."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from pipeline.assembly import finishing as finishing_module
from pipeline.observability.telemetry_meter import TelemetryMeter
from pipeline.stores.content import offload
from pipeline.stores.content import store as content
from pipeline.stores.database import opened
from pipeline.worker.assemble import outgoing_results, state_reads
from pipeline.worker.host import commits, group_work
from pipeline.worker.sinks import agreed_clock
from pipeline.worker.sinks import metrics as metrics_role
from pipeline.worker.sinks import role as sinks_role
from tests.simulation import loop as loop_module
from tests.simulation import naps, retention
from tests.simulation.broker import Broker, Weather, place_of
from tests.simulation.conversations import conversation
from tests.simulation.group import Group
from tests.simulation.hostile import ATTACKS, Scene
from tests.simulation.keeping import Keeping
from tests.simulation.lake import Tables
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.publishers import Agent
from tests.simulation.reading import Reading
from tests.simulation.scenarios import LONG, RECORD_BYTES, TURN_BYTES, Scenario
from tests.simulation.sqlite import Sqlite
from tests.simulation.stores import Archive, Database, Disk, Faults, Objects
from tests.simulation.storm import storm
from tests.simulation.tenants import Run, good_run
from tests.simulation.watches import GROUP_BYTES
from tests.simulation.worker import Worker
from tests.support.fake_stores import answer_by_methods
from topics import catalog
from turnmill import clock
from turnmill.publish import spool

ROLES: Final = ("assemble", "store", "metrics", "archive")
READS: Final = {"assemble": "events", "store": "turns", "metrics": "telemetry", "archive": "turns"}
REST_WITHIN: Final = 240.0  # seconds of calm in which all must come to rest
MOST_WORKERS: Final = 3
WATCH: Final = 1.0  # seconds between two looks


class World:
    """See above. `trace` takes a line of what happens."""

    def __init__(
        self, scenario: Scenario, loop: SimulatedLoop, rng: random.Random, folder: Path, trace: Callable[[str], None]
    ) -> None:
        self.scenario = scenario
        self.loop = loop
        self.rng = rng
        self.folder = folder
        self.trace = trace
        self.broker = Broker(loop, rng, rng.choice((1, 2, 3)), TURN_BYTES, trace, self.weather())
        self.groups = {role: Group(role, self.broker) for role in ROLES}
        self.problems: list[str] = []  # seen while it went on
        kind = Keeping if scenario.retention else Sqlite if scenario.sqlite else Database
        self.database = kind(Faults(rng, self.broker.delay), self.problems, loop.time)
        self.objects = Objects(Faults(rng, self.broker.delay), clock=lambda: self.broker.now)
        faults, gone = Faults(rng, self.broker.delay), self.database.gone
        self.archive = Tables(faults, folder=folder, gone=lambda: gone) if scenario.lake else Archive(faults)
        self.disk = Disk()
        self.stores = (self.database.faults, self.objects.faults, self.archive.faults, self.disk)
        self.processes: list[Process] = []
        self.workers: list[Worker] = []
        self.agents: list[Agent] = []
        kept = scenario.settings.content_url is not None  # elsewhere than in the turns, which have a largest size
        self.seconds, count = rng.choice(scenario.lengths)
        self.storming = False
        self.runs: list[Run] = [good_run(n, rng, large=n % 4 == 0 and kept) for n in range(rng.randint(3, count))]
        if scenario.talks:
            self.runs = [run for n in range(rng.randint(1, count // 2)) for run in conversation(n, rng)]
        self.attackers: list[asyncio.Task[None]] = []
        self.orders = retention.Orders()

    def weather(self) -> Weather:
        """Some weather of this scenario."""
        odds = {name: self.rng.random() * most for name, most in self.scenario.weather.items()}
        return Weather(slow=self.rng.choice((0.002, 0.02, 0.1)), **odds)

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        """Put the simulated surroundings in the places of the real ones."""
        time = loop_module.clock(self.loop)
        patch.setattr(asyncio, "sleep", naps.sleep)
        patch.setattr(metrics_role, "TelemetryMeter", lambda metrics: TelemetryMeter(metrics, 100))
        for module in (commits, clock, opened, spool):
            patch.setattr(module, "time", time)
        patch.setattr(spool, "uuid4", lambda: UUID(int=self.rng.getrandbits(128)))
        patch.setattr(spool, "fsync_all", spool_closed)
        patch.setattr("turnmill.publish.spooling.fsync_all", spool_closed)
        reading = Reading(self.broker)
        patch.setattr(state_reads, "read_once", reading.read_once)
        patch.setattr(state_reads, "TemporaryFile", self.disk.file)
        patch.setattr(sinks_role, "ThreadStore", self.database)
        patch.setattr(agreed_clock, "AgreedClock", lambda connect, store: _only_clock)
        answer_by_methods(patch, Database)
        if self.scenario.retention:
            retention.patch(self, patch)
        else:
            patch.setattr(sinks_role, "archive_of", self.archive.of)
        patch.setattr(content, "Objects", lambda: self.objects)
        # What is large here would be small elsewhere.
        patch.setattr(outgoing_results, "MAX_REQUEST_BYTES", TURN_BYTES)
        patch.setattr(group_work, "GROUP_BYTES", GROUP_BYTES)
        patch.setattr(offload, "MAX_RECORD_BYTES", TURN_BYTES * 9 // 10)
        patch.setattr("pipeline.assembly.spilled_run.MAX_SEGMENT_BYTES", TURN_BYTES * 2 // 3)
        patch.setattr(finishing_module, "LARGE_RUN_BYTES", TURN_BYTES // 10)

    # ---- who takes part

    def process(self, name: str) -> Process:
        """A new process."""
        process = Process(self.loop, f"{name}-{len(self.processes)}")
        self.processes.append(process)
        return process

    def start_worker(self, *, whole: bool = False) -> None:
        """One more worker, of all roles or of some, unless there are many."""
        if len(self.living()) >= MOST_WORKERS and not whole:
            return
        roles = ROLES if whole or self.rng.random() < 0.7 else self.rng.sample(ROLES, 2)
        process = self.process("worker")
        limits = self.scenario.limits
        worker = Worker(self.broker, process, self.groups, roles, self.scenario.settings, limits, self.problems)
        self.workers.append(worker)
        self.trace(f"{process.name} starts: {', '.join(roles)}")
        worker.start()

    def living(self) -> list[Worker]:
        """The workers that were not killed."""
        return [worker for worker in self.workers if worker.process.alive]

    def start_agent(self, folder: str, runs: list[Run]) -> Agent:
        """A publisher, which adopts what is in that spool."""
        process = self.process("agent")
        process.skew = self.rng.choice((0.0, 0.0, -3600.0, 5.0))
        agent = Agent(self.broker, process, self.folder / folder, runs, self.seconds)
        self.agents.append(agent)
        self.trace(f"{process.name} publishes {', '.join(run.run_id for run in runs) or 'what was left'} over {folder}")
        agent.start()
        return agent

    def attack(self, number: int, name: str) -> None:
        """One attacker, in its own time."""
        victim = self.rng.choice(self.runs)
        scene = Scene(victim, number, self.rng, self.broker.now, RECORD_BYTES, TURN_BYTES)
        self.trace(f"attack {name} on {victim.run_id} of {victim.tenant}")

        async def sent() -> None:
            for pause, value in ATTACKS[name](scene):
                await asyncio.sleep(pause)
                key = victim.key
                self.broker.append("events", place_of(key, self.broker.partitions), key, value)

        self.attackers.append(self.loop.create_task(sent()))

    # ---- the course of things

    async def play(self) -> None:
        """Storm, calm, rest; once more, with a worker that has seen nothing of it."""
        watch = self.loop.create_task(self.watch())
        for _ in range(self.rng.randint(1, 2)):
            self.start_worker()
        agents = self.rng.randint(1, 2)
        threads = {run.thread_id: n % agents for n, run in enumerate(self.runs)} if self.scenario.talks else {}
        for number in range(agents):
            mine = [run for n, run in enumerate(self.runs) if threads.get(run.thread_id, n % agents) == number]
            self.start_agent(f"spool-{number}", mine)
        most = self.scenario.most_attacks
        for number in range(self.rng.randint(1, most) if most else 0):
            self.attack(number, self.rng.choice(self.scenario.attacks))
        await storm(self)
        await self.calm()
        await self.rest()
        if self.scenario.retention:
            await retention.carried_out(self)
        for worker in self.living():
            worker.process.kill()
        self.start_worker(whole=True)
        await self.rest()
        if self.scenario.retention:
            await retention.passed(self)
        watch.cancel()

    async def watch(self) -> None:
        """The coordinators, looking at who is silent; and we, at what has crashed."""
        while True:
            await asyncio.sleep(WATCH)
            for group in self.groups.values():
                group.look()
            for process in self.processes:
                process.look()

    async def calm(self) -> None:
        """No more faults; all that was spooled is sent."""
        self.trace("calm")
        self.broker.weather = Weather(slow=0.005, pace=2.0)
        for faults in self.stores:
            faults.mend()
        for process in self.processes:
            process.go_on()
            process.fuse = None
        self.start_worker(whole=True)
        await asyncio.gather(*self.attackers)
        await self.published()
        for folder in sorted({agent.folder.name for agent in self.agents}):
            self.start_agent(folder, [])
            await self.published()

    async def published(self) -> None:
        """Wait for the agents."""
        began = self.loop.now
        while agents := [agent.process.name for agent in self.agents if agent.process.alive]:
            await asyncio.sleep(1)
            if self.loop.now - began > REST_WITHIN:
                raise AssertionError(f"{', '.join(agents)} publish for ever")

    async def rest(self) -> None:
        """Until nothing moves any more, and every deadline has passed."""
        began = since = self.loop.now
        seen: object = None
        while self.loop.now - since < LONG + 4:
            await asyncio.sleep(2)
            state = self.state()
            if state != seen or self.behind():
                seen, since = state, self.loop.now
            if self.loop.now - began > REST_WITHIN:
                raise AssertionError(f"no rest after {REST_WITHIN:.0f} s of calm: {'; '.join(self.behind())}")

    def state(self) -> object:
        """What moves while something is going on."""
        ends = [(name, self.broker.log(name, n).end) for name in TOPICS for n in range(self.broker.partitions)]
        return ends, [sorted(group.committed.items()) for group in self.groups.values()]

    def behind(self) -> list[str]:
        """The groups that have not read all."""
        return [
            f"{role} has committed {group.committed.get(number, 0)} of {end} on {READS[role]}/{number}"
            for role, group in self.groups.items()
            for number in range(self.broker.partitions)
            if group.committed.get(number, 0) < (end := self.broker.log(READS[role], number).end)
        ]


TOPICS: Final = tuple(topic.name for topic in catalog.CATALOG)


def spool_closed(descriptors: Any) -> None:
    """A disk in memory needs no sync."""
    import os

    for descriptor in descriptors:
        os.close(descriptor)


async def _only_clock() -> int:
    """The time of the one clock that there is here."""
    return agreed_clock.now_ms()

"""Commands to runs, while agents, gateways, workers and a broker die between a command and what becomes of it.

Two callers give commands at both gateways: to runs that are under way, that are to come, that are over; some are put on
the topic twice. Each question gets an answer at either gateway. What the topics say then is looked at by
`tests.support.command_checker`.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from aiokafka import AIOKafkaProducer

import turnmill
from pipeline.devbroker.ports import free_ports
from pipeline.gateway.control.commands import new_command
from pipeline.kafka.offsets import group_lag
from pipeline.stores.database.store import ThreadStore
from pipeline.worker.host.roles import ROLES
from pipeline.worker.repair.ledger import take_stock
from tests.chaos.commanded_program import THREADS
from tests.chaos.load import Answer, Load
from tests.chaos.scene import STARTED, Outcome, Scene
from tests.support.command_checker import problems, said_by
from tests.support.topic_records import read_all
from tests.support.workers import environment
from topics import control, turn_record
from topics.catalog import CONTROL, EVENTS, TURNS
from turnmill import ClientSettings, Publisher
from turnmill.errors import TurnmillError
from turnmill.identity import thread_uuid
from turnmill.kafka.client import client_options
from turnmill.wire.envelope import decode, encode

PATIENCE: Final = 40.0  # seconds behind the last command: nobody answers after 30
KILLS: Final = ("gateway", "program", "worker", "broker", "gateway", "program", "gateway", "program", "worker")
EVERY: Final = 4.0  # seconds between two kills
TERM_WITHIN: Final = 60.0


def nothing(_: int, __: int) -> Load:
    """What is published depends on what is commanded."""
    return Load([], [], Answer(), 0)


@dataclass(slots=True)
class Member:
    """A process that is killed and started again, on the same port; `lives`: how often it was started."""

    command: list[str]
    variables: dict[str, str]
    log: Path
    url: str = ""
    lives: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [*self.command, str(self.lives)] if not self.url else self.command
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, env=self.variables, stdout=out, stderr=out)
        self.lives += 1

    def end(self, number: int = signal.SIGKILL, within: float = TERM_WITHIN) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(within)


@dataclass(slots=True)
class Cast:
    """All who take part. `given`: the ids of the commands that a gateway has taken."""

    scene: Scene
    gateways: list[Member]
    programs: list[Member]
    http: httpx.AsyncClient
    producer: AIOKafkaProducer
    rng: random.Random
    given: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    async def post(self, path: str, body: dict[str, Any], gateway: Member | None = None) -> None:
        """Give a command at a gateway, which may be dead; nobody tries again."""
        with suppress(httpx.HTTPError):
            url = (gateway or self.rng.choice(self.gateways)).url
            answer = await self.http.post(f"{url}/v1/threads/{path}", json=body)
            if answer.status_code == 202:
                self.given += answer.json().get("command_ids") or [answer.json()["command_id"]]

    async def rows(self, status: str) -> list[dict[str, Any]]:
        with suppress(httpx.HTTPError):
            answer = await self.http.get(f"{self.rng.choice(self.gateways).url}/v1/runs", params={"status": status})
            return list(answer.json()["runs"]) if answer.status_code == 200 else []
        return []

    async def command(self, gateway: Member | None = None, program: int | None = None) -> None:
        """Give one to a run that is there, was there, or is to come."""
        rng, number = self.rng, self.rng.randrange(len(self.programs)) if program is None else program
        open_runs = [one for one in await self.rows("open") if one["run_id"].startswith(f"program{number}-")]
        if open_runs and rng.random() < 0.7:
            one = rng.choice(open_runs)
            thread, run_id = str(one["external_id"]), str(one["run_id"])
        else:
            thread = f"program{number}-{rng.randrange(THREADS)}"
            run_id = f"{thread}-{self.programs[number].lives - rng.randint(0, 1)}-{rng.choice((0, 1, 3, 4, 6))}"
        kind = rng.choice(("stop", "steer", "steer", "answer"))
        answer_id = turnmill.answer_id(run_id, "q")
        body: dict[str, Any] = {"stop": {}, "steer": {"text": f"message {len(self.given)}"}}.get(kind, {"value": True})
        if kind == "answer":
            await asyncio.gather(*(self.post(f"{thread}/answers/{answer_id}", body, one) for one in self.gateways))
        elif rng.random() < 0.2:  # as by a producer that doubts
            command = new_command(kind, (thread_uuid(thread)[0], None), run_id, "now", "twice", body)
            topic, key = CONTROL.full_name(self.scene.settings.topic_prefix), command.thread_id.encode()
            for _ in range(2):
                await self.producer.send(topic, encode(command.record), key=key)
        else:
            await self.post(f"{thread}/runs/{run_id}/{kind}", body, gateway)

    async def calls(self) -> None:
        while True:
            await self.command()
            await asyncio.sleep(self.rng.uniform(0.1, 0.5))

    async def goes_on(self, publisher: Publisher, settings: ClientSettings) -> None:
        """Answer what threads wait for, differently at each gateway, and go on once with what counts."""
        over: set[str] = set()
        while True:
            await asyncio.sleep(0.5)
            for row in await self.rows("waiting"):
                thread, answer_id = str(row["external_id"]), row["asked"][0]["answer_id"]
                if thread in over:
                    continue
                both = zip(self.gateways, (True, False), strict=True)
                path = f"{thread}/answers/{answer_id}"
                await asyncio.gather(*(self.post(path, {"value": value}, one) for one, value in both))
                with suppress(TurnmillError):
                    answers = await asyncio.to_thread(turnmill.answers, thread, settings=settings)
                    if answers:
                        over.add(thread)
                        async with publisher.run(thread_id=thread, agent_id="told", dialect="vercel-ai") as run:
                            for answer in answers:
                                await run.acknowledge(answer)
                            await run.send({"type": "start"})

    async def storm(self) -> None:
        """Kill somebody right behind a command to him, and start him again."""
        kills = [*KILLS]
        self.rng.shuffle(kills)
        for kind in kills:
            await asyncio.sleep(EVERY)
            number = self.rng.randrange(2)
            self.done[f"{kind}s"] += 1
            if kind == "broker":
                leader = await self.scene.brokers.leader_of_most(self.scene.settings)
                self.scene.brokers.kill(leader)
                await asyncio.sleep(2 * EVERY)
                await asyncio.to_thread(self.scene.brokers.restart, leader)
                continue
            gateway = self.gateways[number] if kind == "gateway" else None
            await self.command(gateway, number if kind == "program" else None)
            victim: Any = self.scene.crew[number] if kind == "worker" else (gateway or self.programs[number])
            await asyncio.to_thread(victim.kill if kind == "worker" else victim.end)
            await asyncio.sleep(1)
            victim.start()


async def commanded(scene: Scene) -> None:
    """Play it, until all that can be known is told."""
    await scene.start(2)
    gateways = [_member(scene, f"gateway{n}", port) for n, port in enumerate(free_ports(2))]
    programs = [_member(scene, f"program{n}") for n in range(2)]
    known = {"brokers": scene.settings.brokers, "topic_prefix": scene.settings.topic_prefix, "control": True}
    client = ClientSettings(**known, home=scene.folder / "caller")
    options: dict[str, Any] = {**client_options(scene.settings), "acks": "all", "enable_idempotence": True}
    for member in (*gateways, *programs):
        member.start()
    try:
        async with (
            httpx.AsyncClient(timeout=20, trust_env=False) as http,
            AIOKafkaProducer(**options) as producer,
            Publisher(client) as publisher,
        ):
            cast = Cast(scene, gateways, programs, http, producer, random.Random(f"commanded/{scene.seed}"))
            await _ready(cast)
            tasks = [cast.calls(), cast.calls(), cast.goes_on(publisher, client)]
            tellers = [asyncio.create_task(task) for task in tasks]
            await cast.storm()
            await _ready(cast)  # SIGTERM would kill a program that has not installed its handler yet
            for program in programs:
                assert await asyncio.to_thread(program.end, signal.SIGTERM) == 0, program.log.read_text()[-2000:]
            scene.mended()
            await asyncio.sleep(2 * EVERY)
            for task in tellers:
                task.cancel()
            await asyncio.gather(*tellers, return_exceptions=True)
            await asyncio.sleep(PATIENCE)
            scene.note = ", ".join(f"{count} {what} killed" for what, count in sorted(cast.done.items()))
            scene.wrong += [line async for line in _apart(cast)]
    finally:
        for member in (*gateways, *programs):
            if member.process is not None and member.process.poll() is None:
                member.end()


def _member(scene: Scene, name: str, port: int | None = None) -> Member:
    home = scene.folder / name
    home.mkdir()
    log = scene.folder / f"{name}.log"
    if port is None:
        names = {"BROKERS": scene.settings.brokers, "TOPIC_PREFIX": scene.settings.topic_prefix, "HOME": str(home)}
        variables = {**os.environ, **{f"TURNMILL_{one}": value for one, value in names.items()}}
        command = [sys.executable, "-m", "tests.chaos.commanded_program", name]
        return Member(command, {**variables, "TURNMILL_CONTROL": "on"}, log)
    changes = {"gateway_port": port, "gateway_rate": 0.0, "home": home}
    variables = environment(scene.settings.model_copy(update=changes), TURNMILL_CONTROL="on")
    return Member([sys.executable, "-m", "pipeline", "gateway"], variables, log, f"http://127.0.0.1:{port}")


async def _ready(cast: Cast) -> None:
    """Wait until a gateway knows open runs of each program's present life."""
    until = time.monotonic() + STARTED
    lives = {(f"program{number}", str(program.lives - 1)) for number, program in enumerate(cast.programs)}
    while time.monotonic() < until:
        if lives <= {tuple(str(one["run_id"]).split("-")[:3:2]) for one in await cast.rows("open")}:
            return
        await asyncio.sleep(0.3)
    raise AssertionError("the programs did not begin")


async def _apart(cast: Cast) -> Any:
    """Yield the commands of which the gateways say different things."""
    for command_id in dict.fromkeys(cast.given):
        answers = [await cast.http.get(f"{one.url}/v1/commands/{command_id}") for one in cast.gateways]
        states = [str(one.json().get("state", one.status_code)) for one in answers]
        if len({*states}) > 1:
            yield f"of {command_id} one gateway says {states[0]}, and the other one {states[1]}"


async def look(scene: Scene, within: float) -> Outcome:
    """Wait until all is stored, then look at what the topics say."""
    result, began = Outcome(note=scene.note), time.monotonic()
    while True:
        async with ThreadStore(scene.settings.store_url) as store:
            result.balance = await take_stock(scene.settings, store)
        result.recovery = time.monotonic() - began
        if not result.balance.open and await _settled(scene):
            break
        if result.recovery > within:
            result.problems.append(f"{result.balance.open} runs are open still")
            break
        await asyncio.sleep(0.5)
    envelopes = [decode(record.value) for record in await read_all(scene.settings, EVENTS)]
    commands: list[Any] = [control.decode(record.value) for record in await read_all(scene.settings, CONTROL)]
    turns: list[Any] = [turn_record.decode(record.value) for record in await read_all(scene.settings, TURNS)]
    said = said_by(envelopes)
    for of in said.last.keys() - said.ended_at.keys():  # its program was killed: so it is over
        tenant, thread, run_id = of
        end = {"tenant": tenant, "thread_id": thread, "run_id": run_id, "seq": said.last[of] + 1, "events": []}
        envelopes.append({**end, "end": "disconnected"})
    result.problems += [*scene.wrong, *problems(envelopes, commands, turns)]
    kinds = {str(one["id"]): one["kind"] for one in commands}
    heard = Counter(kinds.get(event["id"]) for _, _, event in said.acknowledged if event["state"] == "acknowledged")
    states = Counter(one["payload"]["state"] for one in commands if one["kind"] == "state")
    for kind in ("stop", "steer", "answer"):
        if not heard[kind]:
            result.problems.append(f"no {kind} was heard: nothing is proved")
    result.turns = len({(one["thread_id"], one["turn_id"]) for one in turns})
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    result.note = f"{len(kinds) - states.total()} commands ({told}); {scene.note}"
    return result


async def _settled(scene: Scene) -> bool:
    for role, topic in (("assemble", EVENTS), ("store", TURNS)):
        if any(row.lag for row in await group_lag(scene.settings, ROLES[role].group(scene.settings), [topic])):
            return False
    return True

"""Attacks by what goes wrong elsewhere: records removed unread, a disk without room, two of one kind at once."""

import asyncio
import json
import resource
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiokafka.admin import RecordsToDelete

from pipeline.kafka.offsets import bounds, connected
from tests.attack.attack import Attack
from tests.attack.clocks import stopped
from tests.attack.commanding import opened
from tests.attack.stage import ROLES, Code, Said, Stage, sentence, spoken
from tests.chaos.versions import made
from tests.support.gateways import client
from tests.support.waiting import until
from topics.catalog import EVENTS, TURNS, Topic

QUESTIONS: Final = 20
FULL: Final = 15.0  # seconds


async def removed(stage: Stage, topic: Topic) -> None:
    """Remove all that a topic has, as retention does."""
    ends = {one: end for one, (_, end) in (await bounds(stage.settings, [topic])).items()}
    async with connected(stage.settings) as admin:
        await admin.delete_records({one: RecordsToDelete(end) for one, end in ends.items()})


async def is_told(stage: Stage) -> None:
    """Behind what was removed: doctor says so for ever, and not only until the worker goes on."""
    await stage.worker.start().url()
    for _ in range(2):
        await stage.is_whole(await stage.speak())
        await stage.all_read()
        findings = json.loads((await stage.command("doctor", "--json"))[1])
        (balance,) = [one for one in findings if one["check"] == "balance"]
        assert "removed by retention before they were read" in balance["seen"], f"nobody is told: {balance}"
        await stage.restart_worker()


async def unread_events(stage: Stage) -> None:
    """Uploads are acknowledged while workers are away, and their events are removed meanwhile."""
    await stage.is_whole(await stage.speak())
    await asyncio.sleep(2)  # offsets are committed
    stage.worker.end()
    await stage.speak()
    await removed(stage, EVENTS)
    await is_told(stage)


async def unread_turns(stage: Stage) -> None:
    """Turns are removed before any store has them: it is told, and a replay of the events brings them."""
    await stage.is_whole(await stage.speak())
    await asyncio.sleep(2)
    stage.worker.end()
    said = await stage.speak()
    before = await last(stage)
    async with stage.beside("worker", "--roles", "assemble") as worker:

        async def made_a_turn() -> bool:
            return await last(stage) > before

        await until(made_a_turn, worker.text)
        await stopped(worker)
    await removed(stage, TURNS)
    await is_told(stage)
    assert (await stage.command("replay"))[0] == 0
    await stage.is_whole(said)


async def last(stage: Stage) -> int:
    return sum(end for _, end in (await bounds(stage.settings, [TURNS])).values())


async def no_room(stage: Stage) -> None:
    """For a while no file of the worker and the gateway can grow, as on a disk that others have filled."""
    said = [await stage.speak()]
    await stage.is_whole(said[0])
    programs = [stage.worker.process.pid, stage.gateway.process.pid]
    hard = [resource.prlimit(pid, resource.RLIMIT_FSIZE)[1] for pid in programs]
    for pid, most in zip(programs, hard, strict=True):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
    try:
        said += [await stage.speak() for _ in range(3)]
        refused = await stage.acme.put(f"/v1/threads/{said[0].thread}/hold")
        assert refused.status_code == 503, f"a hold that can't be kept is answered {refused.status_code}"
        await asyncio.sleep(FULL)
    finally:
        for pid, most in zip(programs, hard, strict=True):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
    stage.alive()
    for one in said:
        await stage.is_whole(one)
    assert (await stage.acme.put(f"/v1/threads/{said[0].thread}/hold")).json()["changed"] is True
    await stage.acme.delete(f"/v1/threads/{said[0].thread}/hold")


async def two_versions(stage: Stage) -> None:
    """A worker of a later version takes over in the midst of runs, and one of ours behind it."""
    with tempfile.TemporaryDirectory() as folder:
        later = made(Path(folder))
        said = [Said(name, sentence(name)) for name in ("versions-1", "versions-2", "versions-3")]
        for one in said:
            await stage.upload(stage.acme, one.thread, "r1", spoken(one.text)[:20], end="open")
        await asyncio.sleep(2)  # they are on the topic of states
        stage.worker.end()
        code, path = Code(stage.code.python, later), {"PYTHONPATH": str(later)}
        async with stage.beside("worker", "--roles", ROLES, code=code, variables=path) as worker:
            await worker.url()
            await stage.upload(stage.acme, said[0].thread, "r1", spoken(said[0].text)[20:], from_seq=20, end="complete")
            await stage.upload(stage.acme, said[1].thread, "r1", spoken(said[1].text)[20:30], from_seq=20, end="open")
            await stage.is_whole(said[0])
            await asyncio.sleep(2)
            await stopped(worker)
        await stage.worker.start().url()
        for one, first in ((said[1], 30), (said[2], 20)):
            rest = spoken(one.text)[first:]
            await stage.upload(stage.acme, one.thread, "r1", rest, from_seq=first, end="complete")
    for one in said:
        await stage.is_whole(one)


async def two_gateways(stage: Stage) -> None:
    """Both answers to one question, at the same moment, each at a gateway: one counts, and the same at both."""
    thread, token = await opened(stage, "acme"), stage.acme.headers["Authorization"].removeprefix("Bearer ")
    async with (
        stage.another_gateway(gateway_tokens=stage.settings.gateway_tokens) as url,
        client(url, token) as other,
    ):

        async def give(gateway: Any, number: int, *, value: bool) -> str:
            answer = await gateway.post(f"/v1/threads/{thread}/answers/q{number}", json={"value": value})
            assert answer.status_code == 202, answer.text
            return str(answer.json()["command_id"])

        async def states(*ids: str) -> list[list[str]]:
            # A gateway that has not read a command yet says 404.
            answers = [[(await of.get(f"/v1/commands/{one}")).json() for one in ids] for of in (stage.acme, other)]
            return [[answer.get("state", "unread") for answer in of] for of in answers]

        await other.get(f"/v1/commands/{await give(stage.acme, -1, value=True)}")  # it has read what was given
        for number in range(QUESTIONS):
            ids = await asyncio.gather(give(stage.acme, number, value=True), give(other, number, value=False))

            async def one_counts(ids: tuple[str, str] = ids) -> bool:
                first, second = await states(*ids)
                assert first.count("refused") < 2, "neither answer counts"
                return first == second and first.count("refused") == 1

            await until(one_counts, partial("two answers to q{} count".format, number), 30)


ATTACKS: Final = (
    Attack("unread events", "remove events before workers read them", "be told to nobody", unread_events),
    Attack("unread turns", "remove turns before a store has them", "lose them, or be told to nobody", unread_turns),
    Attack("no room", "a disk that takes no byte for 15 s", "lose what was acknowledged", no_room),
    Attack("two versions", "workers of two versions, in turn, in mid-run", "lose or change a run", two_versions),
    Attack("two gateways", "yes and no at two gateways at once", "have both count, or neither", two_gateways),
)

"""Attacks by commands: what one tenant asks of its runs must not cost others their memory, stops and answers."""

import asyncio
import uuid
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any, Final

import httpx

from tests.attack.attack import Attack
from tests.attack.cost import bounded
from tests.attack.poison import record
from tests.attack.stage import Said, Stage
from turnmill.identity import thread_uuid

NESTED: Final[list[Any]] = [[]] * 20_000  # 60 KB as JSON, megabytes as Python objects with levels
MANY: Final = 10_050  # answers
AT_ONCE: Final = 40


async def opened(stage: Stage, tenant: str) -> str:
    """Begin a run of a tenant that stays open -> its thread."""
    thread = str(uuid.uuid4())
    begin = {**record([{"type": "start"}], run="r1", thread=thread), "tenant": tenant}
    await stage.publish(begin, key=thread.encode())
    caller = stage.acme if tenant == "acme" else stage.evil

    async def listed() -> bool:
        runs = (await caller.get("/v1/runs", params={"status": "open", "thread": thread})).json()
        return bool(runs["runs"])

    await stage.within_progress(listed, lambda: "the run is not open")
    return thread


async def answered(caller: httpx.AsyncClient, thread: str, values: Iterable[tuple[str, Any]]) -> list[int]:
    """Answer questions of a thread, given by their ids -> the statuses."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def give(answer_id: str, value: Any) -> int:
        async with slots:
            answer = await caller.post(f"/v1/threads/{thread}/answers/{answer_id}", json={"value": value})
        return answer.status_code

    return await asyncio.gather(*(give(*value) for value in values))


async def nested(stage: Stage) -> None:
    thread = await opened(stage, "evil")
    async with bounded(stage):
        statuses = await answered(stage.evil, thread, ((f"q{number}", NESTED) for number in range(400)))
    assert {*statuses} <= {202, 429}, statuses


async def forgotten_denial(stage: Stage) -> None:
    mine, theirs = await opened(stage, "acme"), await opened(stage, "evil")
    assert await answered(stage.acme, mine, [("q", False)]) == [202]
    await answered(stage.evil, theirs, ((f"q{number}", True) for number in range(MANY)))
    again = (await stage.acme.post(f"/v1/threads/{mine}/answers/q", json={"value": True})).json()["command_id"]

    async def refused() -> bool:
        return (await stage.acme.get(f"/v1/commands/{again}")).json()["state"] == "refused"

    await stage.within_progress(refused, lambda: "a denial became an approval")


async def lost_stop(stage: Stage) -> None:
    mine, theirs = await opened(stage, "acme"), await opened(stage, "evil")
    await answered(stage.evil, theirs, ((f"q{number}", True) for number in range(1_100)))
    await answered(stage.acme, mine, ((f"q{number}", True) for number in range(1_100)))
    stop = (await stage.acme.post(f"/v1/threads/{mine}/runs/r1/stop")).json()["command_id"]
    async with (
        asyncio.timeout(30),
        stage.acme.stream("GET", "/v1/control") as answer,
        aclosing(answer.aiter_lines()) as lines,
    ):
        first = await anext(line async for line in lines if line.startswith("data: "))
    assert stop in first, "a stop comes behind a thousand answers, or not at all"


async def blinded_audit(stage: Stage) -> None:
    said = await stage.speak()
    await stage.is_whole(said)
    strangers = httpx.AsyncClient(base_url=stage.url, headers={"Authorization": "Bearer nobody"})
    async with strangers:
        for first in range(0, 1_200, AT_ONCE):
            await asyncio.gather(*(strangers.get(f"/v1/threads/{first + n}") for n in range(AT_ONCE)))
    assert (await stage.acme.get(f"/v1/threads/{said.thread}?format=vercel-ai")).status_code == 200
    await export_is_noted(stage, said)


async def export_is_noted(stage: Stage, said: Said) -> None:
    wanted = thread_uuid(said.thread, "acme")[0]

    async def noted() -> bool:
        entries = (await stage.operator.get("/v1/audit?what=thread.export&limit=500")).json()["records"]
        return any(entry["subject"] == wanted for entry in entries)

    await stage.within_progress(noted, lambda: "an export is in no entry")


ATTACKS: Final = (
    Attack("nested answers", "400 answers of empty lists in a list", "fill the gateway's memory", nested),
    Attack("10,050 answers", "more answers than are remembered", "turn a denial into an approval", forgotten_denial),
    Attack("answers before stops", "a thousand open answers", "keep a stop from its program", lost_stop),
    Attack("a noisy minute", "refused requests without a token", "keep an export out of the audit log", blinded_audit),
)

"""Attacks by commands: what one tenant asks of its runs must not cost others their memory, stops and answers."""

import asyncio
import json
import time
import uuid
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any, Final

import httpx

from pipeline.policies.budgets import parse, thread_of
from tests.attack.attack import Attack
from tests.attack.cost import ASK, GROWTH, MIB, bounded
from tests.attack.poison import record
from tests.attack.stage import Said, Stage
from tests.support.gateways import client
from tests.support.upstream import Answering, Asked, chat_answer, playing
from turnmill.clock import now_ms
from turnmill.identity import thread_uuid

NESTED: Final[list[Any]] = [[]] * 20_000  # 60 KB as JSON, megabytes as Python objects with levels
MANY: Final = 10_050  # answers
AT_ONCE: Final = 40
SOON: Final = 10.0  # seconds in which a gateway that has just started takes a command
ASKING: Final = {"name": "asking", "tenant": "evil", "per": "month", "enforce": "ask"}
MODEL: Final = "model-of-this-attack"  # what others have used counts for another budget


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
        async for line in lines:
            if stop in line:
                return
            assert '"kind":"answer"' not in line, "a stop comes behind answers"
    raise AssertionError("a stop does not come")


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


async def read_again(stage: Stage) -> None:
    """A gateway that starts reads all commands of 14 days: within its memory, and soon."""
    mine, theirs = await opened(stage, "acme"), await opened(stage, "evil")
    before, _ = await started(stage, mine)
    await answered(stage.evil, theirs, ((f"q{number}", NESTED) for number in range(900)))
    peak, seconds = await started(stage, mine)
    assert peak - before < GROWTH, f"a gateway that starts takes {(peak - before) // MIB} MiB more"
    assert seconds < SOON, f"another tenant's stop is taken {seconds:.1f} s behind the start"


async def started(stage: Stage, thread: str) -> tuple[int, float]:
    """-> the most memory of a gateway that starts, and the seconds until it takes a stop of the victim's."""
    async with stage.beside("gateway", gateway_tokens=stage.settings.gateway_tokens) as gateway:
        url, began = await gateway.url(), time.monotonic()
        async with client(url) as http:
            stop = await http.post(f"/v1/threads/{thread}/runs/r1/stop", headers=dict(stage.acme.headers))
        assert stop.status_code == 202, stop.text
        return gateway.peak(), time.monotonic() - began


async def forgotten_stop(stage: Stage) -> None:
    """A stop waits for a call through the proxy, behind a tenant's thousand open answers and a restart."""
    mine, theirs = str(uuid.uuid4()), await opened(stage, "evil")
    await answered(stage.evil, theirs, ((f"q{number}", True) for number in range(1_050)))
    stop = (await stage.acme.post(f"/v1/threads/{mine}/runs/r1/stop")).json()["command_id"]
    await answered(stage.evil, theirs, ((f"p{number}", True) for number in range(1_050)))

    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole(chat_answer("It rains."))

    named = {"Turnmill-Thread": mine, "Turnmill-Run": "r1", **proxied(stage.acme)}
    async with (
        playing(play) as upstream,
        stage.another_gateway(gateway_proxy=f"up={upstream.url}", gateway_tokens=stage.settings.gateway_tokens) as url,
        client(url) as http,
    ):
        known = await http.get(f"/v1/commands/{stop}", headers=dict(stage.acme.headers))
        assert known.status_code == 200, f"the stop is forgotten: {known.text}"
        answer = await http.post("/proxy/up/v1/chat/completions", json=ASK, headers=named)
        assert (answer.status_code, upstream.asked) == (400, []), f"a call that was stopped is made: {answer.text}"


def proxied(caller: httpx.AsyncClient) -> dict[str, str]:
    return {"Turnmill-Token": caller.headers["Authorization"].removeprefix("Bearer ")}


async def answered_before(stage: Stage) -> None:
    """The id of a budget's question can be computed: an answer from before it is asked is none."""
    mine = {**ASKING, "model": MODEL, "tokens": 5}
    (budget,) = parse(json.dumps([mine]))
    thread, name = thread_of(budget)
    begin = {**record([{"type": "start"}], run="r1", thread=thread), "tenant": "evil", "run": {"external_id": name}}
    await stage.publish(begin, key=thread.encode())
    more = {"budgets": json.dumps([mine]), "gateway_tokens": stage.settings.gateway_tokens}
    token = stage.evil.headers["Authorization"].removeprefix("Bearer ")
    said: list[str] = []
    async with stage.another_gateway(**more) as url, client(url, token) as evil:

        async def taken() -> bool:
            path = f"/v1/threads/{thread}/answers/{budget.question(now_ms())}"
            answer = await evil.post(path, json={"value": True})
            said.append(answer.text)
            return answer.status_code == 202

        await stage.within_progress(taken, lambda: f"no answer is taken: {said[-1]}")
        use = {**chat_answer("Hello"), "model": MODEL, "created": now_ms() // 1000}
        await stage.upload(stage.evil, "used-up", "r1", [use], dialect="openai-chat", end="complete")

        async def asks() -> bool:
            runs = (await evil.get("/v1/runs?status=waiting")).json()["runs"]
            return any(run["external_id"] == name for run in runs)

        await stage.within_progress(asks, lambda: "nobody is asked whether more may be used")
        assert not (await evil.get(f"/v1/budgets/check?model={MODEL}")).json()["allowed"], (
            "more is used, and nobody was asked"
        )


ATTACKS: Final = (
    # Before those that leave a tenant's share of commands full: an answer beyond it is refused.
    Attack("answered before", "answer a budget's question before it is asked", "use more, unasked", answered_before),
    Attack("answers at a start", "900 answers that a starting gateway reads", "fill it, or delay others", read_again),
    Attack("a stop at a start", "2,100 open answers", "make a starting gateway forget another's stop", forgotten_stop),
    Attack("nested answers", "400 answers of empty lists in a list", "fill the gateway's memory", nested),
    Attack("10,050 answers", "more answers than are remembered", "turn a denial into an approval", forgotten_denial),
    Attack("answers before stops", "a thousand open answers", "keep a stop from its program", lost_stop),
    Attack("a noisy minute", "refused requests without a token", "keep an export out of the audit log", blinded_audit),
)

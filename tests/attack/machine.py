"""Abuses that nobody has thought of: made for each door of the OpenAPI document, as a tenant may call it.

A door is an operation. Each abuse does the same with every door that there is: many large requests, odd values, flags
that make an answer large, refusals, readers that read nothing, words that are to be erased, names of others. A door
that is added is abused without a line written for it.
"""

import asyncio
import json
import time
import uuid
from contextlib import AsyncExitStack
from typing import Any, Final

import httpx

from pipeline.policies.pools import QUEUED
from tests.attack.commanding import NESTED, export_is_noted, opened
from tests.attack.cost import MIB, bounded
from tests.attack.machine_doors import (
    AS_JSON,
    Door,
    Doors,
    attacks,
    doors_of,
    filled,
    first_lines,
    many,
    reading,
    status_of,
    where,
)
from tests.attack.poison import record
from tests.attack.stage import Stage, spoken
from tests.support.gateways import client

MANY: Final = 400  # large requests at a door
REMEMBERED: Final = 10_050  # small ones, at a door that takes an id of the caller's
OTHERS: Final = 1_100  # at another one
SOON: Final = 5.0  # seconds in which a gateway that has just started takes a command
READER: Final = MIB  # bytes of a stream that nobody reads
ODD: Final[tuple[Any, ...]] = (None, True, 0, -1, 1e308, 2**63, "", "x", "\ud800", [], {}, [[]], {"a": {}})
LONG: Final = "x" * 4_000


async def large(stage: Stage) -> None:
    """Many large requests at each door, and then at a gateway that starts anew."""
    doors, wrong = await doors_of(stage), []
    mine, theirs = await opened(stage, "acme"), await opened(stage, "evil")
    for door in doors.writing():
        try:
            async with bounded(stage):
                statuses = await many(stage.evil, door, theirs, doors.body(door, LONG, NESTED), MANY)
            wrong += [f"{door.method} {door.path}: {status}" for status in statuses if status in (500, 502, 504)]
        except AssertionError as error:
            wrong.append(f"{door.method} {door.path}: {error}")
    token = stage.acme.headers["Authorization"].removeprefix("Bearer ")
    async with stage.another_gateway(gateway_tokens=stage.settings.gateway_tokens) as url, client(url, token) as acme:
        began = time.monotonic()
        stop = await acme.post(f"/v1/threads/{mine}/runs/r1/stop")
        if stop.status_code != 202 or time.monotonic() - began > SOON:
            wrong.append(f"behind a restart, a stop: {stop.status_code} after {time.monotonic() - began:.0f} s")
    assert not wrong, "\n".join(wrong)


async def repeated(stage: Stage) -> None:
    """More requests than a memory might count: what another tenant asked for first still counts, and comes first."""
    doors, wrong = await doors_of(stage), []
    mine, theirs = await opened(stage, "acme"), await opened(stage, "evil")
    first: dict[str, str] = {}
    for door in doors.writing("control"):
        answer = await stage.acme.request(door.method, filled(door, mine), json=doors.body(door, "first", False))
        if answer.status_code == 202:
            first[f"{door.method} {door.path}"] = answer.json()["command_id"]
    for door in doors.writing("control"):
        times = REMEMBERED if filled(door, "", 1) != filled(door, "", 2) else OTHERS
        await many(stage.evil, door, theirs, doors.body(door, "again", True), times)
    for name, command in first.items():
        known = await stage.acme.get(f"/v1/commands/{command}")
        if known.status_code != 200:
            wrong.append(f"{name}: another tenant's is forgotten ({known.status_code})")
    token = stage.acme.headers["Authorization"].removeprefix("Bearer ")
    async with stage.another_gateway(gateway_tokens=stage.settings.gateway_tokens) as url, client(url, token) as anew:
        for caller, when in ((stage.acme, ""), (anew, ", behind a restart")):
            seen = await first_lines(caller, "/v1/control", 2 * len(first))
            stops = {name: command for name, command in first.items() if name.endswith("/stop")}
            lost = [name for name, command in stops.items() if not any(command in line for line in seen)]
            wrong += [f"{name}: not among the first commands{when}" for name in lost]
    for door in doors.writing("control"):
        if filled(door, "", 1) != filled(door, "", 2):
            again = await stage.acme.request(door.method, filled(door, mine), json=doors.body(door, "second", True))
            wrong += await refused_later(stage, door, again)
    assert not wrong, "\n".join(wrong)


async def refused_later(stage: Stage, door: Door, answer: httpx.Response) -> list[str]:
    """Whether a second word on the same thing counts, though the first one was given."""
    if answer.status_code != 202:
        return []
    for _ in range(30):
        state = (await stage.acme.get(f"/v1/commands/{answer.json()['command_id']}")).json()["state"]
        if state == "refused":
            return []
        await asyncio.sleep(0.5)
    return [f"{door.method} {door.path}: the second counts as the first"]


async def amplified(stage: Stage) -> None:
    """What is stored once, or small, and becomes large where it is read: each door with each of its flags."""
    doors, wrong = await doors_of(stage), []
    thread = str(uuid.uuid4())
    asked = {"messages": [{"role": "user", "content": "y" * 900_000}]}
    runs = [record(spoken("x"), run=f"r{number}", thread=thread, end="complete") for number in range(60)]
    for run in runs:
        await stage.publish({**run, "run": {"request": asked}}, key=thread.encode())
    await stage.all_read()
    for door in doors.writing("feedback"):
        async with asyncio.TaskGroup() as group:
            body = doors.body(door, LONG, LONG)
            for _ in range(2):
                group.create_task(many(stage.evil, door, thread, body, 4 * MANY))
    await stage.all_read()
    for door in doors.every:
        for flag in door.flags if door.method == "get" and not door.endless else ():
            try:
                async with bounded(stage):
                    await stage.evil.get(filled(door, thread), params={flag: "true"})
            except AssertionError as error:
                wrong.append(f"{door.method} {door.path}?{flag}: {error}")
    assert not wrong, "\n".join(wrong)


async def strangers(stage: Stage) -> None:
    """Refusals at every door: what is done meanwhile is noted all the same, and each refused tenant has its entry."""
    doors = await doors_of(stage)
    said = await stage.speak()
    await stage.is_whole(said)
    guarded = [door for door in doors.every if door.needs]
    async with client(stage.url, "nobody") as nobody:
        times = 1 + OTHERS // len(guarded)
        for door, statuses in zip(
            guarded, await asyncio.gather(*(many(nobody, door, "t", {}, times) for door in guarded)), strict=True
        ):
            assert statuses == {401}, f"{door.method} {door.path}: {statuses}"
    assert (await stage.acme.get(f"/v1/threads/{said.thread}?format=vercel-ai")).status_code == 200
    await export_is_noted(stage, said)


async def odd(stage: Stage) -> None:
    """Each field of each body as something else, and then every door that reads."""
    doors, wrong = await doors_of(stage), []
    thread = await opened(stage, "evil")
    for door in doors.writing():
        for field in doors.fields(door):
            for value in ODD:
                content = json.dumps({**doors.body(door, "x", True), field: value}).encode()
                path = filled(door, thread)
                answer = await stage.evil.request(door.method, path, content=content, headers=AS_JSON)
                if answer.status_code >= 500:
                    wrong.append(f"{door.method} {door.path}: {field}={value!r}: {answer.status_code}")
                wrong += [f"{x}, behind {field}={value!r}" for x in await unanswered(stage.evil, doors, door, answer)]
    wrong += [x for door in reading(doors) if (x := await status_of(stage.evil, door, filled(door, thread)))]
    assert not wrong, "\n".join(wrong)


async def unanswered(caller: httpx.AsyncClient, doors: Doors, made: Door, answer: httpx.Response) -> list[str]:
    """The doors that fail for the id that a request got."""
    body = answer.json() if answer.status_code in (200, 201, 202) else {}
    ids = [value for name, value in body.items() if name.endswith("id") and isinstance(value, str)]
    several = [door for door in reading(doors) if door.path.endswith("_id}") and "thread_id" not in door.path]
    checks = [(door, door.path[: door.path.index("{")] + known) for door in several for known in ids]
    return [x for door, path in checks if (x := await status_of(caller, door, path))]


async def left(stage: Stage) -> None:
    """A word at each door, in a thread that is erased: it is in no answer then, and not behind a restart."""
    doors, mark = await doors_of(stage), f"mark{uuid.uuid4().hex}"
    thread = await opened(stage, "evil")
    of_threads = [door for door in doors.writing() if "{thread_id}" in door.path]
    for number, door in enumerate(of_threads):
        await stage.evil.request(door.method, filled(door, thread, number), json=doors.body(door, mark, mark))
    await stage.upload(stage.evil, thread, "r2", spoken(mark))
    await stage.all_read()
    assert (await stage.evil.delete(f"/v1/threads/{thread}")).status_code in (200, 202, 204)
    await stage.all_read()
    wrong = await where(stage.operator, doors, thread, mark) + await where(stage.evil, doors, thread, mark)
    token = stage.evil.headers["Authorization"].removeprefix("Bearer ")
    async with stage.another_gateway(gateway_tokens=stage.settings.gateway_tokens) as url, client(url, token) as evil:
        wrong += [f"{x}, behind a restart" for x in await where(evil, doors, thread, mark)]
    assert not wrong, "\n".join(wrong)


async def unread(stage: Stage) -> None:
    """Streams that nobody reads, while much is written for them."""
    doors = await doors_of(stage)
    thread = await opened(stage, "evil")

    async def peak() -> int:
        """Return the gateway's, in bytes, while commands come."""
        stage.gateway.forget_peak()
        for door in doors.writing("control"):
            await many(stage.evil, door, thread, doors.body(door, LONG, LONG), OTHERS)
        await stage.acme.get("/v1/threads")
        return stage.gateway.peak()

    await peak()  # until the memory of commands is full, which no stream has to do with
    before, readers = await peak(), 0
    async with AsyncExitStack() as stack:
        for door in doors.every:
            for _ in range(12 if door.endless else 0):
                answer = await stack.enter_async_context(stage.evil.stream("GET", filled(door, thread)))
                readers += answer.status_code == 200
        took = await peak() - before
    assert took < QUEUED.size + readers * READER, f"{readers} streams that nobody reads took {took // MIB} MiB"


async def named(stage: Stage) -> None:
    """What somebody has written under a name or an id, another of the same tenant writes over."""
    doors, wrong = await doors_of(stage), []
    said = await stage.speak()
    await stage.is_whole(said)
    wanted = {"name": "another", "scopes": ["feedback", "read"], "tenant": "acme"}
    token = (await stage.operator.post("/v1/tokens", json=wanted)).json()["token"]
    async with client(stage.url, token) as other:
        for door in (door for door in doors.writing("feedback") if "id" in doors.fields(door)):
            body = {**doors.body(door, "theirs", True), "id": f"id-{uuid.uuid4().hex}"}
            body = {name: value for name, value in body.items() if name not in ("turn_id", "run_id", "message")}
            first = await stage.acme.request(door.method, filled(door, said.thread), json=body)
            again = await other.request(door.method, filled(door, said.thread), json={**body, "value": False})
            if first.status_code < 300 and again.status_code < 300:
                wrong.append(f"{door.method} {door.path}: {again.status_code} for what another has written")
    assert not wrong, "\n".join(wrong)


ATTACKS: Final = attacks(
    (
        ("large", large, "fill or hold the gateway, now or at its next start"),
        ("repeated", repeated, "make another tenant's requests forgotten, or later than its own"),
        ("amplified", amplified, "fill or hold the gateway"),
        ("strangers", strangers, "keep what is done out of the audit log"),
        ("odd", odd, "make a door answer 500"),
        ("left behind", left, "be found once its thread is erased"),
        ("unread", unread, "fill the gateway"),
        ("named", named, "change what somebody else has written"),
    )
)

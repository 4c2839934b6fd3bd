"""Abuses of what a door reaches outside, and of whatever listens: made for each door, as those of the machine.

Which doors ask a provider isn't said here: those are meant that a provider has heard of.
"""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import httpx

from tests.attack.bulk import results
from tests.attack.cost import GROWTH, MIB
from tests.attack.local import CHAT, FOREIGN
from tests.attack.machine_doors import Door, Doors, attacks, doors_at, doors_of, filled, reading
from tests.attack.rerunning import BUDGETS, PATHS, answered, asking_again
from tests.attack.stage import Program, Stage
from tests.support.gateways import client
from tests.support.upstream import Upstream, chat_answer, gemini_events
from tests.support.waiting import until
from turnmill.clock import now_ms

LISTENING: Final = "0A"  # in /proc/net/tcp
PATIENCE: Final = 15  # seconds for an entry
LARGE: Final = 240  # results of 850 KB in the answer of one run


async def threads_of_providers(stage: Stage) -> list[str]:
    """Threads in which models have answered, of providers whose addresses are made in different ways."""
    chat = await answered(stage, "openai-chat", "openai", {**chat_answer("Sunny."), "created": now_ms() // 1000})
    return [chat, await answered(stage, "gemini", "google", *gemini_events("Sunny."))]


async def knock(evil: httpx.AsyncClient, doors: Doors, door: Door, thread: str, **more: Any) -> httpx.Response:
    """Call a door with no more than it needs."""
    body = {**doors.least(door, "x", "x"), **more}
    return await evil.request(door.method, filled(door, thread), json=body, headers=dict.fromkeys(door.headers, "x"))


async def reaching(evil: httpx.AsyncClient, upstream: Upstream, thread: str) -> tuple[Doors, list[Door]]:
    """The doors by which a provider hears of it."""
    doors, found = await doors_at(evil), []
    for door in doors.writing():
        before = len(upstream.asked)
        await knock(evil, doors, door, thread)
        found += [door] if len(upstream.asked) > before else []
    return doors, found


async def spent(stage: Stage) -> None:
    """Each door that reaches a provider, once a budget is used up."""
    thread, _ = await threads_of_providers(stage)
    async with asking_again(stage) as (evil, upstream, _):
        assert (await reaching(evil, upstream, thread))[1], "no door reaches a provider"
    async with asking_again(stage, budgets=BUDGETS) as (evil, upstream, _):
        found = (await reaching(evil, upstream, thread))[1]
        assert not found, f"a budget is used up, and a provider is asked by {[door.path for door in found]}"


async def climbing(stage: Stage) -> None:
    """Each field of each door that reaches a provider, as a path."""
    wrong = set()
    threads = await threads_of_providers(stage)
    async with asking_again(stage) as (evil, upstream, _):
        for thread in threads:
            doors, found = await reaching(evil, upstream, thread)
            honest = {one.line.split(" ")[1].partition("?")[0].split("/")[1] for one in upstream.asked}
            fields = [(door, field) for door in found for field in doors.fields(door)]
            for (door, field), path in ((of, path) for of in fields for path in PATHS):
                before = len(upstream.asked)
                await knock(evil, doors, door, thread, **{field: path})
                for one in upstream.asked[before:]:
                    asked = one.line.split(" ")[1].partition("?")[0]
                    parts = unquote(asked).split("/")[1:]
                    if parts[0] not in honest or {"", ".", ".."} & {*parts}:
                        wrong.add(f"{door.method} {door.path}: {field}={path!r} asks {asked}")
    assert not wrong, "\n".join(sorted(wrong))


async def heavy(stage: Stage) -> None:
    """A thread with 192 MB of large values, at each door, by each flag of it."""
    thread, wrong = (await threads_of_providers(stage))[0], []
    for number in range(LARGE // 40):
        await stage.upload(stage.evil, thread, f"large-{number}", results(40, 850_000))
    await stage.all_read()
    async with asking_again(stage) as (evil, _, gateway):
        doors = await doors_at(evil)
        for door in (door for door in doors.every if door.needs and not door.endless and door.method != "delete"):
            for flag in ("", *door.flags):
                gateway.forget_peak()
                before = gateway.peak()
                if door.schema is None:
                    await evil.request(door.method, filled(door, thread), params={flag: "true"} if flag else {})
                else:
                    await knock(evil, doors, door, thread)
                took = gateway.peak() - before
                wrong += [f"{door.method} {door.path}?{flag} took {took // MIB} MiB"] if took > GROWTH else []
    assert not wrong, "\n".join(wrong)


async def listeners(stage: Stage) -> None:
    """Each port of each program that asks nobody for a token, for a page of another site."""
    doors, wrong = await doors_of(stage), []
    word = f"mark{uuid.uuid4().hex}"
    thread = await answered(stage, "openai-chat", "openai", chat_answer(word))
    for arguments in (
        ["gateway"],
        ["mock", thread, "--port", "0", "--tenant", "evil"],
        ["worker", "--roles", "metrics"],
    ):
        async with stage.beside(*arguments) as program:
            for port in await until(lambda program=program: ports(program), program.text):
                async with client(f"http://127.0.0.1:{port}") as http:
                    paths = [filled(door, thread) for door in reading(doors)]
                    for headers in FOREIGN:
                        told = [await http.get(path, headers=headers) for path in paths]
                        told.append(await http.post("/v1/chat/completions", json=CHAT, headers=headers))
                        wrong += [f"{arguments[0]} tells {headers} by {one.url}" for one in told if word in one.text]
    assert not wrong, "\n".join(wrong)


async def ports(program: Program) -> list[int]:
    """Return the ports at which a program and its children listen; none, if a process ends while it is looked at."""
    assert program.process.poll() is None, program.text()
    with suppress(FileNotFoundError):
        return sorted({port for pid in family(program.process.pid) for port in listening(pid)})
    return []


def listening(pid: int) -> Iterator[int]:
    ours = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        row = line.split()
        if row[3] == LISTENING and f"socket:[{row[9]}]" in ours:
            yield int(row[1].split(":")[1], 16)


def family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))


async def turned_away(stage: Stage) -> None:
    """Somebody without the right, at each door and before each provider: each refusal has an entry."""
    wanted = {"name": f"reads-{uuid.uuid4().hex[:8]}", "scopes": ["read"], "tenant": "evil"}
    token = (await stage.operator.post("/v1/tokens", json=wanted)).json()["token"]
    more = {"gateway_proxy": "up=http://127.0.0.1:9", "gateway_tokens": stage.settings.gateway_tokens}
    refused: dict[str, int] = {}
    async with stage.another_gateway(**more) as url, client(url, token) as reads, client(url) as passing:
        doors = await doors_at(reads)
        guarded = {door.path: door for door in doors.every if door.needs and "read" not in door.needs}
        for path, door in guarded.items():
            refused[path] = (await reads.request(door.method, filled(door, "t"), json={})).status_code
        passed = await passing.post("/proxy/up/v1/models", json={}, headers={"Turnmill-Token": token})
        refused["/proxy"] = passed.status_code  # what no document lists
        assert {*refused.values()} == {403}, refused

        for _ in range(PATIENCE):  # entries are written together
            query = {"what": "refused", "who": wanted["name"], "limit": 500}
            entries = (await stage.operator.get("/v1/audit", params=query)).json()["records"]
            subjects = " ".join(str(entry["subject"]).replace(":path", "") for entry in entries)
            if not (left := [path for path in refused if path not in subjects]):
                break
            await asyncio.sleep(1)
    assert not left, f"no entry of who was refused at {left}"


ATTACKS: Final = attacks(
    (
        ("spent", spent, "reach the provider"),
        ("climbing", climbing, "reach another path of the provider"),
        ("heavy", heavy, "fill the gateway"),
        ("listeners", listeners, "read what was said"),
        ("turned away", turned_away, "leave no entry"),
    )
)

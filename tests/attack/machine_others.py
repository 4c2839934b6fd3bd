"""Abuses at each door by callers with nearly the name of another, and at gateways that were killed or restored.

Each compares two answers that must be the same: of a restored store and of the one that it stands for, of a namesake
and of a stranger, of a gateway that was killed and of one that was not.
"""

import asyncio
import os
import re
import signal
import unicodedata
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from typing import Final

import httpx

from tests.attack.machine_doors import Doors, attacks, behind, doors_of, filled, given, reading
from tests.attack.restoring import bearer, copied
from tests.attack.signing_in import BY_ORGANISATION, browsing, signing_in
from tests.attack.stage import Stage, spoken
from tests.support.gateways import client
from tests.support.oidc import CLIENT, Provider, address, providing

FLUSHED: Final = 2.0  # seconds in which entries are written
LONGEST: Final = "t" * 200
# Pairs of tenants: code that shortens, folds or normalises names would take the second for the first.
ALIKE: Final = (
    (LONGEST, f"{LONGEST}-evil"),
    ("Alike", "alike"),
    ("alike-é", unicodedata.normalize("NFD", "alike-é")),
    ("alike-1", "alike-1 "),
)
NOT_BACK: Final = "/v1/audit"  # its entries since the backup are in the gateways' log alone, as the documentation says
RIGHTS: Final = ["feedback", "read", "control", "publish", "admin"]


def mark() -> str:
    return f"mark{uuid.uuid4().hex}"


async def answers(
    caller: httpx.AsyncClient, doors: Doors, thread: str, *, flagged: bool = False
) -> dict[str, tuple[int, str]]:
    """Ask each door that reads, plainly and with each of its flags -> by path, the plain status and all texts."""
    found = {}
    for door in reading(doors):
        asked = [{}, *({flag: "true"} for flag in door.flags if flagged)]
        told = [await caller.get(filled(door, thread), params=query) for query in asked]
        found[door.path] = (told[0].status_code, "\n".join(answer.text for answer in told))
    return found


async def restored(stage: Stage) -> None:
    """Make, withdraw and change objects at each door after a backup: the restored store answers as the first does."""
    doors, wrong = await doors_of(stage), []
    threads = [(await stage.speak()).thread for _ in range(3)]
    await stage.all_read()
    tokens: set[str] = set()
    ids: dict[str, list[str]] = {}
    for door in doors.writing():
        for number in range(3):
            made = await given(stage.acme, doors, door, threads[0], mark(), number)
            tokens.add(str(made.get("token")))
            ids.setdefault(door.path, []).append(str(made.get("id")))
    await stage.all_read()
    backup = copied(stage, "machine")
    for path, of in ids.items():
        for door, known in zip(doors.of(path), of, strict=False):
            answer = await stage.acme.request(door.method, behind(door, known))
            tokens.add(str(answer.json().get("token")) if answer.status_code == 200 else "")
    changing = [door for door in doors.every if door.method in ("put", "delete") and "{thread_id}" in door.path]
    for door, thread in zip(sorted(changing, key=lambda door: door.method), threads[1:], strict=False):
        await stage.acme.request(door.method, filled(door, thread))
    for door in doors.writing():
        tokens.add(str((await given(stage.acme, doors, door, threads[0], mark(), 4)).get("token")))
    await stage.all_read()
    await asyncio.sleep(2)  # the notices of it are sent
    await stage.command("store", "restore", store=backup)
    given_tokens = {"gateway_tokens": stage.settings.gateway_tokens}
    async with stage.another_gateway(**given_tokens) as url, stage.another_gateway(store=backup, **given_tokens) as old:
        for token in sorted(tokens - {"", "None"}):
            statuses = [await status(of, token) for of in (url, old)]
            if statuses[0] != statuses[1]:
                wrong.append(f"a token is answered {statuses}")
        for thread in threads:
            async with client(url, bearer(stage)) as one, client(old, bearer(stage)) as other:
                now, then = await answers(one, doors, thread), await answers(other, doors, thread)
                paths = now.keys() - {NOT_BACK}
                wrong += [
                    f"GET {path}: {sorted(x)[:4]}" for path in paths if (x := words(now[path]) ^ words(then[path]))
                ]
    assert not wrong, "\n".join(wrong)


def words(answer: tuple[int, str]) -> set[str]:
    """An answer's status and the texts of its JSON: numbers may be of what is still under way."""
    return {str(answer[0]), *re.findall(r'"((?:[^"\\]|\\.)*)"', answer[1])}


async def status(url: str, token: str) -> int:
    async with client(url, token) as caller:
        return (await caller.get("/v1/runs")).status_code


async def namesakes(stage: Stage) -> None:
    """Make an object at each door: a caller with its maker's name sees and changes no more than a stranger."""
    doors, wrong = await doors_of(stage), []
    said = await stage.speak()
    await stage.is_whole(said)
    wanted = [{"name": name, "scopes": RIGHTS, "tenant": "acme"} for name in ("twin", "twin", "stranger")]
    keys = [(await stage.operator.post("/v1/tokens", json=body)).json()["token"] for body in wanted]
    async with client(stage.url, keys[0]) as first, client(stage.url, keys[1]) as twin, client(stage.url, keys[2]) as x:
        made = [(door, word := mark(), await given(first, doors, door, said.thread, word)) for door in doors.writing()]
        await stage.all_read()
        for door in reading(doors):
            seen, others = [(await one.get(filled(door, said.thread))).text for one in (twin, x)]
            words = [of.path for of, word, _ in made if word in seen and word not in others]
            wrong += [f"{door.method} {door.path} shows a namesake what came by {path}" for path in words]
        for of, _, answer in made:
            for door in doors.of(of.path):
                tried = [(await one.request(door.method, behind(door, str(answer.get("id"))))) for one in (x, twin)]
                if tried[0].status_code >= 400 > tried[1].status_code:
                    wrong.append(f"{door.method} {door.path} obeys a namesake")
    assert not wrong, "\n".join(wrong)


async def killed(stage: Stage) -> None:
    """A gateway is killed behind its answer at each door: what it has done is noted as where it lives on."""
    doors, lived = await doors_of(stage), {}
    said = await stage.speak()
    await stage.is_whole(said)
    for door in doors.writing():
        before = await noted(stage)
        await given(stage.acme, doors, door, said.thread, mark())
        await asyncio.sleep(FLUSHED)
        lived[door.path] = await noted(stage) - before
    assert any(lived.values()), "nothing is noted"
    before = await noted(stage)
    for door in (door for door in doors.writing() if lived[door.path]):
        async with (
            stage.beside("gateway", gateway_tokens=stage.settings.gateway_tokens) as gateway,
            client(await gateway.url(), bearer(stage)) as acme,
        ):
            await given(acme, doors, door, said.thread, mark())
            os.kill(gateway.process.pid, signal.SIGKILL)
    await asyncio.sleep(FLUSHED)
    lost = sum(lived.values(), Counter[str]()) - (await noted(stage) - before)
    assert not lost, f"gateways that were killed behind their answers have not noted {dict(lost)}"


async def noted(stage: Stage) -> Counter[str]:
    entries = (await stage.operator.get("/v1/audit?limit=500&tenant=acme")).json()["records"]
    return Counter(entry["action"] for entry in entries if entry["outcome"] == "done")


async def alike(stage: Stage) -> None:
    """Tenants whose names are nearly the same, of tokens and of people: none reads what another leaves at any door."""
    doors, wrong = await doors_of(stage), []
    async with providing() as provider:
        web = {"gateway_jwks_url": f"{provider.url}/jwks", "gateway_jwt_issuer": provider.url}
        people = signing_in([provider], BY_ORGANISATION)
        async with stage.another_gateway(**web, **people, gateway_jwt_audience=CLIENT) as url:
            for names in ALIKE:
                word, thread = mark(), str(uuid.uuid4())
                async with of_tenant(url, provider, names[0]) as victims, of_tenant(url, provider, names[1]) as evil:
                    await stage.upload(victims[0], thread, "r1", spoken(word))
                    for victim, door in product(victims, doors.writing()):
                        await given(victim, doors, door, thread, word)
                    await stage.all_read()
                    own, others = [await telling(callers, doors, thread, word) for callers in (victims, evil)]
                    assert own, f"{names[0]!r} has nothing of its own"
                    wrong += [f"GET {path}: {names[1]!r} is {names[0]!r}" for path in others]
    assert not wrong, "\n".join(wrong)


async def telling(callers: list[httpx.AsyncClient], doors: Doors, thread: str, word: str) -> set[str]:
    """The doors that tell one of them a word."""
    said = [pair for caller in callers for pair in (await answers(caller, doors, thread)).items()]
    return {path for path, (_, text) in said if word in text}


@asynccontextmanager
async def of_tenant(url: str, provider: Provider, tenant: str) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Yield two callers of a tenant: a program with a JSON Web Token, and a person who has signed in."""
    token = provider.signed({"sub": "x", "tenant": tenant, "scope": " ".join(RIGHTS)})
    provider.claims = {**address("x"), "groups": ["editors"], "org": tenant}
    async with client(url, token) as program, browsing(url) as (person, _):
        person.headers.update({"Origin": url, "Sec-Fetch-Site": "same-origin", "X-Turnmill": "1"})
        yield [program, person]


ATTACKS: Final = attacks(
    (
        ("restored", restored, "answer otherwise"),
        ("namesakes", namesakes, "be somebody else"),
        ("killed", killed, "leave no entry"),
        ("alike", alike, "read what is another tenant's"),
    )
)

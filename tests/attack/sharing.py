"""Attacks with links to threads: on other doors and threads, and behind their time, their maker and their thread."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx

from tests.attack.attack import Attack
from tests.attack.identity import of_acme
from tests.attack.stage import Stage, spoken
from tests.support.endpoints import operations
from tests.support.gateways import client
from tests.support.waiting import until
from turnmill.clock import now_ms

SHORT: Final = 2  # seconds
RACES: Final = 6
FEWEST: Final = 40  # endpoints that ask for a token


@asynccontextmanager
async def sharing(stage: Stage) -> AsyncIterator[tuple[str, httpx.AsyncClient, httpx.AsyncClient]]:
    """A gateway with links: its address, the victim and the attacker there."""
    more = {"gateway_share_seconds": 600, "gateway_tokens": stage.settings.gateway_tokens}
    tokens = [who.headers["Authorization"].removeprefix("Bearer ") for who in (stage.acme, stage.evil)]
    async with stage.another_gateway(**more) as url, client(url, tokens[0]) as acme, client(url, tokens[1]) as evil:
        yield url, acme, evil


async def link_to(caller: httpx.AsyncClient, thread: str, **query: Any) -> str:
    answer = await caller.post(f"/v1/threads/{thread}/share", params=query)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


async def opens(url: str, secret: str, **query: Any) -> httpx.Response:
    async with client(url, secret) as guest:
        return await guest.get("/v1/shared", params=query)


async def is_dead(url: str, secret: str, why: str) -> None:
    async def dead() -> bool:
        return (await opens(url, secret)).status_code == 401

    await until(dead, lambda: f"a link is alive {why}")


async def other_doors(stage: Stage) -> None:
    """The link at each endpoint, as each kind of credential; and at its own for other threads and tenants."""
    said, other = [await stage.speak() for _ in range(2)]
    for each in (said, other):
        await stage.is_whole(each)
    await stage.upload(stage.evil, of_acme(said.thread), "r1", spoken("evil has one, too"))
    async with sharing(stage) as (url, acme, evil):
        secret = await link_to(acme, said.thread)
        async with client(url, secret) as guest, client(url) as nobody:
            doors = list(operations((await nobody.get("/openapi.json")).json()))
            assert len(doors) >= FEWEST
            for door in doors:
                path = door.path.replace("/threads/1", f"/threads/{of_acme(said.thread)}")
                for caller, headers in (
                    (guest, {}),
                    (nobody, {"Turnmill-Token": secret}),
                    (nobody, {"Cookie": f"turnmill={secret}; __Host-turnmill={secret}"}),
                ):
                    answer = await caller.request(door.method, path, headers=headers)
                    assert answer.status_code in (401, 403), f"{door.method} {path}: {answer.status_code}"
                    assert said.text not in answer.text
            theirs = (await acme.get(f"/v1/threads/{other.thread}")).json()["turns"][0]["meta:turn_id"]
            for name in ("thread_id", "thread", "tenant", "before", "after", "branch"):
                for value in (other.thread, of_acme(other.thread), theirs, "evil"):
                    answer = await guest.get("/v1/shared", params={name: value})
                    assert other.text not in answer.text, f"{name}={value} leads to another thread"
                    assert answer.status_code in (200, 404), answer.text
        for path in (said.thread, of_acme(said.thread)):
            for query in ({"tenant": "acme"}, {}):
                for method in ("POST", "DELETE"):
                    answer = await evil.request(method, f"/v1/threads/{path}/share", params=query)
                    assert said.text not in answer.text
        assert (await opens(url, secret)).json()["turns"], "the attacker has ended the victim's link"
        its = await evil.post(f"/v1/threads/{of_acme(said.thread)}/share")
        assert its.status_code in (201, 404), its.text
        if its.status_code == 201:
            assert said.text not in (await opens(url, its.json()["token"])).text, "two tenants' threads are one"


async def behind_their_end(stage: Stage) -> None:
    """Links whose time, maker or thread is over; a link to a thread that is there again under another tenant."""
    said, kept = [await stage.speak() for _ in range(2)]
    for each in (said, kept):
        await stage.is_whole(each)
    async with sharing(stage) as (url, acme, _):
        short = await link_to(acme, kept.thread, seconds=SHORT)
        wanted = {"name": "quick", "scopes": ["read", "feedback"], "expires": now_ms() + 1000 * SHORT}
        maker = (await acme.post("/v1/tokens", json=wanted)).json()
        async with client(url, maker["token"]) as quick:
            bounded = await link_to(quick, kept.thread)
        maker = (await acme.post("/v1/tokens", json={**wanted, "expires": None})).json()
        async with client(url, maker["token"]) as leaver:
            revoked = await link_to(leaver, kept.thread)
        assert (await acme.delete(f"/v1/tokens/{maker['id']}")).status_code == 204
        await is_dead(url, revoked, "whose maker was revoked")
        ended = await link_to(acme, kept.thread)
        assert (await acme.delete(f"/v1/threads/{kept.thread}/share")).json()["ended"] >= 1
        await is_dead(url, ended, "that was ended")
        gone = await link_to(acme, said.thread)
        assert (await acme.delete(f"/v1/threads/{said.thread}")).status_code == 200
        await is_dead(url, gone, "whose thread is deleted")
        await asyncio.sleep(SHORT)
        for secret in (short, bounded):
            await is_dead(url, secret, "behind its time")
        await stage.upload(stage.evil, of_acme(said.thread), "r1", spoken("evil has it now"))
        assert "evil has it now" not in (await opens(url, gone)).text


async def while_deleted(stage: Stage) -> None:
    """Links are made while their thread is deleted: each is refused, or ends with it, and leaves no row."""
    async with sharing(stage) as (url, acme, _):
        for _ in range(RACES):
            said = await stage.speak()
            await stage.is_whole(said)
            calls = [acme.post(f"/v1/threads/{said.thread}/share") for _ in range(RACES)]
            deleted, *made = await asyncio.gather(acme.delete(f"/v1/threads/{said.thread}"), *calls)
            assert deleted.status_code == 200, deleted.text
            assert {answer.status_code for answer in made} <= {201, 404, 409}
            left = [one["thread"] for one in (await acme.get("/v1/tokens")).json()["tokens"] if one["thread"]]
            assert not [thread for thread in left if of_acme(said.thread) in thread], "a link outlives its thread"
            for answer in made:
                if answer.status_code == 201:
                    await is_dead(url, answer.json()["token"], "whose thread was deleted meanwhile")


ATTACKS: Final = (
    Attack(
        "links: other doors", "a link at each endpoint, and for other threads", "be answered", other_doors, short=True
    ),
    Attack("links: behind their end", "links whose time, maker or thread is over", "read with them", behind_their_end),
    Attack("links: while deleted", "make links while their thread is deleted", "leave a link", while_deleted),
)

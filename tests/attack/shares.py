"""Attacks on what tenants share: one takes all that it can get of a pool, and the other is hardly slower for it."""

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx

from tests.attack.attack import Attack
from tests.attack.poison import record
from tests.attack.stage import Stage, spoken
from tests.attack.webhooks import REACHES, gone, speaks
from tests.support.gateways import client, sse
from tests.support.receiver import receiving
from tests.support.upstream import Answering, Asked, playing
from tests.support.waiting import until

CALLS: Final = 12
WEBHOOKS: Final = 40
THREADS: Final = 400_000
SLACK: Final = 3.0  # seconds that are no attack's: a busy machine, and the worker's looks at its queue
QUICK: Final = 0.3  # the same for calls that take milliseconds
SPOOLED: Final = 16_777_216  # bytes of a small spool
NUMBERS: Final = count()
DAYS: Final = 4_000
DAY: Final = 86_400_000  # ms
ASK: Final = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
CHAT: Final = "/proxy/up/v1/chat/completions"


async def slowest(call: Callable[[], Awaitable[Any]], calls: int = CALLS) -> float:
    """Return the seconds of the slowest of some calls, the p99 of so few, behind one that opens connections."""
    await call()
    found = 0.0
    for _ in range(calls):
        began = time.monotonic()
        await call()
        found = max(found, time.monotonic() - began)
    return found


def hardly_slower(calm: float, busy: float, slack: float = SLACK) -> None:
    assert busy <= 2 * calm + slack, f"the victim waits {busy:.2f} s, {calm:.2f} s without the attack"


async def slow_webhooks(stage: Stage) -> None:
    """Forty webhooks that answer slowly: the victim's webhook hears as soon as before."""

    async def never(event: dict[str, Any], before: int) -> int:
        await asyncio.sleep(3600)
        return 200

    async with receiving(never) as hole:

        async def begun() -> bool:
            return len(hole.came) >= 20

        await _greedy_webhooks(stage, [hole.url] * WEBHOOKS, begun)


async def slow_names(stage: Stage) -> None:
    """Forty webhooks whose names take half a minute to look up: the same."""
    urls = [f"https://hook-{number}.never.example/" for number in range(WEBHOOKS)]

    async def begun() -> bool:
        return "never.example" in stage.worker.text() or "no answer within" in stage.worker.text()

    await _greedy_webhooks(stage, urls, begun)


async def _greedy_webhooks(stage: Stage, urls: Sequence[str], begun: Callable[[], Awaitable[bool]]) -> None:
    async with receiving() as receiver:
        made = await stage.acme.post("/v1/webhooks", json={"url": receiver.url})
        assert made.status_code == 201, made.text

        async def heard() -> None:
            before = len(receiver.taken)
            await stage.speak()

            async def came() -> bool:
                return len(receiver.taken) > before

            await until(came, stage.worker.text)

        calm = await slowest(heard, 4)
        for url in urls:
            answer = await stage.evil.post("/v1/webhooks", json={"url": url})
            assert answer.status_code == 201, answer.text
        for number in range(4):
            await stage.upload(stage.evil, f"evil-{number}", "r", spoken("anything at all "))
        await until(begun, stage.worker.text)
        hardly_slower(calm, await slowest(heard, 4))
        await stage.acme.delete(f"/v1/webhooks/{made.json()['id']}")
    await gone(stage)


async def full_spool(stage: Stage) -> None:
    """Uploads without end while the broker is away: the victim's are taken, as soon as before."""
    away = {"brokers": "127.0.0.1:1", "spool_bytes": SPOOLED, "gateway_tokens": stage.settings.gateway_tokens}
    async with stage.another_gateway(**away) as url, client(url) as http:

        async def uploads(caller: httpx.AsyncClient, thread: str, size: int) -> int:
            path = f"/v1/threads/{thread}/runs/{next(NUMBERS)}/stream?dialect=vercel-ai"
            body = sse(spoken("x" * size))
            return (await http.post(path, content=body, headers=dict(caller.headers))).status_code

        async def victim() -> None:
            assert await uploads(stage.acme, "acme-spooled", 100) == 200

        calm = await slowest(victim)
        for _ in range(SPOOLED // 500_000):
            if await uploads(stage.evil, "evil-spooled", 500_000) == 503:
                break
        else:
            raise AssertionError("a tenant fills the whole spool")
        hardly_slower(calm, await slowest(victim), QUICK)


async def many_captures(stage: Stage) -> None:
    """Sixty calls of 2 MB at once through the proxy, each to be captured: the victim's calls pass as before."""

    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole({"choices": []})

    async with (
        playing(play) as upstream,
        stage.another_gateway(gateway_proxy=f"up={upstream.url}", gateway_tokens=stage.settings.gateway_tokens) as url,
        client(url) as http,
        client(url) as evil,
    ):

        async def asks() -> None:
            answer = await http.post(CHAT, json=ASK, headers=token(stage.acme))
            assert answer.status_code == 200, f"the victim's call: {answer.text}"

        large = json.dumps({**ASK, "messages": [{"role": "user", "content": "x" * 100}] * 15_000}).encode()

        async def greedy() -> None:
            while True:
                with suppress(httpx.HTTPError):
                    await evil.post(CHAT, content=large, headers=token(stage.evil), timeout=120)

        calm = await slowest(asks)
        busy = [asyncio.create_task(greedy()) for _ in range(60)]
        try:
            await asyncio.sleep(2)
            hardly_slower(calm, await slowest(asks))
        finally:
            for one in busy:
                one.cancel()
            await asyncio.gather(*busy, return_exceptions=True)


async def refusing_webhooks(stage: Stage) -> None:
    """Forty webhooks that answer 410 to a turn of 8 MB: its record is kept in one dead letter."""
    async with receiving(lambda event, before: 410) as receiver:
        for _ in range(WEBHOOKS):
            assert (await stage.evil.post("/v1/webhooks", json={"url": receiver.url})).status_code == 201
        deltas = ["x" * 400_000] * 20
        text = [{"type": "text-delta", "id": "t", "delta": one} for one in deltas]
        run = spoken("")
        await stage.upload(stage.evil, "evil-large", "r", [*run[:3], *text, *run[3:]])

        async def buried() -> bool:
            return sum("has not taken" in one.detail for one in await stage.letters()) >= WEBHOOKS

        await until(buried, stage.worker.text)
        size = sum(len(one.value or b"") for one in await stage.letters() if "has not taken" in one.detail)
        assert size < 20_000_000, f"{size:,} bytes of dead letters of one turn"
    await gone(stage)


async def bodies_without_end(stage: Stage) -> None:
    """Four requests to a model whose bodies of 64 MB never end: the proxy passes the victim's on."""

    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole({"choices": []})

    tokens = {"gateway_tokens": stage.settings.gateway_tokens}
    async with (
        playing(play) as upstream,
        stage.another_gateway(gateway_proxy=f"up={upstream.url}", **tokens) as url,
        client(url) as http,
    ):

        async def asks() -> None:
            answer = await http.post(CHAT, json=ASK, headers=token(stage.acme))
            assert answer.status_code == 200, f"the victim's call: {answer.text}"

        calm = await slowest(asks)
        sent, whole = asyncio.Event(), 0

        async def body() -> AsyncIterator[bytes]:
            nonlocal whole
            for _ in range(64):
                yield b"x" * 1_048_576
            whole += 1
            await sent.wait()

        async def holds() -> None:
            with suppress(httpx.HTTPError):
                async with client(url) as evil:
                    await evil.post(CHAT, content=body(), headers=token(stage.evil), timeout=120)

        greedy = [asyncio.create_task(holds()) for _ in range(4)]

        async def full() -> bool:
            return whole + sum(one.done() for one in greedy) >= len(greedy)

        try:
            await until(full, lambda: f"{whole} bodies were taken")
            await asyncio.sleep(1)  # what the sockets hold is read by then
            hardly_slower(calm, await slowest(asks), QUICK)
        finally:
            sent.set()
            for one in greedy:
                one.cancel()
            await asyncio.gather(*greedy, return_exceptions=True)


def token(caller: httpx.AsyncClient) -> dict[str, str]:
    return {"Turnmill-Token": caller.headers["Authorization"].removeprefix("Bearer ")}


async def many_lists(stage: Stage) -> None:
    """Sixty searches at once in the lists of a tenant with many threads: the victim lists and searches as before."""
    await asyncio.to_thread(_insert, stage.settings.store_url.removeprefix("sqlite:///"))
    said = await stage.speak()
    await stage.is_whole(said)
    await speaks(stage)

    async def looks() -> None:
        for path, asked in (("/v1/threads", {"search": "acme"}), ("/v1/search", {"q": "acme"})):
            answer = await stage.acme.get(path, params=asked)
            assert answer.status_code == 200, answer.text

    async def greedy() -> None:
        while True:
            await stage.evil.get("/v1/threads", params={"search": "nothing", "limit": 1000})

    calm = await slowest(looks)
    busy = [asyncio.create_task(greedy()) for _ in range(60)]
    try:
        hardly_slower(calm, await slowest(looks), QUICK)
    finally:
        for one in busy:
            one.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        await asyncio.to_thread(_remove, stage.settings.store_url.removeprefix("sqlite:///"))


async def many_days(stage: Stage) -> None:
    """One upload whose runs claim 4,000 days, each an object of the archive: the victim's DELETE reads none of them."""
    folder = Path(stage.settings.home) / "archive"
    said = [await stage.speak() for _ in range(10)]  # two series of four, and one before each
    for one in said:
        await stage.is_whole(one)

    def archived() -> int:
        return sum(1 for _ in folder.rglob("*.parquet"))

    async def some() -> bool:
        return archived() > 0

    await stage.within_progress(some, lambda: "nothing is archived")
    waiting = iter(said)

    async def deletes() -> None:
        answer = await stage.acme.delete(f"/v1/threads/{next(waiting).thread}")
        assert answer.status_code in (200, 204), answer.text

    calm = await slowest(deletes, 4)
    runs = [record(spoken("old"), run=f"day-{day}", thread_id="old", ts=day * DAY) for day in range(1, DAYS + 1)]
    body = b"".join(json.dumps(one).encode() + b"\n" for one in runs)
    answer = await stage.evil.post("/v1/records", content=body, timeout=60)
    assert answer.status_code == 200, answer.text

    async def all_archived() -> bool:
        return archived() >= DAYS

    await stage.within_progress(all_archived, lambda: f"{archived()} objects are in the archive")
    hardly_slower(calm, await slowest(deletes, 4), QUICK)


def _insert(file: str) -> None:
    rows = ((f"{n:08d}-0000-4000-8000-000000000000", f"words of thread {n}", n) for n in range(THREADS))
    statement = "INSERT INTO threads (thread_id, tenant, title, updated_at, newest) VALUES (?, 'evil', ?, ?, 1)"
    with sqlite3.connect(file, timeout=60) as connection:
        connection.executemany(statement, rows)
    connection.close()


def _remove(file: str) -> None:
    """Remove what was inserted, in pieces: in a later attack it would expire before anything else."""
    some = "SELECT id FROM threads WHERE tenant = 'evil' AND newest = 1 LIMIT 20000"
    connection = sqlite3.connect(file, timeout=60)
    while connection.execute(f"DELETE FROM threads WHERE id IN ({some})").rowcount:
        connection.commit()
    connection.close()


ATTACKS: Final = (
    Attack("forty webhooks", "forty webhooks that answer slowly", "hold up others' webhooks", slow_webhooks, REACHES),
    Attack("forty names", "forty webhooks whose names never resolve", "hold up others' webhooks", slow_names, REACHES),
    Attack(
        "forty that are gone",
        "forty webhooks that answer 410 to a large turn",
        "have it kept forty times",
        refusing_webhooks,
        REACHES,
    ),
    Attack(
        "bodies without end",
        "four bodies of 64 MB through the proxy that never end",
        "close it for others",
        bodies_without_end,
    ),
    Attack("many captures", "sixty large calls at once through the proxy", "hold up others' calls", many_captures),
    Attack("full spool", "uploads without end while the broker is away", "fill the spool for others", full_spool),
    Attack(
        "many lists",
        "sixty searches at once in lists of 400,000 threads",
        "hold up others' lists and searches",
        many_lists,
    ),
    Attack("4,000 days", "an upload that claims 4,000 days", "hold up others' deletions", many_days),
)

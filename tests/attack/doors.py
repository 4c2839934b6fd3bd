"""Attacks on the doors: connections, tokens, pages of other origins, files on the disk, and a spreadsheet."""

import asyncio
import csv
import io
import os
import stat
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import jwt
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.attack.attack import Attack
from tests.attack.identity import of_acme
from tests.attack.stage import Said, Stage, sentence, spoken
from tests.support.gateways import client, sse

SILENT: Final = 300  # connections that say nothing
SLOW: Final = 300  # bodies that never end
ISSUER: Final = "https://issuer.example.com"


async def connection(stage: Stage) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(stage.url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def silence(stage: Stage) -> None:
    opened = [await connection(stage) for _ in range(SILENT)]
    try:
        for number, (_, writer) in enumerate(opened):
            writer.write((b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: ")[number % 3])
        await stage.is_whole(await stage.speak())
        for reader, _ in opened:  # the gateway hangs up on all of them, and keeps none
            with suppress(ConnectionError):
                async with asyncio.timeout(60):
                    while await reader.read(4096):
                        pass
    finally:
        for _, writer in opened:
            writer.close()


async def slow_bodies(stage: Stage) -> None:
    """More uploads at once than one token may have open, each of which sends a byte and waits."""
    token = stage.evil.headers["Authorization"]
    head = f"POST /v1/threads/slow/runs/%d/stream?dialect=vercel-ai HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n"
    head += "Transfer-Encoding: chunked\r\n\r\n1\r\nd\r\n"
    opened = [await connection(stage) for _ in range(SLOW)]
    try:
        for number, (_, writer) in enumerate(opened):
            writer.write((head % number).encode())
        for said in [await stage.speak() for _ in range(3)]:
            await stage.is_whole(said)
        listed = await stage.acme.get("/v1/threads")
        assert listed.status_code == 200, listed.text
        refused = await stage.upload(stage.evil, "slow", "one-more", spoken("x"))
        assert refused.status_code in (200, 429), refused.text
    finally:
        for _, writer in opened:
            writer.close()


async def revoked(stage: Stage) -> None:
    """A token that is taken back while streams are open with it."""
    leaving = AsyncExitStack()
    token = await leaving.enter_async_context(stage.another_token("leaver", "acme"))
    said = Said("leaving", sentence("leaving"))
    events = spoken(said.text)
    await stage.upload(stage.acme, said.thread, "r1", events[:5], end="open")
    seen: dict[str, str] = {}

    async def listen(path: str) -> None:
        async with client(stage.url, token) as http, http.stream("GET", path) as answer:
            seen[path] = ""
            assert answer.status_code == 200
            async for text in answer.aiter_text():
                seen[path] += text

    paths = ("/v1/figures/live", f"/v1/threads/{of_acme(said.thread)}/live")
    listening = [asyncio.create_task(listen(path)) for path in paths]
    try:
        async with asyncio.timeout(60):
            while not all(seen.get(path) for path in paths):
                await asyncio.sleep(0.1)
        await leaving.aclose()
        done, _ = await asyncio.wait(listening, timeout=90)
        open_still = [path for path, task in zip(paths, listening, strict=True) if task not in done]
        assert not open_still, f"still open after 90 s with a revoked token: {open_still}"
    finally:
        for task in listening:
            task.cancel()
        await leaving.aclose()
    await stage.upload(stage.acme, said.thread, "r1", events[5:], from_seq=5, end="complete")
    await stage.is_whole(said)


async def made_up_keys(stage: Stage) -> None:
    """Key ids that nobody has: the issuer is asked, and doesn't answer. Who has a good token must not wait for that."""
    key, answering = rsa.generate_private_key(public_exponent=65537, key_size=2048), asyncio.Event()
    asked = 0

    async def keys(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked > 1:
            await answering.wait()
        jwk = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        return web.json_response({"keys": [jwk | {"kid": "one"}]})

    def token(kid: str, algorithm: str = "RS256", secret: Any = key, **more: Any) -> str:
        claims = {"iss": ISSUER, "aud": "turnmill", "exp": time.time() + 600, "sub": "u", "tenant": "acme"}
        return jwt.encode(claims | {"scope": "read"} | more, secret, algorithm, headers={"kid": kid})

    app = web.Application()
    app.router.add_get("/keys", keys)
    async with TestServer(app) as server, AsyncExitStack() as stack:
        said = {"gateway_jwks_url": str(server.make_url("/keys")), "gateway_jwt_issuer": ISSUER}
        url = await stack.enter_async_context(stage.another_gateway(**said, gateway_jwt_audience="turnmill"))
        http = await stack.enter_async_context(client(url))

        def get(bearer: str) -> Any:
            return http.get("/v1/threads", headers={"Authorization": f"Bearer {bearer}"})

        assert (await get(token("one"))).status_code == 200
        bad = [
            token("one", iss="https://evil"),
            token("one", aud="x"),
            token("one", exp=1),
            token("one", tenant=["acme"]),
        ]
        bad += [
            token("one", "none", None),
            token("one", "HS256", "the public key, as a secret of 32 bytes"),
            "a.b.c",
            "..",
            token("one")[:-8],
        ]
        for one in bad:
            assert (await get(one)).status_code in (401, 403), one
        asking = [asyncio.create_task(get(token(f"made-up-{number}"))) for number in range(20)]
        await asyncio.sleep(11)  # the keys are old enough to be asked for again
        asking += [asyncio.create_task(get(token(f"made-up-again-{number}"))) for number in range(20)]
        await asyncio.sleep(0.5)
        try:
            good = asyncio.create_task(get(token("one")))
            _, waits = await asyncio.wait([good], timeout=4)
            assert not waits, "a good token waits for made-up key ids"
            assert good.result().status_code == 200
        finally:
            answering.set()
            answers = await asyncio.gather(*asking, return_exceptions=True)
        assert {getattr(answer, "status_code", answer) for answer in answers} <= {401, 503}


async def foreign_pages(stage: Stage) -> None:
    """A gateway without tokens, called by a page that its owner looks at."""
    async with stage.another_gateway() as url, client(url) as http:
        own = urlsplit(url).netloc
        pages = (
            "/",
            "/docs",
            "/openapi.json",
            "/metrics",
            "/readyz",
            "/livez",
            "/v1/threads",
            "/v1/figures/live?follow=false",
        )
        foreign = [
            {"Host": "evil.example"},
            {"Host": f"evil.example:{own.rpartition(':')[2]}"},
            {"Host": "127.0.0.1.evil.example"},
        ]
        foreign += [{"Origin": "https://evil.example"}, {"Origin": "http://localhost:9999"}, {"Origin": "null"}]
        for page in pages:
            assert (await http.get(page)).status_code == 200, page
            for headers in foreign:
                answer = await http.get(page, headers=headers)
                assert answer.status_code == 403, f"{page} answers {headers} with {answer.status_code}"
                assert "access-control-allow-origin" not in answer.headers
        path = "/v1/threads/x/runs/y/stream?dialect=vercel-ai"
        for headers in foreign:
            assert (await http.post(path, content=b"data: {}\n\n", headers=headers)).status_code == 403, headers


async def formulas(stage: Stage) -> None:
    """Names that a spreadsheet would compute."""
    names = [f"{sign}cmd|' /C calc'!A{n}" for n, sign in enumerate(("=", "+", "-", "@", "\t=", "\r=", " =", "＝"))]
    for number, name in enumerate(names):
        events = spoken("formula")
        usage = {"type": "data-sys-usage", "data": {"input_tokens": 1, "output_tokens": 1, "model": name}}
        await stage.upload(
            stage.acme,
            "sheet",
            f"f{number}",
            [*events[:-2], usage, *events[-2:]],
            agent_name=name,
            agent_id=name,
            model_name=name,
        )

    async def stored() -> bool:
        return (await stage.acme.get("/v1/threads/sheet")).text.count('"turn_type":"agent"') == len(names)

    await stage.within_progress(stored, lambda: "the runs are not stored")
    for groups in ("model", "agent", "model,agent,thread"):
        text = (await stage.operator.get(f"/v1/usage?group_by={groups}&format=csv")).text
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert any("calc" in cell for cell in cells), "the report has the names"
        formula = [cell for cell in cells if cell.lstrip().startswith(("=", "+", "@", "＝")) or cell.startswith("-cmd")]
        assert not formula, f"cells that a spreadsheet computes: {formula}"


async def read_the_spool(stage: Stage) -> None:
    """What waits on the disk of an agent's machine, as its other users find it."""
    spool = Path(stage.settings.home) / "spool-of-two"
    away = {"brokers": "127.0.0.1:1", "spool": spool}
    previous = os.umask(0)
    try:
        async with stage.another_gateway(**away) as one, stage.another_gateway(**away) as two:
            for number, url in enumerate((one, two, one, two)):
                async with client(url) as http:
                    path = f"/v1/threads/spooled/runs/r{number}/stream?dialect=vercel-ai"
                    answer = await http.post(path, content=sse(spoken("what nobody else may read")))
                    assert answer.status_code == 200, answer.text
            found = [spool, *spool.rglob("*")]
            kept = b"".join([path.read_bytes() for path in found if path.is_file()])
            assert kept.count(b"what ") >= 4, "what the broker can't take is in the spool, of both"
            modes = {path.relative_to(spool): stat.S_IMODE(path.stat().st_mode) for path in found}
            open_to_all = [str(path) for path, mode in modes.items() if mode & 0o077]
            assert not open_to_all, f"others can read {open_to_all}"
    finally:
        os.umask(previous)


ATTACKS: Final = (
    Attack("silence", "300 connections that say nothing, or half a header", "keep others out", silence),
    Attack("slow bodies", "300 uploads that send one byte and wait", "keep others out", slow_bodies),
    Attack("revoked", "streams that go on when their token is revoked", "receive more", revoked),
    Attack(
        "made-up keys",
        "JSON Web Tokens with keys, algorithms and claims made up",
        "get in, or hold up others",
        made_up_keys,
    ),
    Attack(
        "foreign pages", "pages of other hosts and origins, on a gateway without tokens", "be answered", foreign_pages
    ),
    Attack("formulas", "names that are formulas", "be computed by who opens the CSV of usage", formulas),
    Attack(
        "the spool", "read the files that a publisher leaves, with umask 0", "read what waits there", read_the_spool
    ),
)

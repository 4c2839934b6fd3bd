"""Attacks by cost over HTTP: small bodies that become much, and calls that a budget can't count."""

import asyncio
import gzip
import json
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import chain, repeat
from typing import Any, Final

import cramjam

from pipeline.devbroker.ports import free_ports
from tests.attack.attack import Attack
from tests.attack.bulk import forked
from tests.attack.stage import Stage
from tests.support.gateways import client
from tests.support.upstream import chat_answer

MIB: Final = 1 << 20
CHAT: Final = "/proxy/up/v1/chat/completions"
ENDLESS: Final = free_ports(1)[0]
# Nobody is at the first: 502 says that a call was passed on.
PROXY: Final = {"gateway_proxy": f"up=http://127.0.0.1:9,endless=http://127.0.0.1:{ENDLESS}"}
BUDGETS: Final = '[{"name": "shared", "tokens": 1000000, "per": "month"}]'
BUDGETED: Final = {**PROXY, "gateway_proxy_budgets": True, "budgets": BUDGETS}
GROWTH: Final = 300 * MIB  # that a gateway may take more than before
HELD: Final = 0.5  # seconds for which its loop may be held
WAITED: Final = 3.0  # seconds, on a machine whose cores others want, too
ASK: Final = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}


@asynccontextmanager
async def bounded(stage: Stage, growth: int = GROWTH) -> AsyncIterator[None]:
    """Assert that the gateway takes little memory and answers others meanwhile."""
    stage.gateway.forget_peak()
    before, held = stage.gateway.peak(), await stage.held()
    waits = asyncio.create_task(longest_wait(stage))
    yield
    await asyncio.sleep(1)  # what is captured is read behind the answer
    await stage.operator.get("/livez")
    waits.cancel()
    waited = await waits
    assert waited < WAITED, f"others waited {waited:.1f} s for an answer"
    took = stage.gateway.peak() - before
    assert took < growth, f"the gateway took {took // MIB} MiB more"
    longest = await stage.longest_hold(held)
    assert longest <= HELD, f"the gateway's loop was held for up to {longest} s"


async def longest_wait(stage: Stage) -> float:
    """How long somebody else waits for the least of all answers, until this is cancelled."""
    longest = 0.0
    try:
        while True:
            began = time.monotonic()
            try:
                await stage.operator.get("/livez")
            finally:
                longest = max(longest, time.monotonic() - began)
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        return longest


def token_of(stage: Stage) -> dict[str, str]:
    return {"Turnmill-Token": stage.evil.headers["Authorization"].removeprefix("Bearer ")}


async def ask(stage: Stage, body: bytes, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = stage.evil.build_request("POST", CHAT, content=body, headers={**token_of(stage), **named})
    del request.headers["Authorization"]
    return (await stage.evil.send(request)).status_code


async def unpacked(stage: Stage) -> None:
    """3 KB that are 32 MB of empty arrays, in ten requests at once."""
    body = gzip.compress(gzip.compress(b'{"model":"m","messages":[' + b"[]," * 11_000_000 + b"[]]}"))
    assert len(body) < 10_000
    async with bounded(stage):
        await asyncio.gather(*(ask(stage, body, content_encoding="gzip, gzip") for _ in range(10)))


async def encodings(stage: Stage) -> None:
    body = json.dumps(ASK).encode()
    for _ in range(2_400):
        body = bytes(cramjam.brotli.compress(body, level=0))
    assert len(body) < 20_000
    async with bounded(stage):
        await ask(stage, body, content_encoding=",".join(["br"] * 2_400))


async def refused_lines(stage: Stage) -> None:
    async with bounded(stage):
        answers = await asyncio.gather(*(stage.evil.post("/v1/records", content=b"x\n" * 4_000_000) for _ in range(3)))
    assert {answer.status_code for answer in answers} == {413}


async def byte_by_byte(stage: Stage) -> None:
    """A first line that never ends, byte by byte."""

    async def drops() -> AsyncIterator[bytes]:
        yield b"data: " + b"x" * 3_900_000
        for _ in range(5_000):
            yield b"x"
            await asyncio.sleep(0.001)

    async with bounded(stage):
        before = stage.gateway.cpu()
        await stage.evil.post("/v1/threads/drops/runs/r1/stream?dialect=auto", content=drops())
        spent = stage.gateway.cpu() - before
        assert spent < 2, f"{spent:.1f} s of computing for 4 MB"


async def endless(stage: Stage) -> None:
    """A provider whose answers never end: a few KB of each are gigabytes of events."""
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    first = packer.compress(b": hello\n\n") + packer.flush(zlib.Z_FULL_FLUSH)
    many = packer.compress(b'data: {"x":0}\n\n' * 1_000_000) + packer.flush(zlib.Z_FULL_FLUSH)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"
            writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
            for piece in chain([first], repeat(many)):
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.wait([gone], timeout=0.2)
                if gone.done():
                    break
        writer.close()

    async def listen() -> None:
        body = json.dumps({**ASK, "stream": True}).encode()
        path = CHAT.replace("up", "endless")
        headers = {**token_of(stage), "Authorization": "Bearer of the provider"}
        with suppress(TimeoutError):
            async with asyncio.timeout(5), stage.evil.stream("POST", path, content=body, headers=headers) as answer:
                async for _ in answer.aiter_raw():
                    pass

    gone = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(answer, "127.0.0.1", ENDLESS)
    async with server, bounded(stage):
        await asyncio.gather(*(listen() for _ in range(2)))
        gone.set_result(None)


async def uncounted(stage: Stage) -> None:
    """Calls that a provider would read, and the proxy can't."""
    plain = json.dumps(ASK)
    ways: dict[str, tuple[bytes, dict[str, str]]] = {
        "white space": (plain.encode() + b" " * 34 * MIB, {}),
        "UTF-16": (plain.encode("utf-16"), {}),
        "NaN": (plain.replace('"Hello"', "NaN").encode(), {}),
        "an encoding that is none": (plain.encode(), {"content_encoding": "utf-8"}),
        "three encodings": (gzip.compress(plain.encode()), {"content_encoding": "br,br,gzip"}),
        "another charset": (plain.encode(), {"content_type": "application/json; charset=utf-7"}),
        "no model": (b'{"messages": []}', {}),
    }
    async with bounded(stage):
        passed = [name for name, (body, headers) in ways.items() if await ask(stage, body, **headers) == 502]
    assert not passed, f"calls were passed on that no budget can count: {', '.join(passed)}"
    assert await ask(stage, plain.encode()) == 502, "what can be counted is passed on"


async def claimed(stage: Stage) -> None:
    """Usage that nobody has used, and a deletion that would give it back."""
    usage = {"prompt_tokens": 2**53 - 1, "completion_tokens": 0, "total_tokens": 2**53 - 1}
    answer: dict[str, Any] = {**chat_answer("Hello"), "created": int(time.time()), "usage": usage}
    stored = await stage.upload(stage.evil, "claims", "r1", [answer], dialect="openai-chat", end="complete")
    assert stored.status_code == 200, stored.text

    async def allowed(who: Any) -> bool:
        return bool((await who.get("/v1/budgets/check")).json()["allowed"])

    async def used_up() -> bool:
        return not await allowed(stage.evil)

    await stage.within_progress(used_up, lambda: "the claim is not known to the gateway")
    assert await allowed(stage.acme), "a tenant's claim has used up the budget of all"
    assert (await stage.evil.delete("/v1/threads/claims")).status_code < 300
    await asyncio.sleep(12)  # the gateway looks every five seconds
    assert not await allowed(stage.evil), "the deletion has given back what was used"
    async with stage.another_gateway(gateway_tokens=stage.settings.gateway_tokens) as url:
        token = stage.evil.headers["Authorization"].removeprefix("Bearer ")
        async with client(url, token) as evil:
            assert not await allowed(evil), "a gateway that starts anew doesn't know what was used"


async def long_thread(stage: Stage) -> None:
    """A thread of 5,000 turns, read in several forms at once."""
    thread, _ = await forked(stage)
    paths = ("", "?inline=true", "?format=vercel-ai", "?turns=2", "?partial=true&branch=", "/usage")
    async with bounded(stage):
        answers = await asyncio.gather(*(stage.evil.get(f"/v1/threads/{thread}{path}") for path in paths))
    assert [answer.status_code for answer in answers] == [200] * len(paths)


ATTACKS: Final = (
    Attack("long thread", "a thread of 5,000 turns, read six times at once", "hold or fill the gateway", long_thread),
    Attack("empty arrays", "a few KB that are 32 MB of `[],`", "hold or fill the gateway", unpacked, PROXY),
    Attack("2,400 encodings", "10 KB that name `br` 2,400 times", "hold the gateway", encodings, PROXY),
    Attack("refused lines", "8 MB of lines that are no records", "hold or fill the gateway", refused_lines, PROXY),
    Attack("byte by byte", "a first line that never ends, for `auto`", "keep the gateway busy", byte_by_byte, PROXY),
    Attack("endless answers", "gigabytes of events in some KB", "hold or fill the gateway", endless, PROXY),
    Attack("uncounted calls", "calls that only the provider can read", "pass by a budget", uncounted, BUDGETED),
    Attack("claimed tokens", "an upload that claims 2^53-1 tokens", "use up others' budget", claimed, BUDGETED),
)

"""Attacks by cost over HTTP: small bodies that become much, and calls that a budget can't count."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.attack.attack import Attack
from tests.attack.stage import Stage
from tests.support.upstream import chat_answer

MIB: Final = 1 << 20
CHAT: Final = "/proxy/up/v1/chat/completions"
PROXY: Final = {"gateway_proxy": "up=http://127.0.0.1:9"}  # nobody is there: 502 says that a call was passed on
BUDGETS: Final = '[{"name": "shared", "tokens": 1000000, "per": "month"}]'
BUDGETED: Final = {**PROXY, "gateway_proxy_budgets": True, "budgets": BUDGETS}
GROWTH: Final = 300 * MIB  # that a gateway may take more than before
HELD: Final = 0.5  # seconds for which its loop may be held
WAITED: Final = 3.0  # seconds, on a machine whose cores others want, too
ASK: Final = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}


@asynccontextmanager
async def bounded(stage: Stage) -> AsyncIterator[None]:
    """Assert that the gateway takes little memory and answers others meanwhile."""
    stage.gateway.forget_peak()
    before, held = stage.gateway.peak(), await stage.held()
    waits = asyncio.create_task(longest_wait(stage))
    yield
    waits.cancel()
    waited = await waits
    assert waited < WAITED, f"others waited {waited:.1f} s for an answer"
    took = stage.gateway.peak() - before
    assert took < GROWTH, f"the gateway took {took // MIB} MiB more"
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
    async with bounded(stage):
        await asyncio.gather(
            *(ask(stage, b"\x1b" * 2_000, content_encoding=",".join(["br"] * 2_400)) for _ in range(9))
        )


async def refused_lines(stage: Stage) -> None:
    async with bounded(stage):
        answers = await asyncio.gather(*(stage.evil.post("/v1/records", content=b"x\n" * 4_000_000) for _ in range(3)))
    assert {answer.status_code for answer in answers} == {413}


async def byte_by_byte(stage: Stage) -> None:
    """A first line that never ends, a few bytes at a time."""

    async def drops() -> AsyncIterator[bytes]:
        for number in range(60_000):
            yield b"data: x" if not number else b"x" * 20
            if number % 100 == 0:
                await asyncio.sleep(0)

    async with bounded(stage):
        before = stage.gateway.cpu()
        await stage.evil.post("/v1/threads/drops/runs/r1/stream?dialect=auto", content=drops())
        spent = stage.gateway.cpu() - before
        assert spent < 12, f"{spent:.1f} s of computing for 1 MB"


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


ATTACKS: Final = (
    Attack("empty arrays", "a few KB that are 32 MB of `[],`", "hold or fill the gateway", unpacked, PROXY, short=True),
    Attack("2,400 encodings", "10 KB that name `br` 2,400 times", "hold the gateway", encodings, PROXY),
    Attack("refused lines", "8 MB of lines that are no records", "hold or fill the gateway", refused_lines, PROXY),
    Attack("byte by byte", "a first line that never ends, for `auto`", "keep the gateway busy", byte_by_byte, PROXY),
    Attack("uncounted calls", "calls that only the provider can read", "pass by a budget", uncounted, BUDGETED),
    Attack("claimed tokens", "an upload that claims 2^53-1 tokens", "use up others' budget", claimed, BUDGETED),
)

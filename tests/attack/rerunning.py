"""Attacks by asking models again: at another path, with more than an answer may hold, and beyond a budget."""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote

import httpx

from tests.attack.attack import Attack
from tests.attack.bulk import results
from tests.attack.cost import GROWTH, MIB
from tests.attack.poison import record
from tests.attack.stage import Program, Stage
from tests.support.gateways import client
from tests.support.upstream import Answering, Asked, Upstream, chat_answer, gemini_events, playing
from turnmill.clock import now_ms

KEY: Final = {"Turnmill-Provider-Key": "sk-of-the-caller-0123456789"}
LIMIT: Final = 5  # tokens, of which one answer takes more
BUDGETS: Final = json.dumps([{"name": "small", "tenant": "evil", "per": "month", "tokens": LIMIT, "enforce": "refuse"}])
LARGE: Final = 240  # results of 850 KB in the answer of one run
PATHS: Final = ("../../files", "..%2f..%2ffiles", "a/../../../files", "m/..", ".", "/", "a//b", "%2e%2e/files")


@asynccontextmanager
async def asking_again(stage: Stage, **changes: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Upstream, Program]]:
    """-> the attacker at a gateway that asks models again, the provider's server, and that gateway."""

    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole(chat_answer("It rains."))

    async with playing(play) as upstream:
        base = {"OPENAI_BASE_URL": f"{upstream.url}/v1", "GOOGLE_GEMINI_BASE_URL": upstream.url}
        given = {"gateway_rerun": True, "gateway_tokens": stage.settings.gateway_tokens, **changes}
        async with stage.beside("gateway", variables=base, **given) as gateway:
            token = stage.evil.headers["Authorization"].removeprefix("Bearer ")
            async with client(await gateway.url(), token) as evil:
                yield evil, upstream, gateway


async def answered(stage: Stage, dialect: str, provider: str, *events: dict[str, Any]) -> str:
    """Have a model answer in a run of the attacker -> its thread, once it is stored."""
    thread = str(uuid.uuid4())
    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}]}
    if dialect == "gemini":
        asked = {"contents": [{"role": "user", "parts": [{"text": "Weather?"}]}], "generationConfig": {"seed": 7}}
    kind = "object" if dialect == "openai-chat" else "type"
    run = record(
        [{kind: "turnmill.request", "request": asked}, *events], run="r1", thread=thread, end="complete", ts=now_ms()
    )
    facts = {"provider_name": provider, "model_name": "m"}
    await stage.publish({**run, "dialect": dialect, "run": facts}, key=thread.encode())
    await stored(stage, thread)
    return thread


async def stored(stage: Stage, thread: str) -> None:
    async def there() -> bool:
        return (await stage.evil.get(f"/v1/threads/{thread}")).status_code == 200

    await stage.within_progress(there, lambda: f"{thread} is not stored")


async def another_path(stage: Stage) -> None:
    """A model's name is a part of the address of Gemini's API: none leads to another path."""
    thread = await answered(stage, "gemini", "google", *gemini_events("Sunny."))
    async with asking_again(stage) as (evil, upstream, _):
        for model in PATHS:
            body = {"model": model, "publish": False}
            await evil.post(f"/v1/threads/{thread}/rerun", json=body, headers=KEY)
        asked = [one.line.split(" ")[1].partition("?")[0] for one in upstream.asked]
        elsewhere = [path for path in asked if not path.startswith("/v1beta/models/")]
        climbing = [path for path in asked if {"", ".", ".."} & {*map(unquote, path.split("/")[1:])}]
        assert not elsewhere + climbing, f"the provider was asked at {elsewhere or climbing}"
        fine = await evil.post(f"/v1/threads/{thread}/rerun", json={"model": "m-2", "publish": False}, headers=KEY)
        assert (fine.status_code, len(upstream.asked)) == (200, len(asked) + 1), fine.text


async def large_values(stage: Stage) -> None:
    """What is too much for `?inline=true` is too much here."""
    thread = await answered(stage, "openai-chat", "openai", chat_answer("Sunny."))
    for number in range(LARGE // 40):
        await stage.upload(stage.evil, thread, f"large-{number}", results(40, 850_000))
    await stage.all_read()
    async with asking_again(stage) as (evil, upstream, gateway):
        assert (await evil.get(f"/v1/threads/{thread}?inline=true")).status_code == 409, "it is not too large"
        gateway.forget_peak()
        before = gateway.peak()
        body = {"turn": "r1", "publish": False}
        answer = await evil.post(f"/v1/threads/{thread}/rerun", json=body, headers=KEY)
        took = gateway.peak() - before
        assert answer.status_code == 409, answer.text[:500]
        assert took < GROWTH, f"the gateway took {took // MIB} MiB"
        assert not upstream.asked


async def no_budget_left(stage: Stage) -> None:
    """A budget that is used up refuses calls at each door that makes them."""
    thread = await answered(stage, "openai-chat", "openai", {**chat_answer("Sunny."), "created": now_ms() // 1000})
    async with asking_again(stage, budgets=BUDGETS) as (evil, upstream, _):
        answer = await evil.post(f"/v1/threads/{thread}/rerun", json={"publish": False}, headers=KEY)
        assert (answer.status_code, upstream.asked) == (429, []), answer.text


ATTACKS: Final = (
    Attack("rerun: another path", "models whose names are paths", "reach another path of a provider", another_path),
    Attack("rerun: large values", "a thread with 192 MB of large values", "fill the gateway", large_values),
    Attack("rerun: no budget left", "ask again when a budget is used up", "reach the provider", no_budget_left),
)

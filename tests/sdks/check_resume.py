"""`useChat({resume: true})` against a real gateway: the chat of each release of the SDK takes up a running answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from pipeline.settings import Settings
from tests.sdks import node_sdks
from tests.support.gateways import client, running, sse, talk

EVENTS = [{**event, "messageId": "answer"} if event["type"] == "start" else event for event in talk(40)]
TEXT = "".join(event.get("delta", "") for event in EVENTS)


async def page(package: str, url: str, chat: str) -> asyncio.subprocess.Process:
    """A page that is opened on this chat."""
    home = node_sdks.installed()
    return await asyncio.create_subprocess_exec(
        "node", home / "resume.mjs", package, url, chat, stdout=asyncio.subprocess.PIPE
    )


async def status(http: httpx.AsyncClient, url: str) -> int:
    async with http.stream("GET", url) as answer:
        return answer.status_code


async def reading(process: asyncio.subprocess.Process) -> None:
    """Wait until the page shows the beginning of the answer."""
    assert process.stdout is not None
    while json.loads(await asyncio.wait_for(process.stdout.readline(), 60)).get("seen", 0) < 10:
        pass


async def shown(process: asyncio.subprocess.Process) -> dict[str, Any]:
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert found["problem"] is None
    return found


@pytest.mark.parametrize("package", ["ai-5", "ai-6", "ai-7"])
async def test_a_page_that_is_opened_takes_up_the_answer(package: str, applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"gateway_port": 0})
    half, go_on = asyncio.Event(), asyncio.Event()

    async def answer() -> AsyncIterator[bytes]:
        yield sse(EVENTS[:20], done=False)
        half.set()
        await go_on.wait()
        for event in EVENTS[20:]:
            yield sse([event], done=False)
            await asyncio.sleep(0.01)

    async with running(settings) as gateway, client(gateway.url) as http:
        nothing = await shown(await page(package, gateway.url, "new-chat"))
        assert [message["role"] for message in nothing["messages"]] == ["user"]
        url = "/v1/threads/chat-1/runs/r1/stream?dialect=vercel-ai"
        sending = asyncio.create_task(http.post(url, content=answer()))
        await asyncio.wait_for(half.wait(), 60)
        while await status(http, "/v1/threads/chat-1/live?dialect=vercel-ai") == 204:
            await asyncio.sleep(0.1)
        pages = [await page(package, gateway.url, "chat-1") for _ in range(2)]
        for one in pages:
            await reading(one)
        go_on.set()
        for found in [await shown(one) for one in pages]:
            (_, spoken) = found["messages"]
            assert (spoken["id"], spoken["role"]) == ("answer", "assistant")
            assert "".join(part["text"] for part in spoken["parts"] if part["type"] == "text") == TEXT
            assert found["statuses"][-1] == "ready"
            assert "streaming" in found["statuses"]
        assert (await sending).status_code == 200
        over = await shown(await page(package, gateway.url, "chat-1"))
        assert len(over["messages"]) == 1, "an answer that is over is read from the stored thread"

"""Clients that read along at a real gateway: `useChat({resume: true})` of each release of the AI SDK takes up a running
answer, and AG-UI's client connects to one; both see it end where its run is stopped.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from pipeline.settings import Settings
from tests.sdks import node_sdks
from tests.support.gateways import Message, client, messages, running, sse, talk
from turnmill import Publisher, RunStopped

EVENTS = [{**event, "messageId": "answer"} if event["type"] == "start" else event for event in talk(40)]
TEXT = "".join(event.get("delta", "") for event in EVENTS)


AG_UI = [
    {"type": "RUN_STARTED", "threadId": "chat-1", "runId": "r1"},
    {"type": "TEXT_MESSAGE_START", "messageId": "answer", "role": "assistant"},
    *({"type": "TEXT_MESSAGE_CONTENT", "messageId": "answer", "delta": f"word {n} "} for n in range(20)),
]


async def opened(program: str, *arguments: str) -> asyncio.subprocess.Process:
    """A client that reads along."""
    home = node_sdks.installed()
    return await asyncio.create_subprocess_exec("node", home / program, *arguments, stdout=asyncio.subprocess.PIPE)


async def page(package: str, url: str, chat: str) -> asyncio.subprocess.Process:
    """A page that is opened on this chat."""
    return await opened("resume.mjs", package, url, chat)


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
    return found


async def endless(events: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    """What an agent says that would go on."""
    for event in events:
        yield event
    await asyncio.Event().wait()


async def stopped(
    settings: Settings, dialect: str, events: list[dict[str, Any]], *clients: tuple[str, ...]
) -> tuple[list[Message], list[dict[str, Any]], dict[str, Any]]:
    """Stop a run while clients read along -> the live stream, what each of them shows, and one that comes after it."""

    async def speak(publisher: Publisher) -> None:
        async with publisher.run(thread_id="chat-1", agent_id="a", dialect=dialect, run_id="r1") as run:
            async for _ in run.tee(endless(events)):
                pass

    async def reads() -> list[Message]:
        async with http.stream("GET", url) as answer:
            return [message async for message in messages(answer)]

    url = f"/v1/threads/chat-1/live?dialect={dialect}"
    async with running(settings) as gateway, client(gateway.url) as http, Publisher(settings) as publisher:
        speaking = asyncio.create_task(speak(publisher))
        while not [run for run in (await http.get("/v1/runs")).json()["runs"] if run["events"] == len(events)]:
            await asyncio.sleep(0.1)
        raw = asyncio.create_task(reads())
        pages = [await opened(program, *given, gateway.url, "chat-1") for program, *given in clients]
        for one in pages:
            await reading(one)
        (await http.post("/v1/threads/chat-1/runs/r1/stop", json={"by": "ann"})).raise_for_status()
        with pytest.raises(RunStopped):
            await asyncio.wait_for(speaking, 60)
        found = [await shown(one) for one in pages]
        program, *given = clients[0]
        return await raw, found, await shown(await opened(program, *given, gateway.url, "chat-1"))


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
        assert nothing["problem"] is None
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
            assert found["problem"] is None
            (_, spoken) = found["messages"]
            assert (spoken["id"], spoken["role"]) == ("answer", "assistant")
            assert "".join(part["text"] for part in spoken["parts"] if part["type"] == "text") == TEXT
            assert found["statuses"][-1] == "ready"
            assert "streaming" in found["statuses"]
        assert (await sending).status_code == 200
        over = await shown(await page(package, gateway.url, "chat-1"))
        assert len(over["messages"]) == 1, "an answer that is over is read from the stored thread"


async def test_a_page_sees_a_stopped_answer_end(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"gateway_port": 0})
    pages = [("resume.mjs", package) for package in ("ai-5", "ai-6", "ai-7")]
    raw, found, after = await stopped(settings, "vercel-ai", EVENTS[:20], *pages)
    assert [message.data for message in raw[-2:]] == ['{"type":"abort"}', "[DONE]"]
    assert [json.loads(message.data) for message in raw[:-2]] == EVENTS[:20]
    for one in found:
        (_, spoken) = one["messages"]
        text = "".join(part["text"] for part in spoken["parts"] if part["type"] == "text")
        assert (one["problem"], one["statuses"][-1], spoken["id"]) == (None, "ready", "answer")
        assert text == "".join(event.get("delta", "") for event in EVENTS[:20])
    assert (after["problem"], len(after["messages"]), after["statuses"][-1]) == (None, 1, "ready")


async def test_a_client_of_ag_ui_sees_a_stopped_answer_end(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"gateway_port": 0})
    raw, (found,), after = await stopped(settings, "ag-ui", AG_UI, ("ag_ui_live.mjs",))
    why = "the run was stopped by ann"
    error = {"type": "RUN_ERROR", "code": "run_stopped", "message": why}
    assert [json.loads(message.data) for message in raw] == [*AG_UI, error]
    assert found["types"] == ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "RUN_ERROR"]
    assert found["problem"] == f"run_stopped: {why}"
    (spoken,) = found["messages"]
    assert spoken["content"] == "".join(event.get("delta", "") for event in AG_UI)
    assert after == {"messages": [], "types": [], "problem": None}

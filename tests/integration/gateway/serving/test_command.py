"""`turnmill gateway` as a process: tokens, a stop in the middle of uploads and live streams, and wrong settings."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.support.commands import turnmill
from tests.support.gateways import client, messages, replayed, running, sse, talk
from tests.support.turn_records import make_record
from tests.support.waiting import PATIENCE, until
from tests.support.workers import environment

LOOP = 0.2  # seconds that one callback may hold the event loop
# A process that has loaded nothing but what a gateway loads, and no probe has called: its one request is the first.
FIRST_UPLOAD = """
import asyncio
from pipeline.settings import load
from tests.support.gateways import client, running, sse, talk
from tests.support.loop_time import longest_callback

async def main():
    async with running(load()) as gateway, client(gateway.url) as http:
        with longest_callback() as longest:
            answer = await http.post("/v1/threads/t/runs/r/stream?dialect=vercel-ai", content=sse(talk(3)))
    print(answer.status_code, longest.seconds, longest.callback)

asyncio.run(main())
"""


class Process:
    """One `turnmill gateway`, on a free port; what it writes is in `lines`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, settings: Settings, **variables: str) -> Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pipeline", "gateway"),
            env=environment(settings, **variables),
            stderr=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())

    async def url(self) -> str:
        async def said() -> re.Match[str] | None:
            assert self.process.returncode is None, self.lines
            return re.search(r"http://\S+", "".join(self.lines))

        return (await until(said, lambda: self.lines))[0]

    async def stopped(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(self.reading, PATIENCE)
        return await self.process.wait()


async def test_a_wrong_prefix_of_topics_is_refused_as_by_the_worker(gateway_settings: Settings) -> None:
    done = await turnmill(gateway_settings.model_copy(update={"topic_prefix": "wrong"}), "gateway")
    assert done.returncode == 3
    assert "has no topic wrong.events" in done.stderr
    assert "if TURNMILL_TOPIC_PREFIX=wrong is right" in done.stderr


async def test_a_gateway_stops_in_order_and_tells_who_deleted(gateway_settings: Settings, tmp_path: Path) -> None:
    made = await turnmill(gateway_settings, "gateway", "token", "ops", "--scope", "admin", "--scope", "read")
    other = await turnmill(gateway_settings, "gateway", "token", "worker", "--scope", "publish")
    tokens = tmp_path / "tokens.jsonl"
    tokens.write_text(made.stdout + other.stdout)
    operator, worker = (re.findall(r"^token: (\S+)$", one.stderr, re.MULTILINE)[0] for one in (made, other))
    assert operator not in made.stdout
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        await write_turns(store, [make_record("old")])
    variables = {"TURNMILL_GATEWAY_TOKENS": str(tokens), "TURNMILL_LOG_LEVEL": "ERROR"}
    gateway = await Process.start(gateway_settings, **variables)
    events, ending = talk(20), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield sse(events[:10], done=False)
        await ending.wait()
        yield sse(events[10:])

    async def follow(http: Any) -> list[str]:
        async with http.stream("GET", "/v1/threads/chat-1/live?wait=true") as answer:
            found = []
            async for message in messages(answer):
                found.append(message.id)
                if len(found) == 10:
                    reading.set()
            return found

    try:
        reading = asyncio.Event()
        url = await gateway.url()
        async with client(url, worker) as sender, client(url, operator) as http:
            assert (await http.delete("/v1/threads/old")).status_code == 200
            following = asyncio.create_task(follow(http))
            path = "/v1/threads/chat-1/runs/r/stream?dialect=vercel-ai"
            sending = asyncio.create_task(sender.post(path, content=body()))
            await asyncio.wait_for(reading.wait(), PATIENCE)
            stopping = asyncio.create_task(gateway.stopped())
            assert len(await asyncio.wait_for(following, PATIENCE)) == 10, "a live stream ends, to be resumed elsewhere"
            ending.set()
            answer = await asyncio.wait_for(sending, PATIENCE)
            assert (answer.status_code, answer.json()["end"]) == (200, "complete"), "an upload comes to its end"
            assert await stopping == 0, gateway.lines
    finally:
        if gateway.process.returncode is None:
            gateway.process.kill()
    audited = [line for line in gateway.lines if "pipeline.audit" in line]
    assert len(audited) == 2
    assert all("by 'ops' of tenant None" in line for line in audited)
    assert not [line for line in gateway.lines if operator in line or worker in line]
    async with running(gateway_settings) as again, client(again.url) as http:
        found = await replayed(http, "chat-1")
    assert [json.loads(message.data)["event"] for message in found[:-1]] == events


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"TURNMILL_GATEWAY_HOST": "0.0.0.0"}, "open to everybody"),
        ({"TURNMILL_GATEWAY_HOST": "192.0.2.1", "TURNMILL_GATEWAY_TOKENS": "GOOD"}, "TURNMILL_GATEWAY_HOST"),
    ],
)
async def test_wrong_settings_are_one_line(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    from pipeline.gateway.access.token_table import new_token

    good = new_token("x", ("read",), None)[1].model_dump_json(exclude_none=True)
    variables = {name: good if value == "GOOD" else value for name, value in changes.items()}
    done = await turnmill(Settings(home=tmp_path, gateway_port=0), "gateway", **variables)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2


async def test_the_first_upload_does_not_hold_up_others(gateway_settings: Settings) -> None:
    """It connects to the broker and makes the tables of the store."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FIRST_UPLOAD), env=environment(gateway_settings), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    status, seconds, callback = out.decode().split(maxsplit=2)
    assert (status, float(seconds) < LOOP) == ("200", True), f"{seconds} s in {callback}"

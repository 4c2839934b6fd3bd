"""The Node example as it is: a client that sees its stream unchanged, and a run on the topic."""

import asyncio
import json
import os
import shutil

import httpx
import pytest

from pipeline.dialects import DIALECTS
from tests.support.gateways import Message, Running, Tokens, client, replayed
from tests.support.places import ROOT
from tests.support.waiting import PATIENCE, until
from turnmill.wire.framing import decode

EXAMPLE = ROOT / "examples" / "node-gateway"
WEATHER = ROOT / "examples" / "weather.sse"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node")


async def node(gateway: Running, token: str, *arguments: str, stdin: bytes = b"") -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(str(NODE), *arguments),
        env={**os.environ, "TURNMILL_GATEWAY": gateway.url, "TURNMILL_TOKEN": token},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    if stdin and process.stdin is not None:
        process.stdin.write(stdin)
        process.stdin.close()
    return process


def recorded() -> list[object]:
    return [framed.event for framed in decode(WEATHER.read_bytes(), DIALECTS["vercel-ai"].wire)]


async def test_a_stream_is_published_by_fetch(guarded: Running, tokens: Tokens) -> None:
    process = await node(guarded, tokens.acme, str(EXAMPLE / "publish.mjs"), "chat-42", stdin=WEATHER.read_bytes())
    out, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, errors.decode()
    report = json.loads(out)
    assert (report["events"], report["end"]) == (len(recorded()), "complete")
    async with client(guarded.url, tokens.acme) as http:
        found = await replayed(http, "chat-42")
    assert [json.loads(message.data)["event"] for message in found[:-1]] == recorded()


async def test_a_wrong_token_is_told(guarded: Running) -> None:
    process = await node(guarded, "tm_wrong", str(EXAMPLE / "publish.mjs"), "chat-42", stdin=WEATHER.read_bytes())
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    assert b"A token is needed: this token is not known here" in errors


async def test_a_server_publishes_what_its_client_reads(guarded: Running, tokens: Tokens) -> None:
    process = await node(guarded, tokens.acme, str(EXAMPLE / "server.mjs"))
    try:
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as browser:
            answer = await browser.get(f"http://127.0.0.1:{port}/?chat=chat-7")
        assert answer.content == WEATHER.read_bytes()
        async with client(guarded.url, tokens.acme) as http:

            async def ended() -> list[Message]:
                found = await replayed(http, "chat-7", wait="true")
                return found if found and found[-1].name == "end" else []

            found = await until(ended)
        assert [json.loads(message.data)["event"] for message in found[:-1]] == recorded()
    finally:
        process.kill()
        await process.wait()

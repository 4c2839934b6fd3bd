"""A real agent behind FastAPI, a real client of the AI SDK, and a broker that is away for a minute in the middle.

The client must notice nothing: its bytes are those of a server without Turnmill. And nothing may be lost: the stored
turns have the hash of the messages that the SDKs on both sides hold themselves. `make test-sdks`; three minutes.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pipeline.devbroker import local
from pipeline.devbroker.ports import free_ports
from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from pipeline.dialects.shared_hash import shared_hash
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import read_thread
from tests.sdks import node_sdks
from tests.sdks.python_sdks import environment as sdk_environment
from tests.support.places import ROOT
from tests.support.workers import WorkerProcess, environment, wait_until_stored
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

HERE = Path(__file__).parent
SDK = "pydantic-ai-2.68.0"  # that the example names
AWAY = 60.0  # seconds
LONG = {"EXAMPLE_WORDS": "3500", "EXAMPLE_PAUSE": "0.02"}  # 70 s and more


@asynccontextmanager
async def server(settings: Settings, mode: str, folder: Path, **variables: str) -> AsyncIterator[str]:
    """The example, serving -> its address."""
    (port,) = free_ports(1)
    command = [sdk_environment(SDK), HERE / "agent_server.py", str(port), folder, mode]
    log = folder / f"{mode}.log"
    variables = {"PYTHONPATH": str(ROOT), **variables}
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment(settings, **variables), stdout=out, stderr=out
        )
    try:
        async with asyncio.timeout(180):
            while not await _answers(port):
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/chat"
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 60) in (0, -15), log.read_text()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _answers(port: int) -> bool:
    try:
        (await asyncio.open_connection("127.0.0.1", port))[1].close()
    except OSError:
        return False
    return True


async def client(url: str, chat: str) -> asyncio.subprocess.Process:
    home = node_sdks.installed()
    return await asyncio.create_subprocess_exec(
        "node", home / "chat.mjs", "ai-6", url, chat, stdout=asyncio.subprocess.PIPE, limit=2**24
    )


async def seen(process: asyncio.subprocess.Process, chunks: int) -> None:
    """Wait until the client has read so many."""
    assert process.stdout is not None
    while (line := json.loads(await process.stdout.readline())).get("seen", 0) < chunks:
        assert "problem" not in line, line


async def answer(process: asyncio.subprocess.Process) -> dict[str, Any]:
    out, _ = await process.communicate()
    found = json.loads(out.splitlines()[-1])
    assert found["problem"] is None
    found["raw"] = base64.b64decode(found["raw"])
    return dict(found)


def agent_turn(dialect: str, messages: list[Any]) -> dict[str, Any]:
    """What `turnmill import` makes of an SDK's own messages."""
    document = thread(FORMATS[dialect].reader, messages, Origin(thread_uuid("any")[0], "weather", 0))
    (turn,) = [turn for turn in document["turns"] if turn["turn_type"] == "agent"]
    return dict(turn)


async def test_the_client_notices_nothing_and_nothing_is_lost(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path, cache=ROOT / ".cache" / "turnmill", brokers=f"127.0.0.1:{free_ports(1)[0]}", port=0
    )
    async with server(settings, "plain", tmp_path, **LONG) as url:
        process = await client(url, "long")
        with local.running(settings) as cluster:
            await apply_topics(settings)
            worker = WorkerProcess(settings).start()
            try:
                async with server(settings, "published", tmp_path, **LONG) as published_url:
                    await _with_an_outage(settings, cluster, published_url, process)
                turns = await wait_until_stored(settings, 4, [worker])
                assert len(turns) == 4  # two agent turns, and what the user said before each
            finally:
                worker.end()
    async with await ThreadStore.open(settings.store_url) as store:
        for chat in ("long", "short"):
            document = await read_thread(store, ThreadKey(thread_uuid(chat)[0]))
            assert document is not None
            (stored,) = [turn for turn in document["turns"] if turn["turn_type"] == "agent"]
            assert stored["completion_status"] == "complete"
            told = agent_turn("pydantic-ai", json.loads((tmp_path / f"{chat}.json").read_text()))
            wires = "pydantic-ai over vercel-ai", "pydantic-ai"
            assert shared_hash(stored, *wires) == shared_hash(told, *wires)
            shown = json.loads((tmp_path / f"{chat}.shown.json").read_text())
            assert shared_hash(stored, "vercel-ai") == shared_hash(agent_turn("vercel-ai", shown), "vercel-ai")


async def _with_an_outage(
    settings: Settings, cluster: local.Cluster, url: str, unpublished: asyncio.subprocess.Process
) -> None:
    """One conversation that outlasts the outage, and one within it."""
    process = await client(url, "long")
    await seen(process, 200)
    await asyncio.to_thread(cluster.kill, 0)
    away = time.monotonic()
    await seen(process, 1000)
    short = await client(url, "short")
    await seen(short, 50)
    await asyncio.sleep(max(0.0, AWAY - (time.monotonic() - away)))
    assert process.returncode is None  # it is still speaking
    await asyncio.to_thread(cluster.restart, 0)
    plain = await answer(unpublished)
    for chat, found in (("long", await answer(process)), ("short", await answer(short))):
        if chat == "long":
            assert found["raw"] == plain["raw"]
        (settings.home / f"{chat}.shown.json").write_text(json.dumps([found["asked"], found["message"]]))

"""The real SDKs, each stopped over HTTP while its model talks: what the program hears, and what becomes of its run.

Needs a broker: commands are heard from it.
"""

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from pipeline.devbroker.local import Cluster
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import find_threads, read_thread
from tests.sdks import node_sdks
from tests.sdks.python_sdks import HERE, environment, server
from tests.sdks.stopping import (
    CAPTURED,
    NODE,
    OF,
    PROGRAMS,
    TRIED,
    Stage,
    Stopped,
    in_state,
    open_runs,
    program,
    stage,
    stop,
    told,
)
from tests.support.places import CACHE
from tests.support.talking_provider import WORD
from tests.support.topic_records import read_all
from tests.support.waiting import until
from tests.support.workers import WorkerProcess
from topics.catalog import EVENTS
from turnmill.control.record import AFTER_TURN
from turnmill.wire.envelope import decode

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What a program sees last, where it is no exception.
WHY = "the run was stopped by ann"
ENDS = {
    "agents": ["raw_response_event"],
    "claude-client": ["ResultMessage"],
    "pydantic-ai-sdk": ['data: {"type": "abort"}\n\ndata: [DONE]\n\n'],
    "pydantic-ag-ui": [f'data: {{"type": "RUN_ERROR", "code": "run_stopped", "message": "{WHY}"}}\n\n'],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def on(broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    settings = Settings(
        home=tmp_path_factory.mktemp("stops"),
        cache=CACHE,
        brokers=broker.bootstrap,
        topic_prefix=f"stops-{uuid.uuid4().hex[:8]}",
        partitions=1,
        port=0,
        checkpoint_interval=0.2,
    )
    await apply_topics(settings)
    worker = WorkerProcess(settings, roles="assemble,store").start()
    try:
        async with stage(settings) as made:
            yield made
    finally:
        worker.stop()


@pytest.mark.parametrize(("sdk", "way"), TRIED)
async def test_a_stop_ends_the_call(sdk: str, way: str, on: Stage, tmp_path: Path) -> None:
    is_call = sdk in CAPTURED or (OF[sdk] == NODE and sdk not in PROGRAMS)
    async with program(on, sdk, way, tmp_path) as one:
        stops = [(stream, *await one.stopped(stream=stream)) for stream in ((True, False) if is_call else (True,))]
    for stream, found, said in stops:
        if sdk in ENDS:
            assert said == {"raised": [], "seen": ENDS[sdk]}
        elif stream and way in ("kafka", "gateway"):
            assert "RunStopped" in said["raised"], said
        else:
            assert WHY in said["message"], said
            assert stream or said["status"] == 400, said
        await check(on, found)


@pytest.mark.parametrize("sdk", ["agents", "adk", "langgraph-ainvoke"])
async def test_a_stop_after_the_turn_lets_it_end(sdk: str, on: Stage, tmp_path: Path) -> None:
    """The model says to its end what it says, and is not asked again, though it wants to be."""
    async with program(on, sdk, "kafka", tmp_path) as one:
        found, said = await one.stopped(mode=AFTER_TURN)
    assert ("RunStopped" in said["raised"]) is (sdk != "agents"), said
    await check(on, found)


@pytest.mark.parametrize("dialect", ["vercel-ai", "ag-ui"])
async def test_the_client_of_a_web_application_sees_its_stream_end(dialect: str, on: Stage, tmp_path: Path) -> None:
    (port,), name, before = free_ports(1), f"client-{dialect}", {run["run_id"] for run in await open_runs(on)}
    python, variables = environment("pydantic-ai-2.68.0"), told(on, "kafka", tmp_path)
    url = f"http://127.0.0.1:{port}/{name}"
    with server([python, HERE / "stopped_server.py", str(port), dialect], port, variables):
        if dialect == "ag-ui":
            asked = {"threadId": name, "runId": name, "messages": [{"id": "q", "role": "user", "content": "Hi"}]}
            given = {"it": {"request": asked, "url": url}}
            reads = asyncio.create_task(asyncio.to_thread(node_sdks.run, "ag_ui_reads.mjs", given, tmp_path))
        else:
            command = ("node", node_sdks.installed() / "chat.mjs", "ai-7", url, name)
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            reads = asyncio.create_task(process.communicate())
        found = await stop(on, name, before, reads)
        seen = await asyncio.wait_for(reads, 120)
    if dialect == "ag-ui":
        assert seen["it"]["problem"] == WHY
        assert seen["it"]["messages"][-1]["content"].startswith(WORD)
    else:
        last = json.loads(seen[0].splitlines()[-1])
        assert last["problem"] is None
        assert last["message"]["parts"][-1]["text"].startswith(WORD)
        assert base64.b64decode(last["raw"]).endswith(ENDS["pydantic-ai-sdk"][0].encode())
    await check(on, found)


async def check(on: Stage, stop: Stopped) -> None:
    """The provider was left at once, and asked once; the run is stored as stopped, and nothing follows its end."""

    async def is_left() -> bool:
        return all(talk.closed is not None for talk in on.provider.talks[stop.name])

    async def stored() -> dict[str, Any] | None:
        async with await ThreadStore.open(on.settings.store_url) as store:
            for key in await find_threads(store, stop.thread, None):
                document = await read_thread(store, key)
                assert document is not None
                return next((turn for turn in document["turns"] if turn["turn_type"] == "agent"), None)
        return None

    await until(is_left)
    assert len(on.provider.talks[stop.name]) == 1, "it was tried again"
    await until(partial(in_state, on, stop.command, "ended"))
    turn = await until(stored)
    assert (turn["completion_status"], turn["interruption"]["reason"]) == ("interrupted", "user_cancelled")
    assert turn["meta:stopped_by"] == {"command_id": stop.command, "by": "ann"}
    envelopes = [decode(record.value) for record in await read_all(on.settings, EVENTS)]
    ends = [one.get("end") for one in envelopes if one["run_id"] == stop.run]
    assert ends[-1] == "aborted"
    assert set(ends[:-1]) <= {None}

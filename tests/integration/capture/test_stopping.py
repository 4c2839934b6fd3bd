"""Captured calls that are stopped from elsewhere: the connection ends, the program sees an error, the run says so."""

import asyncio
import json
import sys
from functools import partial
from typing import Any

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import find_threads, read_thread
from tests.support.gateways import client, running
from tests.support.places import ROOT
from tests.support.talking_provider import Provider
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, environment

PROGRAM = ROOT / "tests" / "support" / "stopped_program.py"
LIBRARIES = ("httpx", "httpx-async", "aiohttp", "requests")
CALLS = [(library, how) for library in LIBRARIES for how in ("stream", "whole")]


async def program(settings: Settings, address: str, library: str, name: str, how: str) -> Any:
    variables = {
        **environment(settings),
        "PYTHONPATH": str(ROOT),
        "TURNMILL_CONTROL": "true",
        "TURNMILL_CAPTURE_HOSTS": "127.0.0.1=test",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAM, address, library, name, how, env=variables, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return json.loads(out)


async def test_each_library(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"gateway_port": 0, "control": True, "checkpoint_interval": 0.2})
    worker = WorkerProcess(settings, roles="assemble,store").start()
    try:
        async with running(settings) as gateway, Provider().serving() as provider, client(gateway.url) as http:
            names = {f"{library}-{how}": (library, how) for library, how in CALLS}
            programs = {
                name: asyncio.create_task(program(settings, provider.url, library, name, how))
                for name, (library, how) in names.items()
            }

            async def stopped(name: str) -> str:
                async def talks() -> bool:
                    open_runs = {run["run_id"] for run in (await http.get("/v1/runs")).json()["runs"]}
                    return name in open_runs and name in provider.talks

                await until(talks)
                answer = await http.post(f"/v1/threads/{name}/runs/{name}/stop", json={"by": "ann"})
                return str(answer.json()["command_id"])

            for name in names:
                command_id = await stopped(name)
                said = await programs[name]
                assert len(provider.talks[name]) == 1, f"{name}: it was tried again"

                async def is_closed(name: str = name) -> bool:
                    return provider.talks[name][0].closed is not None

                await until(is_closed)
                if name in ("httpx-whole", "httpx-async-whole"):
                    assert said == {"status": 400}, name
                else:
                    assert said["raised"][0] == "RunStopped", (name, said)

                async def has_ended(command_id: str = command_id) -> bool:
                    return bool((await http.get(f"/v1/commands/{command_id}")).json()["state"] == "ended")

                await until(has_ended)
                await until(partial(_stored, settings, name, command_id))
    finally:
        worker.stop()


async def _stored(settings: Settings, name: str, command_id: str) -> bool:
    async with await ThreadStore.open(settings.store_url) as store:
        for key in await find_threads(store, name, None):
            document = await read_thread(store, key)
            assert document is not None
            agent = [turn for turn in document["turns"] if turn["turn_type"] == "agent"][-1]
            assert agent["interruption"]["reason"] == "user_cancelled"
            assert agent["meta:stopped_by"] == {"command_id": command_id, "by": "ann"}
            return True
    return False

"""Programs that export spans to a running gateway, before a real Kafka: the thread has what was said.

Part of `make test-sdks`.
"""

import asyncio
import subprocess
from typing import Any

import httpx
import pytest

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from tests.sdks.python_sdks import HERE, environment
from tests.support.gateways import client, running
from tests.support.otel import said, used
from tests.support.waiting import until
from tests.support.workers import WorkerProcess


@pytest.mark.parametrize(("way", "sdk"), [("pydantic-ai", "otel-pydantic-ai"), ("openinference", "otel-openinference")])
async def test_a_program_that_has_a_tracer_has_threads(way: str, sdk: str, applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"gateway_port": 0})
    python = environment(sdk)
    async with await ThreadStore.open(settings.store_url, migrate=True):
        pass
    worker = WorkerProcess(settings).start()
    try:
        async with running(settings) as gateway, client(gateway.url) as http:
            command = [python, "otel_program.py", way, gateway.url]
            await asyncio.to_thread(subprocess.run, command, cwd=HERE, check=True)

            async def complete() -> Any:
                answer: httpx.Response = await http.get(f"/v1/threads/otel-{way}")
                turns = answer.json().get("turns", ())
                return [*turns] if len(said(turns)) == 7 else None

            turns = await until(complete, worker.text)
    finally:
        worker.end()
    assert [piece for piece in said(turns) if piece[0] != "call"] == [
        *(("user", "Weather in Paris and Oslo?"), ("text", "Let me check."), ("result", "Paris: sunny")),
        *(("result", "Oslo: sunny"), ("text", "Both are sunny.")),
    ]
    assert used(turns)[::2] == (60, 18)
    assert {turn["agent_id"] for turn in turns if turn["turn_type"] == "agent"} == {"weather"}

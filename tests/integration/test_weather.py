"""The weather example through Kafka, with a user turn before it: the stored turn holds exactly what it must."""

import json
from typing import Any

import aiohttp

from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import read_thread
from tests.support.places import ROOT
from tests.support.topic_records import publish
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import EVENTS
from topics.thread_key import ThreadKey
from turnmill.wire.envelope import encode
from turnmill.wire.framing import decode

EXAMPLES = ROOT / "examples"
THREAD = "2b0f7f5e-7d3c-4a55-9f0c-7a4f0f6f1a11"
STATED_BY_THE_PIPELINE = {"timestamp", "started_at", "completed_at", "agent_id"}


def bare(value: Any) -> Any:
    """Without times, ids of the pipeline, and implementation metadata."""
    if isinstance(value, dict):
        return {
            key: bare(item)
            for key, item in value.items()
            if key not in STATED_BY_THE_PIPELINE and not key.startswith("meta:")
        }
    return [bare(item) for item in value] if isinstance(value, list) else value


def envelope(run_id: str, seq: int, events: list[dict[str, Any]], **more: Any) -> tuple[bytes, bytes]:
    base = {"v": 1, "thread_id": THREAD, "run_id": run_id, "agent_id": "weather", "seq": seq, "ts": 1768928342002 + seq}
    return THREAD.encode(), encode({**base, "events": events, **more})


async def test_the_weather_example(applied_settings: Settings) -> None:
    prompt = "What's the weather in Paris?"
    turn = {"turn_type": "user", "submitted_at": "2026-01-20T16:59:00Z"}
    turn["parts"] = [{"part_kind": "user-prompt", "content": prompt}]  # type: ignore[assignment]
    records = [envelope("user-1", 0, [{"type": "user-turn", "turn": turn}], dialect="thread-protocol", end="complete")]
    framed = decode((EXAMPLES / "weather.sse").read_bytes(), DIALECTS["vercel-ai"].wire)
    events = [item.event for item in framed if item.event is not None]
    info = {"agent_name": "Weather", "model_name": "gpt-5", "provider_name": "openai"}
    records += [
        envelope("run-1", seq, [event], dialect="vercel-ai", **({} if seq else {"run": info}))
        for seq, event in enumerate(events)
    ]
    records.append(envelope("run-1", len(events), [], dialect="vercel-ai", end="complete"))
    worker = WorkerProcess(applied_settings).start()
    try:
        await publish(applied_settings, EVENTS, records)
        await wait_until_stored(applied_settings, 2, [worker])
        exposition = await _metrics(worker)
    finally:
        worker.end()
    async with await ThreadStore.open(applied_settings.store_url) as store:
        thread = await read_thread(store, ThreadKey(THREAD))
    assert thread is not None
    user, agent = thread["turns"]
    assert (user["turn_type"], user["parts"][0]["content"]) == ("user", prompt)
    expected = json.loads((EXAMPLES / "weather.turn.json").read_text())
    del expected["note"]
    found = bare(agent)
    for message in found["messages"]:
        for name in ("model_name", "provider_name"):  # of the run, not of the stream
            message.pop(name, None)
    assert found == expected
    labels = 'agent="Weather",model="gpt-5",provider="openai",tenant="unknown"'
    assert f'turnmill_tokens_total{{{labels},token_type="input"}} 130.0' in exposition
    assert f'turnmill_tokens_total{{{labels},token_type="output"}} 35.0' in exposition


async def _metrics(worker: WorkerProcess) -> str:
    """The worker's /metrics, once its telemetry has been counted."""
    url = await worker.url()
    async with aiohttp.ClientSession() as client:

        async def counted() -> str:
            async with client.get(f"{url}/metrics") as response:
                text = await response.text()
            return text if 'type="data-sys-usage"} 2.0' in text else ""

        return await until(counted)

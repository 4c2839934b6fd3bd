"""Each query of the dashboards, and each recording rule, asked of a real Prometheus that scrapes a real pipeline."""

import asyncio
import json
import math
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from helm.generate import CHART, DASHBOARDS
from pipeline.settings import Settings
from tests.chart.check_alerts import rules
from tests.chart.prometheus import NAMESPACE, RELEASE, Prometheus, running, samples
from tests.support.gateways import client, sse, talk
from tests.support.gateways import running as gateway_running
from tests.support.topic_records import publish
from tests.support.waiting import PATIENCE
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import EVENTS
from turnmill.wire.envelope import encode

Json = dict[str, Any]
VARIABLES: Final = {
    "$namespace": NAMESPACE,
    "$release": RELEASE,
    "$model": ".*",
    "$agent": ".*",
    "$tenant": ".*",
    # Longer than a busy machine needs from the second wave of traffic to the last query.
    "$__rate_interval": "10m",
    "$__range": "10m",
}
CALM: Final = {
    "Records waiting": "the worker keeps up",
    "Waiting records, by role": "the worker keeps up",
    "Assembled, not stored": "the store keeps up",
    "Runs a second: reopened": "nothing came late",
    "Open turns and early events: early events": "nothing came early",
    "Rebalances a minute": "the worker has had its partitions for long",
    "Failures and retries a second: store failures": "the database is well",
    "Failures and retries a second: store retries": "the database is well",
    "Failures and retries a second: content store failures": "the content store is well",
    "Failures and retries a second: archive failures": "the archive is well",
    "Uploads and live streams: uploads": "no upload is coming in at this moment",
}
"""What may be 0 where nothing is wrong: panel, or panel: legend -> why. Anything else must be more."""


def test_the_files_are_what_the_code_makes() -> None:
    for name, make in DASHBOARDS.items():
        assert json.loads((CHART / "files" / "dashboards" / f"{name}.json").read_text(encoding="utf-8")) == make()


async def test_every_query_has_an_answer(applied_settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "prometheus"
    folder.mkdir()
    settings = applied_settings.model_copy(
        update={
            "content": (tmp_path / "content").as_uri(),
            "content_threshold": 2000,
            "spill_after": 1.0,
            "archive": (tmp_path / "archive").as_uri(),
            "archive_age": 1.0,
            "gateway_port": 0,
            "gateway_rate": 0.0,
        }
    )
    worker = WorkerProcess(settings, roles="assemble,metrics,store,archive").start()
    try:
        async with gateway_running(settings) as gateway, client(gateway.url) as http:
            targets = {
                "worker-all": (await worker.url()).removeprefix("http://"),
                "gateway": gateway.url.removeprefix("http://"),
            }
            async with running(folder, targets, rules()) as prometheus, traffic(settings, worker, http, prometheus):
                for look in (unanswered, unrecorded, without_choice):
                    assert await problems_left(look, prometheus) == []
                alarmed = {sample["metric"]["alertname"] for sample in await prometheus.query("ALERTS")}
                assert alarmed == {"TurnmillDeadLetters"}  # of the rubbish; all else is well
        assert worker.stop() == 0
    finally:
        worker.end()


async def problems_left(look: Callable[[Prometheus], Awaitable[list[str]]], prometheus: Prometheus) -> list[str]:
    """What `look` finds, looked at again and again until it finds nothing: a busy machine misses some scrapes."""
    deadline = time.monotonic() + PATIENCE
    while (problems := await look(prometheus)) and time.monotonic() < deadline:
        await asyncio.sleep(1)
    return problems


async def unanswered(prometheus: Prometheus) -> list[str]:
    """Queries that give nothing, or 0 though there was traffic."""
    problems, calm = [], set()
    for name, make in DASHBOARDS.items():
        for panel in make()["panels"]:
            for target in panel.get("targets", ()):
                titles = {panel["title"], f"{panel['title']}: {target['legendFormat']}"}
                numbers = samples(await prometheus.query(substituted(target["expr"])))
                if not [number for number in numbers if not math.isnan(number)]:
                    problems.append(f"{name}: {max(titles, key=len)} has no data: {target['expr']}")
                elif titles & CALM.keys():
                    calm |= titles & CALM.keys()
                elif not any(number > 0 for number in numbers):
                    problems.append(f"{name}: {max(titles, key=len)} is 0: {target['expr']}")
    return [*problems, *(f"{title} is on no dashboard" for title in CALM.keys() - calm)]


async def unrecorded(prometheus: Prometheus) -> list[str]:
    """Recording rules that give nothing."""
    records = [rule["record"] for group in rules()["groups"] for rule in group["rules"] if "record" in rule]
    assert records
    return [record for record in records if not await prometheus.query(record)]


async def without_choice(prometheus: Prometheus) -> list[str]:
    """Variables of dashboards that nothing can be chosen of."""
    found = []
    for make in DASHBOARDS.values():
        for variable in make()["templating"]["list"]:
            if variable["type"] == "query":
                asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
                assert asked is not None, variable
                if not await prometheus.values(asked[2], substituted(asked[1])):
                    found.append(variable["name"])
    return found


def substituted(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query, query
    return query


@asynccontextmanager
async def traffic(
    settings: Settings, worker: WorkerProcess, http: httpx.AsyncClient, prometheus: Prometheus
) -> AsyncIterator[None]:
    """Two waves of all that is counted: a rate needs a counter that was there before. While it lasts, a live stream is
    open, and a run, too.
    """
    await wave(settings, http, "first")
    await wait_until_stored(settings, 3, [worker])
    await http.get("/v1/threads")
    await prometheus.until(f'turnmill_agent_turns_total{{release="{RELEASE}",reason="error"}}')
    await prometheus.until("turnmill_archive_bytes_total > 0")
    await prometheus.until("turnmill_gateway_events_total > 0")
    async with http.stream("GET", "/v1/threads/first/live", params={"wait": "true"}) as live:
        assert live.status_code == 200
        await wave(settings, http, "second")
        await publish(settings, EVENTS, [records("open", end=None)[0]])
        await wait_until_stored(settings, 6, [worker])
        for condition in (
            "turnmill_gateway_live_readers > 0",
            "turnmill_segments_spilled_total > 0",
            'turnmill_agent_turns_total{reason="error"} > 1',
            "increase(turnmill_archive_bytes_total[10m]) > 0",
            "increase(turnmill_cost_usd_total[10m]) > 0",
        ):
            await prometheus.until(condition)
        yield


async def wave(settings: Settings, http: httpx.AsyncClient, name: str) -> None:
    """A run that goes well, one that ends in an error, one over the gateway; a duplicate; a record that is rubbish."""
    well, failed = records(f"{name}-well"), records(f"{name}-failed", end="error")
    await publish(settings, EVENTS, [*well, well[0], *failed, (b"key", b"rubbish")])
    path = f"/v1/threads/{name}/runs/r1/stream"
    answer = await http.post(path, params={"dialect": "vercel-ai", "agent_id": "poet"}, content=sse(talk(20)))
    assert answer.status_code == 200, answer.text


def records(run_id: str, end: str | None = "complete") -> list[tuple[bytes, bytes]]:
    """One run with all that metrics tell of: a tool that fails, one with a large result, usage, latency, a cache."""
    thread_id = str(uuid.uuid5(uuid.NAMESPACE_URL, run_id))
    usage = {"input_tokens": 90, "output_tokens": 30, "cache_read_tokens": 40, "thinking_tokens": 9, "cost": 0.02}
    events: list[Json] = [
        *({"type": "start"}, {"type": "start-step"}),
        {"type": "data-sys-cache_hit", "data": {"latency_ms": 3}},
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "search", "input": {"q": "mill"}},
        {"type": "tool-output-available", "toolCallId": "c1", "output": {"text": "grain " * 1000}},
        {"type": "tool-input-available", "toolCallId": "c2", "toolName": "weather", "input": {"city": "Oslo"}},
        {"type": "tool-output-error", "toolCallId": "c2", "errorText": "no such city"},
        *({"type": "finish-step"}, {"type": "start-step"}),
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "It mills."},
        {"type": "text-end", "id": "t"},
        {"type": "data-sys-usage", "data": usage},
        {"type": "data-sys-latency", "data": {"model_latency_ms": 900, "total_latency_ms": 950}},
        {"type": "finish-step"},
    ]
    identity = {"v": 1, "thread_id": thread_id, "run_id": run_id, "agent_id": "miller", "tenant": "acme"}
    run = {"agent_name": "Miller", "model_name": "model-1", "provider_name": "maker"}
    envelopes: list[Json] = [
        {**identity, "dialect": "vercel-ai", "seq": seq, "ts": 1_768_928_342_002 + 70 * seq, "events": [event]}
        for seq, event in enumerate(events)
    ]
    envelopes[0]["run"] = run
    if end is not None:
        envelopes[-1]["end"] = end
    return [(thread_id.encode(), encode(envelope)) for envelope in envelopes]

"""Spans of turns, from publishers that are in spans of their own, through a real broker and worker, to a collector."""

import json
from typing import Any

from aiokafka import AIOKafkaProducer
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from pipeline.settings import Settings
from tests.support.collector import attributes, collecting
from tests.support.topic_records import read_all
from tests.support.workers import WorkerProcess, wait_until_stored
from topics import turn_record
from topics.catalog import EVENTS, TURNS
from turnmill.identity import thread_uuid
from turnmill.kafka.client import client_options
from turnmill.publish.publisher import Publisher
from turnmill.wire.envelope import encode
from turnmill.wire.traceparent import headers

TRACES = ["4bf92f3577b34da6a3ce929d0e0e4736", "5bf92f3577b34da6a3ce929d0e0e4737", "6bf92f3577b34da6a3ce929d0e0e4738"]
SPAN = "00f067aa0ba902b7"
STREAM = [
    {"type": "start"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "It rains."},
    {"type": "text-end", "id": "t"},
    {"type": "data-sys-usage", "data": {"inputTokens": 5, "outputTokens": 2}},
    {"type": "finish"},
]
RUN = {"agent_id": "weather", "dialect": "vercel-ai"}


async def publish_by_ours(settings: Settings) -> None:
    """One run in a span, one in none that fails."""
    context = SpanContext(int(TRACES[0], 16), int(SPAN, 16), is_remote=False, trace_flags=TraceFlags(1))
    async with Publisher(settings, spool=False) as publisher:
        with use_span(NonRecordingSpan(context)):
            run = publisher.run(thread_id="one", run_id="traced", info={"agent_name": "Weather"}, **RUN)
        async with run:
            for event in STREAM:
                await run.send(event)
        async with publisher.run(thread_id="two", run_id="failed", **RUN) as run:
            await run.send(STREAM[0])
            await run.end("error")


async def publish_by_others(settings: Settings) -> None:
    """As an instrumented Kafka client does it: only in the headers. The second record is none that can be used."""
    envelope = {"v": 1, "thread_id": thread_uuid("three")[0], "run_id": "foreign", "seq": 0, "ts": 1_768_928_342_002}
    envelope |= {"events": STREAM, "end": "complete", **RUN}
    producer = AIOKafkaProducer(**client_options(settings))
    await producer.start()
    try:
        for record, trace in ((envelope, TRACES[1]), ({**envelope, "run_id": "bad", "dialect": "none"}, TRACES[2])):
            await producer.send_and_wait(
                EVENTS.full_name(settings.topic_prefix),
                encode(record),
                key=record["thread_id"].encode(),  # type: ignore[attr-defined]
                headers=headers(f"00-{trace}-{SPAN}-01"),
            )
    finally:
        await producer.stop()


async def test_each_turn_is_a_span_that_is_linked_to_its_publishers(applied_settings: Settings) -> None:
    with collecting(refused=1) as collector:
        settings = applied_settings.model_copy(update={"otlp_endpoint": collector.endpoint, "log_format": "json"})
        await publish_by_ours(settings)
        await publish_by_others(settings)
        worker = WorkerProcess(settings).start()
        try:
            await wait_until_stored(settings, 3, [worker])
            assert worker.stop() == 0  # what it has not sent yet goes out
        finally:
            worker.end()
    spans = collector.named()
    links = {name: [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] for name, span in spans.items()}
    assert links == {"traced": [(TRACES[0], SPAN)], "failed": [], "foreign": [(TRACES[1], SPAN)]}
    said = attributes(spans["traced"])
    assert (spans["traced"].name, said["gen_ai.conversation.id"]) == ("invoke_agent Weather", thread_uuid("one")[0])
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (5, 2)
    assert [event.name for event in spans["traced"].events] == ["turnmill.assembled"]
    assert (spans["failed"].status.code, spans["failed"].status.message) == (2, "error")
    assert not any("It rains" in str(span) for span in collector.spans)

    records = [turn_record.decode(record.value) for record in await read_all(settings, TURNS)]  # type: ignore[attr-defined]
    assert {record["run_id"]: record.get("traceparent") for record in records} == {
        "traced": f"00-{TRACES[0]}-{SPAN}-01",
        "failed": None,
        "foreign": f"00-{TRACES[1]}-{SPAN}-01",
    }
    raw: list[Any] = await read_all(settings, EVENTS)
    sent = {json.loads(record.value)["run_id"]: dict(record.headers) for record in raw}
    assert sent["traced"] == {"traceparent": f"00-{TRACES[0]}-{SPAN}-01".encode()}
    assert sent["failed"] == {}
    lines = [json.loads(line) for line in worker.text().splitlines() if line.startswith("{")]
    (letter,) = [line for line in lines if line["message"].startswith("dead letter")]
    assert (letter["thread_id"], letter["run_id"], letter["trace_id"]) == (thread_uuid("three")[0], "bad", TRACES[2])

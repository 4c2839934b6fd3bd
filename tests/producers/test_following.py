"""Runs that real clients write, each with its partitioner: followed live, and made whole where they were scattered."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from pipeline.settings import Settings
from tests.producers import clients
from tests.support.commands import turnmill
from tests.support.fleet import expected, run_of
from tests.support.gateways import client, replayed, running
from tests.support.loop_time import longest_callback
from tests.support.waiting import PATIENCE
from tests.support.workers import WorkerProcess, stored, wait_until_stored
from topics.catalog import EVENTS

WRITERS = ("java", "librdkafka", "kafkajs", "platformatic", "sarama", "franz-go", "kafka-go")
HELD_SECONDS = 0.5  # of processor time


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
@pytest.mark.parametrize("writer", WRITERS)
async def test_what_a_client_writes_is_followed_and_stored_whole(
    writer: str,
    spelled: Callable[[str], str],
    applied_settings: Settings,
    tmp_path: Path,
) -> None:
    runs = [run_of(31, number) for number in range(4)]
    records = [(spelled(run.thread_id), value.decode()) for run in runs for value in run.values()]
    clients.write(writer, applied_settings, EVENTS, records, tmp_path)
    settings = applied_settings.model_copy(
        update={"gateway_port": 0, "gateway_rate": 0.0, "webhooks": SecretStr("[]"), "idle_timeout": 1.0}
    )
    with longest_callback(of_tests=False) as longest:
        async with running(settings) as gateway, client(gateway.url) as http:
            for run in runs:
                found = await asyncio.wait_for(replayed(http, run.thread_id.upper()), PATIENCE)
                events = sum(len(envelope["events"]) for envelope in run.envelopes)
                assert sorted(message.seq for message in found if message.name == "message") == list(range(events))
                assert sum(message.name == "end" for message in found) == 1
    assert longest.seconds < HELD_SECONDS, longest.callback
    worker = WorkerProcess(settings).start()
    try:
        await wait_until_stored(settings, len(runs), [worker])
        assert worker.stop() == 0
    finally:
        worker.end()
    if writer == "kafka-go":  # round robin
        assert await stored(settings) != expected(runs)
        for run in runs:
            assert (await turnmill(settings, "replay", "--thread", run.thread_id)).returncode == 0
        said = (await turnmill(settings, "doctor")).stdout
        assert "are in several partitions" in " ".join(said.split())
    assert await stored(settings) == expected(runs)

"""Records that go before they were read: a topic is deleted and made again, retention removes what nobody has read."""

import asyncio
import json
import time

import httpx
import pytest
from aiokafka.admin import RecordsToDelete
from pydantic import SecretStr

from pipeline.kafka.admin import apply_topics
from pipeline.kafka.offsets import bounds, connected
from pipeline.settings import Settings
from pipeline.stores.accounts.audit import removed_records
from pipeline.stores.database.store import ThreadStore
from tests.integration.test_large_batches import spoken
from tests.support.commands import turnmill
from tests.support.topic_records import publish, read_all
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import EVENTS, NOTICES


async def delete(settings: Settings) -> None:
    name = EVENTS.full_name(settings.topic_prefix)
    async with connected(settings) as client:
        await client.delete_topics([name])

        async def gone() -> bool:
            return bool((await client.describe_topics([name]))[0]["error_code"])

        await until(gone)


@pytest.mark.parametrize("away", [0.0, 3.0, 12.0])
async def test_a_topic_made_again_is_read_within_seconds(applied_settings: Settings, away: float) -> None:
    worker = WorkerProcess(applied_settings).start()
    try:
        await publish(applied_settings, EVENTS, list(spoken(range(1, 21), 20)))
        await wait_until_stored(applied_settings, 20, [worker])
        await asyncio.sleep(1.5)  # offsets are committed
        await delete(applied_settings)
        await asyncio.sleep(away)
        if away:
            said = (await turnmill(applied_settings, "doctor")).stdout
            assert "no worker with the role assemble" not in said, said
        await apply_topics(applied_settings)
        began = time.monotonic()
        await publish(applied_settings, EVENTS, list(spoken(range(101, 103), 3)))
        await wait_until_stored(applied_settings, 22, [worker])
        assert time.monotonic() - began < 15
    finally:
        worker.end()


async def test_what_retention_removed_is_told_for_ever(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"audit_retention": 1.0, "webhooks": SecretStr("[]")})
    name = EVENTS.full_name(settings.topic_prefix)
    worker = WorkerProcess(settings).start()
    try:
        await publish(settings, EVENTS, list(spoken(range(1, 2), 20)))
        await wait_until_stored(settings, 1, [worker])
        await asyncio.sleep(1.5)  # offsets are committed
    finally:
        worker.stop()
    await publish(settings, EVENTS, list(spoken(range(1, 2), 17)))
    ends = {partition: end for partition, (_, end) in (await bounds(settings, [EVENTS])).items() if end}
    async with connected(settings) as client:
        await client.delete_records({partition: RecordsToDelete(end) for partition, end in ends.items()})
    after = WorkerProcess(settings, "after").start()
    try:
        await publish(settings, EVENTS, list(spoken(range(1, 2), 21))[-1:])
        async with await ThreadStore.open(settings.store_url) as store:

            async def noted() -> int:
                return await removed_records(store, name)

            assert await until(noted, after.text) == 21
            await asyncio.sleep(3)  # longer than entries of other actions stay
            assert await noted() == 21
        url = await after.url()
        async with httpx.AsyncClient() as client:
            shown = (await client.get(f"{url}/metrics")).text
        assert f'turnmill_records_removed_total{{role="assemble",topic="{name}"}} 21.0' in shown
        notices = [json.loads(record.value) for record in await until(lambda: read_all(settings, NOTICES))]
        assert [notice["data"]["action"] for notice in notices] == ["records.removed"]
        assert "21 records were removed before they were read" in after.text()
    finally:
        after.end()
    findings = json.loads((await turnmill(settings, "doctor", "--json")).stdout)
    (balance,) = [finding for finding in findings if finding["check"] == "balance"]
    assert balance["level"] == "warning", balance
    assert "21 records were removed by retention before they were read" in balance["seen"]

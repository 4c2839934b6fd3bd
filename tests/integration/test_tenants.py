"""Tenants whose runs have the same ids, through Kafka, a worker that is killed, and the store."""

import json
from typing import Any

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import read_thread
from tests.support.commands import turnmill
from tests.support.fleet import AgentRun, run_of
from tests.support.topic_records import publish
from tests.support.toy import Envelope
from tests.support.waiting import until
from tests.support.workers import WorkerProcess
from topics.catalog import EVENTS
from topics.thread_key import ThreadKey
from turnmill.wire.envelope import encode


def of_tenant(run: AgentRun, tenant: str) -> list[Envelope]:
    return [{**record, "tenant": tenant} for record in run.envelopes]


async def stored(settings: Settings, thread_id: str, tenant: str) -> dict[str, Any] | None:
    async with await ThreadStore.open(settings.store_url) as store:
        return await read_thread(store, ThreadKey.of(thread_id, tenant))


async def test_who_ends_anothers_run_before_it_begins_ends_his_own(applied_settings: Settings) -> None:
    settings = applied_settings.model_copy(update={"spill_after": 0.5, "gap_timeout": 2.0})
    run = run_of(31, 1)
    acme = of_tenant(run, "acme")
    hijack = {**acme[0], "tenant": "evil", "seq": 8, "events": [], "dt": [], "end": "complete"}
    half = len(acme) // 2

    async def send(*envelopes: Envelope) -> None:
        await publish(settings, EVENTS, [(run.key, encode(envelope)) for envelope in envelopes])

    await send(hijack, *acme[:half])
    worker = WorkerProcess(settings).start()
    try:
        await worker.url()
        await send(*of_tenant(run, "evil")[half:])
        worker.kill()
        worker.start()
        await send(*acme[half:])
        await until(lambda: stored(settings, run.thread_id, "acme"), worker.text)
        assert worker.stop() == 0
    finally:
        worker.end()

    whole = await stored(settings, run.thread_id, "acme")
    assert whole is not None
    assert [turn["completion_status"] for turn in whole["turns"] if turn["turn_type"] == "agent"] == ["complete"]
    again = await turnmill(settings, "replay", "--json", "--thread", run.thread_id, "--tenant", "acme")
    assert json.loads(again.stdout)["turns"] == {"unchanged": 1, "changed": 0, "new": 0}
    assert await stored(settings, run.thread_id, "acme") == whole

"""Notices from the store to the topic of a real broker, and out of it: none is lost where the way is cut."""

import asyncio

import pytest

from pipeline.devbroker.ports import free_ports
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.outbound.notices import CLAIMED_MS
from pipeline.stores.turns import write_turns
from pipeline.worker.sinks import housekeeping
from pipeline.worker.sinks.housekeeping import Notifying
from tests.support.turn_records import make_record
from topics.thread_key import ThreadKey
from turnmill import ClientSettings, Notices, clock
from turnmill.errors import BrokerError
from turnmill.kafka.producer import connected


async def test_a_notice_whose_sender_died_comes_again_with_its_id(
    applied_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = applied_settings
    records = [make_record(f"chat {n}") for n in range(3)]
    heard: list[str] = []
    async with await ThreadStore.open(settings.store_url) as store:
        await write_turns(store, records)
        for record in records:
            await delete_thread(store, ThreadKey.of(record["thread_id"], None))

        async def opened() -> ThreadStore:
            return store

        def notifying_of(settings: Settings) -> Notifying:
            return Notifying(
                lambda topic: connected(settings, topic.full_name(settings.topic_prefix)), opened, Metrics()
            )

        async def dies(*_: object) -> None:
            raise BrokerError("killed behind the send")

        with monkeypatch.context() as patched:
            patched.setattr(housekeeping, "notices_sent", dies)
            with pytest.raises(BrokerError):
                await notifying_of(settings)._step()
        monkeypatch.setattr(clock.time, "time_ns", lambda: (2**50 + CLAIMED_MS) * 1_000_000)
        away = settings.model_copy(update={"brokers": f"127.0.0.1:{free_ports(1)[0]}"})
        monkeypatch.setattr("turnmill.kafka.producer.CONNECT_TIMEOUT", 1.0)
        assert await notifying_of(away)._step() == housekeeping.NOTICES_RETRY_DELAY
        monkeypatch.setattr(clock.time, "time_ns", lambda: (2**51 + CLAIMED_MS) * 1_000_000)
        assert await notifying_of(settings)._step() == housekeeping.NOTICES_MORE_INTERVAL
        assert await notifying_of(settings)._step() == housekeeping.NOTICES_INTERVAL

        client = ClientSettings(brokers=settings.brokers, topic_prefix=settings.topic_prefix, home=settings.home)
        threads = set()
        async with asyncio.timeout(60), Notices("copies", settings=client) as notices:
            async for notice in notices:
                heard.append(notice.id)
                threads.add(notice.thread_id)
                if len(heard) == 6:
                    break
    assert len(set(heard)) == 3
    assert threads == {record["thread_id"] for record in records}

"""Live streams of threads whose records are where no hash of ours puts them: by other partitioners, or after growth."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.kafka import reading
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.support.gateways import Message, Running, client, messages, replayed, running, talk
from tests.support.topic_records import writing
from tests.support.waiting import PATIENCE, until
from topics.catalog import EVENTS
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import encode

THREAD = thread_uuid("chat-1")[0]


def records(events: Sequence[dict[str, Any]], thread: str = THREAD, run: str = "r1") -> list[bytes]:
    """A run's records, three events each."""
    head = {"v": 1, "thread_id": thread, "run_id": run, "agent_id": "a", "dialect": "vercel-ai", "ts": 5}
    parts = [{**head, "seq": seq, "events": list(events[seq : seq + 3])} for seq in range(0, len(events), 3)]
    parts[-1]["end"] = "complete"
    return [encode(part) for part in parts]


def seqs(found: Sequence[Message]) -> list[int]:
    return [message.seq for message in found if message.name == "message"]


@pytest.mark.parametrize("memory", [2**26, 2_000])
@pytest.mark.parametrize("partition", range(4))
async def test_a_thread_is_followed_where_it_is(gateway_settings: Settings, partition: int, memory: int) -> None:
    events = talk(20)
    async with writing(gateway_settings, EVENTS) as write:
        for value in records(events):
            await write(THREAD.encode(), value, partition)
    narrow = gateway_settings.model_copy(update={"gateway_live_bytes": memory})
    async with running(narrow) as gateway, client(gateway.url) as http:
        whole = await asyncio.wait_for(replayed(http, "chat-1"), PATIENCE)
        assert seqs(whole) == list(range(len(events)))
        assert {message.id.partition("-")[0] for message in whole} == {str(partition)}
        rest = await asyncio.wait_for(replayed(http, "chat-1", last_event_id=whole[9].id), PATIENCE)
        assert rest == whole[10:]


@pytest.mark.parametrize("key", [None, THREAD.encode(), THREAD.upper().encode(), b"another"])
async def test_a_scattered_run_is_followed_in_all_partitions(
    gateway: Running, gateway_settings: Settings, key: bytes | None
) -> None:
    """By round robin: what was, what comes, and the rest behind any id, here and at another gateway."""
    events = talk(30)
    values = records(events, THREAD.upper() if key and key.isupper() else THREAD)
    narrow = gateway_settings.model_copy(update={"gateway_live_bytes": 3_000})
    async with writing(gateway_settings, EVENTS) as write, client(gateway.url) as http:
        for number, value in enumerate(values[:5]):
            await write(key, value, number % 3)
        found: list[Message] = []

        async def follow() -> None:
            async with http.stream("GET", f"/v1/threads/{THREAD.upper()}/live") as response:
                async for message in messages(response):
                    found.append(message)
                    if len(found) > len(events):  # the end may come before the last events, from another partition
                        return

        following = asyncio.create_task(follow())
        await until(lambda: _is(len(found) >= 15))
        for number, value in enumerate(values[5:]):
            await write(key, value, number % 4)
        await asyncio.wait_for(following, PATIENCE)
        by_seq = sorted((message for message in found if message.name == "message"), key=lambda message: message.seq)
        assert [json.loads(message.data)["event"] for message in by_seq] == events
        async with running(narrow) as second, client(second.url) as other:
            for at in (0, 7, 16, 20, len(found) - 2):
                for reader in (http, other):
                    rest = await asyncio.wait_for(replayed(reader, "chat-1", last_event_id=found[at].id), PATIENCE)
                    assert sorted(seqs(rest)) == sorted(seqs(found[at + 1 :]))
                    assert len(rest) == len(found) - at - 1


async def _is(value: bool) -> bool:  # noqa: FBT001
    return value


async def test_a_topic_that_grows_under_readers(gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread goes on in a partition that there was not when its reader came; its id is good, here and there."""
    monkeypatch.setattr(reading, "PARTITIONS_INTERVAL", 0.5)
    events = talk(20)
    values = records(events)
    more = gateway_settings.model_copy(update={"partitions": gateway_settings.partitions + 3})
    async with (
        writing(gateway_settings, EVENTS) as write,
        running(gateway_settings) as gateway,
        client(gateway.url) as http,
    ):
        for value in values[:4]:
            await write(THREAD.encode(), value, 1)
        found: list[Message] = []

        async def follow() -> None:
            async with http.stream("GET", "/v1/threads/chat-1/live") as response:
                async for message in messages(response):
                    found.append(message)
                    if message.name == "end":
                        return

        following = asyncio.create_task(follow())
        await until(lambda: _is(len(found) >= 12))
        await apply_topics(more, grow=True)
        async with writing(more, EVENTS) as write_on:
            for value in values[4:]:
                await write_on(THREAD.encode(), value, gateway_settings.partitions + 1)
        await asyncio.wait_for(following, PATIENCE)
        assert seqs(found) == list(range(len(events)))
        async with running(more) as second, client(second.url) as other:
            for at in (3, 14):
                for reader in (http, other):
                    assert seqs(await replayed(reader, "chat-1", last_event_id=found[at].id)) == seqs(found[at + 1 :])


async def test_a_reader_that_can_not_go_on_exactly_begins_again(gateway_settings: Settings) -> None:
    """Its id is older than what the gateway knows of, and names no place in the partition where the thread is now."""
    events = talk(6)
    async with writing(gateway_settings, EVENTS) as write:
        for value in records(events, run="old"):
            await write(THREAD.encode(), value, 0)
        await asyncio.sleep(2)
        for value in records(events):
            await write(THREAD.encode(), value, 1)
        short = gateway_settings.model_copy(update={"gateway_live_window": 1.0})
        async with running(short) as gateway, client(gateway.url) as http:
            found = await replayed(http, "chat-1", last_event_id="0-0.0")
            assert [(message.id, message.name) for message in found] == [("", "turnmill.restart")]
            assert "other partitions" in json.loads(found[0].data)["reason"]

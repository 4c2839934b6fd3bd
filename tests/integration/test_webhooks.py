"""Webhooks with a real Kafka and a receiver that fails: each event is taken, in order, once, across a killed worker."""

import asyncio
import json
from typing import Any

from pydantic import SecretStr
from standardwebhooks import Webhook as Verifier

from pipeline.kafka.offsets import group_lag
from pipeline.policies.webhooks import secret_of
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.outbound.deliveries import waiting_deliveries
from pipeline.worker.host.roles import ROLES
from pipeline.worker.host.worker import begin as begin_groups
from tests.support.receiver import Receiver, receiving
from tests.support.topic_records import publish, read_all
from tests.support.turn_records import make_record
from tests.support.waiting import until
from tests.support.workers import WorkerProcess
from topics import dead_letter, notice, turn_record
from topics.catalog import DEAD_LETTERS, FEEDBACK, NOTICES, TURNS
from turnmill.publish.feedback import made
from turnmill.wire.envelope import encode

SECRET = secret_of(b"k" * 32)


def hearing(settings: Settings, receiver: Receiver, **more: Any) -> Settings:
    webhooks = [{"name": "crm", "url": f"{receiver.url}/hook?key=hidden", "secret": SECRET}]
    changes = {
        "webhooks": SecretStr(json.dumps(webhooks)),
        "webhooks_allow": "127.0.0.1/32",
        "checkpoint_interval": 0.2,
    }
    return settings.model_copy(update=changes | more)


async def put(settings: Settings, runs: range, chats: int) -> None:
    records = [make_record(f"chat {n % chats}", f"r{n}") for n in runs]
    await publish(settings, TURNS, [(r["thread_id"].encode(), turn_record.encode(r)) for r in records])


async def begin(settings: Settings) -> None:
    """Have the groups of webhooks begin with all that is there."""
    await begin_groups(settings, [ROLES["webhooks"], ROLES["notices"]], since=0)


def runs_of(receiver: Receiver) -> list[str]:
    """As they were taken; one whose answer the worker did not wait for, since it was stopped, comes again."""
    return list(dict.fromkeys(one["data"]["run_id"] for one in receiver.taken))


async def test_they_hear_what_is_said_of_threads(applied_settings: Settings) -> None:
    async with receiving() as receiver:
        settings = hearing(applied_settings, receiver)
        await begin(settings)
        said = [made("chat", None, {"id": "f", "name": "helpful", "value": value}) for value in (True, None)]
        await publish(settings, FEEDBACK, [(one["thread_id"].encode(), encode(one)) for one in said])
        worker = WorkerProcess(settings, roles="feedback,webhooks").start()
        try:

            async def both() -> bool:
                return len(receiver.taken) >= 2

            await until(both, worker.text)
        finally:
            worker.end()
    assert {one["type"] for one in receiver.taken} == {"feedback.given"}
    assert [one["data"]["value"] for one in receiver.taken] == [True, None]


async def test_what_was_before_webhooks_is_history(applied_settings: Settings) -> None:
    async with receiving() as receiver:
        settings = hearing(applied_settings, receiver)
        await put(settings, range(3), chats=1)
        worker = WorkerProcess(settings, roles="webhooks,notices").start()
        try:

            async def begun() -> bool:
                rows = await group_lag(settings, ROLES["webhooks"].group(settings), [TURNS])
                return all(row.committed is not None for row in rows)

            await until(begun, worker.text)
            await put(settings, range(3, 5), chats=1)

            async def both() -> bool:
                return len(runs_of(receiver)) == 2

            await until(both, worker.text)
        finally:
            worker.end()
        assert runs_of(receiver) == ["r3", "r4"]
        await put(settings, range(5, 7), chats=1)  # while no worker runs, what comes is no history
        worker.start()
        try:

            async def later() -> bool:
                return len(runs_of(receiver)) == 4

            await until(later, worker.text)
        finally:
            worker.end()
    assert runs_of(receiver) == ["r3", "r4", "r5", "r6"]


async def test_each_event_is_taken_in_order_across_a_killed_worker(applied_settings: Settings) -> None:
    stuck = asyncio.Event()

    async def answer(event: dict[str, Any], before: int) -> int:
        if event["data"].get("run_id") == "r0" and not stuck.is_set():
            return 503  # its thread waits, and no other
        return 200

    async with receiving(answer) as receiver:
        settings = hearing(applied_settings, receiver)
        await put(settings, range(24), chats=4)
        await begin(settings)
        worker = WorkerProcess(settings, roles="webhooks,notices").start()
        try:

            async def others() -> bool:
                return len(receiver.taken) >= 18

            await until(others, worker.text)
            assert not [one for one in receiver.taken if int(one["data"]["run_id"][1:]) % 4 == 0]
            worker.kill()
            stuck.set()
            record = {
                "v": 1,
                "id": "n1",
                "type": "thread.deleted",
                "at": 1,
                "thread_id": "t",
                "data": {"reason": "expired"},
            }
            await publish(settings, NOTICES, [(b"t", notice.encode(record))])  # type: ignore[arg-type]
            worker.start()

            async def all_of_them() -> bool:
                return len({one["data"].get("run_id", "notice") for one in receiver.taken}) == 25

            await until(all_of_them, worker.text)
            text = worker.text()
        finally:
            worker.end()
    for chat in range(4):
        runs = [int(one["data"]["run_id"][1:]) for one in receiver.taken if "run_id" in one["data"]]
        mine = list(dict.fromkeys(run for run in runs if run % 4 == chat))
        assert mine == sorted(mine)
    for headers, body in receiver.came:
        assert Verifier(SECRET).verify(body, headers)
    assert "hidden" not in text
    assert SECRET not in text


async def test_what_is_never_taken_is_a_dead_letter_with_its_record(applied_settings: Settings) -> None:
    async with receiving(lambda event, before: 302) as receiver:
        settings = hearing(applied_settings, receiver, webhooks_within=0.001)
        await put(settings, range(1), chats=1)
        await begin(settings)
        worker = WorkerProcess(settings, roles="webhooks").start()
        try:

            async def buried() -> list[Any]:
                return await read_all(settings, DEAD_LETTERS)

            [record] = await until(buried, worker.text)

            async def forgotten() -> bool:
                async with await ThreadStore.open(settings.store_url) as store:
                    return await waiting_deliveries(store) == {}

            # The letter is on its topic before the delivery is removed: a crash in between makes it twice, not never.
            await until(forgotten, worker.text)
        finally:
            worker.end()
    letter = dead_letter.from_record(record.key, record.value, record.headers)
    assert letter.reason == "unprocessable"
    assert "webhook setting:crm at 127.0.0.1 has not taken" in letter.detail
    assert "status 302" in letter.detail
    assert letter.topic == TURNS.full_name(settings.topic_prefix)
    assert turn_record.decode(letter.value)["run_id"] == "r0"
    assert len(receiver.came) == 1, "a redirect is not followed"

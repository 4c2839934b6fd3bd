"""Attacks by clocks: a worker's or its broker's that is ahead, and a broker's that goes back."""

import asyncio
import sqlite3
import uuid
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from tests.attack.attack import Attack
from tests.attack.poison import record
from tests.attack.programs import CLOCK
from tests.attack.stage import Program, Stage, spoken
from tests.support.topic_records import configure
from tests.support.waiting import until
from topics import json_text
from topics.catalog import FEEDBACK
from turnmill.clock import now_ms
from turnmill.publish.feedback import made

YEAR: Final = 365 * 86_400  # seconds
BACK: Final = 3_600_000  # ms
BROKER: Final = Path(__file__).with_name("broker_ahead")
STAMPED: Final = "message.timestamp.type"


async def years_ahead(stage: Stage) -> None:
    """Workers with a retention of 30 days whose own clock, whose broker's, and for which both are a year ahead."""
    said = await stage.speak()
    await stage.is_whole(said)
    clock = Path(stage.settings.home) / "clock"
    for own, brokers in ((YEAR, 0), (0, YEAR), (YEAR, YEAR)):
        old = str(uuid.uuid4())
        await stage.publish(record(spoken("of January"), thread=old, end="complete"), key=old.encode())
        await until(partial(is_stored, stage, old))
        await stopped(stage.worker)  # else it may keep the only partition, and with it what expires
        with closing(sqlite3.connect(stage.settings.store_url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute("UPDATE expiry_state SET until = 0")  # the one before has ended without a word
        clock.write_text(str(own))
        where = {"CHAOS_CLOCK": str(clock), "BROKER_AHEAD": str(brokers * 1000)}
        where |= {"PYTHONPATH": str(BROKER), "CLOCK": str(CLOCK / "sitecustomize.py")}
        async with stage.beside("worker", "--roles", "store", variables=where, store_retention="30d") as worker:
            await worker.url()
            await until(partial(is_gone, stage, old), worker.text)
            await asyncio.sleep(2)
            left = await is_stored(stage, said.thread, stage.acme)
            assert left, f"a worker {own} s and a broker {brokers} s ahead have deleted what was said just now"
            await stopped(worker)
        await stage.worker.start().url()


async def is_stored(stage: Stage, thread: str, caller: Any = None) -> bool:
    return bool((await (caller or stage.evil).get(f"/v1/threads/{thread}")).status_code == 200)


async def is_gone(stage: Stage, thread: str) -> bool:
    return not await is_stored(stage, thread)


async def stopped(program: Program) -> None:
    """End it so that its partitions are another's at once."""
    program.process.send_signal(15)
    await asyncio.to_thread(program.process.wait, 60)


async def an_hour_back(stage: Stage) -> None:
    """The clock of the broker goes back: what is said then is later all the same."""
    said = await stage.speak()
    await stage.is_whole(said)
    await configure(stage.settings, FEEDBACK, {STAMPED: "CreateTime"})
    try:
        for at, corrected, withdrawn in ((now_ms(), 1, 1), (now_ms() - BACK, 0, None)):
            for name, value in (("corrected", corrected), ("withdrawn", withdrawn)):
                await judge(stage, said.thread, at, {"id": name, "name": name, "value": value})

            async def shown(corrected: int = corrected, withdrawn: int | None = withdrawn) -> bool:
                answer = (await stage.acme.get(f"/v1/threads/{said.thread}?feedback=true")).json()
                found = {one["id"]: one["value"] for one in answer["meta:feedback"]}
                return (found.get("corrected"), found.get("withdrawn")) == (corrected, withdrawn)

            await until(shown, partial("what was said at {} does not count".format, at), 30)
    finally:
        await configure(stage.settings, FEEDBACK, {STAMPED: "LogAppendTime"})


async def judge(stage: Stage, thread: str, at: int, given: dict[str, Any]) -> None:
    judgement = made(thread, "acme", given)
    producer = AIOKafkaProducer(bootstrap_servers=stage.settings.broker_list)
    await producer.start()
    try:
        topic, key = FEEDBACK.full_name(stage.settings.topic_prefix), judgement["thread_id"].encode()
        await producer.send_and_wait(topic, json_text.encoded(judgement), key, timestamp_ms=at)
    finally:
        await producer.stop()


ATTACKS: Final = (
    Attack(
        "a year ahead",
        "workers, brokers, and both with clocks that are a year ahead",
        "delete what was said just now",
        years_ahead,
    ),
    Attack(
        "an hour back",
        "a broker's clock that goes back",
        "have feedback neither corrected nor withdrawn",
        an_hour_back,
        short=True,
    ),
)

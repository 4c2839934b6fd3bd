"""Abuses of each topic, and of whoever reads it: by clocks, by retention, and by what others write for all to read."""

import asyncio
import json
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaProducer

from pipeline.settings import Settings
from tests.attack.clocks import YEAR, stopped
from tests.attack.commanding import NESTED, opened
from tests.attack.losing import removed
from tests.attack.machine_doors import Doors, attacks, doors_of, given, many
from tests.attack.machine_others import answers, mark
from tests.attack.programs import ASKS, CLOCK, RUNS, agent
from tests.attack.stage import ROLES, Stage
from tests.support.topic_records import configure, read_all
from topics.catalog import CATALOG
from turnmill.clock import now_ms

MONTH: Final = 30 * 86_400.0  # seconds
BACK: Final = 3_600_000  # ms
STAMPED: Final = "message.timestamp.type"
LARGE: Final = 200  # of 60 KB at each door
SMALL: Final = 600
GROWTH: Final = 60  # MiB that a program may take more for what others have written
SLOWER: Final = 4.0  # seconds
MINUTES: Final = (0, 11)  # by which the clock of a program is ahead
SETTLED: Final = 8.0  # seconds in which a worker begins to remove what is old


async def backwards(stage: Stage) -> None:
    """Records that change what earlier ones say, on each topic, its clock right and gone back: both do the same."""
    doors = await doors_of(stage)
    done = [await changed(stage, doors, at) for at in (0, -BACK)]
    assert done[0], "no record changes anything"
    assert done[0] == done[1], f"with the clock gone back, {done[0] ^ done[1]} is otherwise"


async def write(stage: Stage, doors: Doors, thread: str, word: str) -> None:
    """Leave a word at each door."""
    for door in doors.writing():
        await given(stage.acme, doors, door, thread, word)


async def changed(stage: Stage, doors: Doors, ahead: int) -> set[tuple[str, str, str]]:
    """Write what topics say of a thread once more, with other words -> topic, door, and which words it shows then."""
    said = await stage.speak()
    await stage.is_whole(said)
    word, other = mark(), mark()
    await write(stage, doors, said.thread, word)
    await stage.all_read()
    await configured(stage, "CreateTime")
    producer = AIOKafkaProducer(bootstrap_servers=stage.settings.broker_list)
    await producer.start()
    shown = set()
    try:
        for topic in CATALOG:
            for one in await read_all(stage.settings, topic):
                if word.encode() in (one.value or b""):
                    value = one.value.replace(word.encode(), other.encode())
                    name = topic.full_name(stage.settings.topic_prefix)
                    await producer.send_and_wait(name, value, one.key, timestamp_ms=now_ms() + ahead)
            await stage.all_read()
            texts = await answers(stage.acme, doors, said.thread, flagged=True)
            for path, (_, text) in texts.items():
                words = ("old" if word in text else "") + ("new" if other in text else "")
                shown |= {(topic.name, path, words)} if words else set()
    finally:
        await producer.stop()
        await configured(stage, "LogAppendTime")
    return shown


async def configured(stage: Stage, stamped: str) -> None:
    for topic in CATALOG:
        await configure(stage.settings, topic, {**topic.config(), STAMPED: stamped})


async def unread(stage: Stage) -> None:
    """Records of each topic are removed while nobody reads: doctor tells of those that a role had yet to read."""
    doors = await doors_of(stage)
    said = await stage.speak()
    await stage.is_whole(said)
    await asyncio.sleep(2)  # offsets are committed
    stage.worker.end()
    await stage.speak()
    await write(stage, doors, said.thread, mark())
    for topic in CATALOG:
        await removed(stage, topic)
    for _ in range(2):
        await stage.worker.start().url()
        await stage.is_whole(await stage.speak())
        await write(stage, doors, said.thread, mark())  # so that every role goes on
        await stage.all_read()
        findings = json.loads((await stage.command("doctor", "--json"))[1])
        told = [one for one in findings if one["level"] != "ok" and "removed" in one["seen"]]
        stage.worker.end()
        assert told, f"nobody is told: {findings}"
    await stage.worker.start().url()


async def programs(stage: Stage) -> None:
    """What others write at each door that programs hear of: a program hears its own as before, whatever its clock."""
    doors, wrong = await doors_of(stage), []
    mine, theirs = await opened(stage, "acme"), await opened(stage, "evil")
    calm = await asked(stage, mine)
    clock = Path(stage.settings.home) / "machine-clock"
    for minutes in MINUTES:
        clock.write_text(str(60 * minutes))
        ahead = {"PYTHONPATH": str(CLOCK), "CHAOS_CLOCK": str(clock)}
        thread = f"heard-{minutes}"
        async with agent(stage, RUNS, thread, variables=ahead) as program:
            await program.says("ready")
            stop = await stage.acme.post(f"/v1/threads/{thread}/runs/r1/stop", json={"by": "ann"})
            assert stop.status_code == 202, stop.text
            for door in doors.writing("control") if not minutes else ():
                await many(stage.evil, door, theirs, doors.body(door, "x", NESTED), LARGE)
                await many(stage.evil, door, theirs, doors.body(door, "x", True), SMALL)
            await asyncio.sleep(2)  # the program has heard them
            program.go_on()
            try:
                await program.says("stopped")
            except AssertionError:
                wrong.append(f"a program {minutes} min ahead is not stopped")
    busy = await asked(stage, mine)
    if busy[0] - calm[0] > GROWTH or busy[1] - calm[1] > SLOWER:
        wrong.append(f"a program that asks took {calm} MiB and seconds, and {busy} then")
    assert not wrong, "\n".join(wrong)


async def asked(stage: Stage, thread: str) -> tuple[int, float]:
    async with agent(stage, ASKS, thread) as program:
        _, peak, seconds = (await program.says("asked")).split()
    return int(peak) // 1024, float(seconds)


async def ahead(stage: Stage) -> None:
    """A worker a year ahead, with each setting of how long something stays: what was said just now stays."""
    doors = await doors_of(stage)
    said = await stage.speak()
    await stage.is_whole(said)
    word = mark()
    await write(stage, doors, said.thread, word)
    await stage.all_read()
    before = await shown(stage, doors, said.thread, word)
    await stopped(stage.worker)
    clock = Path(stage.settings.home) / "worker-clock"
    clock.write_text(str(YEAR))
    variables = {"PYTHONPATH": str(CLOCK), "CHAOS_CLOCK": str(clock)}
    fields = {name: field for name, field in Settings.model_fields.items() if name.endswith("_retention")}
    kept = {name: MONTH if field.annotation is float else "30d" for name, field in fields.items()}
    async with stage.beside("worker", "--roles", ROLES, variables=variables, **kept) as worker:
        await worker.url()
        await asyncio.sleep(SETTLED)
        after = await shown(stage, doors, said.thread, word)
        await stopped(worker)
    await stage.worker.start().url()
    assert before == after, f"what was said just now is gone from {before - after}"


async def shown(stage: Stage, doors: Doors, thread: str, word: str) -> set[str]:
    found = await answers(stage.acme, doors, thread)
    return {path for path, (status, text) in found.items() if status == 200 and ("{thread_id}" in path or word in text)}


ATTACKS: Final = attacks(
    (
        ("backwards", backwards, "be ignored"),
        ("unread records", unread, "be told to nobody"),
        ("programs", programs, "make a program deaf, or fill it"),
        ("ahead", ahead, "remove it"),
    )
)

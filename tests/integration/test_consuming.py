"""Loops over the turns topic of a real broker: nothing is missed when a body dies, or members come and go."""

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.chaos.proxy import Proxy
from tests.support.topic_records import publish
from tests.support.turn_records import make_record
from tests.support.waiting import until
from topics import turn_record
from topics.catalog import NOTICES, TURNS
from turnmill import ClientSettings, SyncTurns, Turn, Turns
from turnmill.consume.synchronous import SyncConsumed
from turnmill.errors import BrokerError

PAGE = Path(__file__).parents[2] / "docs" / "consuming.md"
DIES = """
import os, sys
from turnmill import SyncTurns
with SyncTurns(group="g") as turns:
    for n, turn in enumerate(turns):
        print(turn.run_id, flush=True)
        if n == 4:
            os._exit(9)  # as a killed process: nothing is committed behind it
"""


def client(settings: Settings) -> ClientSettings:
    return ClientSettings(brokers=settings.brokers, topic_prefix=settings.topic_prefix, home=settings.home)


async def put(settings: Settings, runs: range, chats: int = 12) -> set[str]:
    records = [make_record(f"chat {n % chats}", f"r{n}") for n in runs]
    rows = [(r["thread_id"].encode(), turn_record.encode(r)) for r in records]
    await publish(settings, TURNS, rows)
    return {r["run_id"] for r in records}


async def settled(look: Callable[[], bool]) -> None:
    async def looked() -> bool:
        return look()

    await until(looked)


async def heard(settings: Settings, group: str | None, count: int, **options: object) -> list[str]:
    """The first so many runs that a member hears."""
    found: list[str] = []
    async with asyncio.timeout(120):
        async with Turns(group, settings=client(settings), **options) as turns:
            async for turn in turns:
                found.append(turn.run_id)
                if len(found) == count:
                    break
    return found


async def test_what_a_killed_body_had_is_heard_again(applied_settings: Settings) -> None:
    runs = await put(applied_settings, range(20))
    environ = {
        **os.environ,
        "TURNMILL_BROKERS": applied_settings.brokers,
        "TURNMILL_TOPIC_PREFIX": applied_settings.topic_prefix,
    }
    command = [sys.executable, "-c", DIES]
    died = await asyncio.to_thread(subprocess.run, command, env=environ, capture_output=True, text=True, check=False)
    assert died.returncode == 9, died.stderr
    before = died.stdout.split()
    assert len(before) == 5

    seen: list[str] = []
    async with asyncio.timeout(120), Turns("g", settings=client(applied_settings)) as turns:
        async for turn in turns:
            seen.append(turn.run_id)
            if set(before[:4]) | set(seen) == runs and before[4] in seen:
                break
    assert before[4] in seen


async def test_a_body_that_raises_hears_exactly_its_turn_again(applied_settings: Settings) -> None:
    await put(applied_settings, range(4), chats=1)

    async def body() -> None:
        async with Turns("g", settings=client(applied_settings)) as turns:
            async for turn in turns:
                if turn.run_id == "r2":
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await body()
    assert await heard(applied_settings, "g", 2) == ["r2", "r3"]


async def test_members_that_come_and_go_hear_each_turn_once(applied_settings: Settings) -> None:
    runs = await put(applied_settings, range(300))
    seen: Counter[str] = Counter()
    by: dict[str, set[str]] = {"a": set(), "b": set()}

    async def member(name: str, turns: Turns) -> None:
        async for turn in turns:
            # A rebalance finds a body under way; and there is something left for the second member.
            await asyncio.sleep(0.02 if by["b"] else 0.1)
            seen[turn.run_id] += 1
            by[name].add(turn.run_id)

    a, b = (Turns("g", settings=client(applied_settings)) for _ in range(2))
    first = asyncio.create_task(member("a", a))
    await settled(lambda: len(by["a"]) > 20)
    second = asyncio.create_task(member("b", b))
    await settled(lambda: len(by["b"]) > 20)
    a.close()
    await first
    await settled(lambda: seen.keys() == runs)
    b.close()
    await second
    assert max(seen.values()) == 1  # each body came through in time, so that all was committed


async def test_where_a_group_begins(applied_settings: Settings) -> None:
    await put(applied_settings, range(3), chats=1)
    await asyncio.sleep(0.05)
    between = datetime.now(UTC)
    await put(applied_settings, range(3, 6), chats=1)
    assert await heard(applied_settings, "time", 3, start=between) == ["r3", "r4", "r5"]
    assert await heard(applied_settings, None, 6) == [f"r{n}" for n in range(6)]
    partition = (await _first(applied_settings)).partition
    assert await heard(applied_settings, None, 2, start={partition: 4}) == ["r4", "r5"]

    latest = asyncio.create_task(heard(applied_settings, "latest", 1, start="latest"))
    await asyncio.sleep(0)
    late = 6
    while not latest.done():  # it says nothing when it has its place
        await put(applied_settings, range(late, late + 1), chats=1)
        late += 1
        await asyncio.sleep(0.3)
    first = int((await latest)[0][1:])
    assert first >= 6
    # The beginning was decided once: "earliest" changes nothing now.
    await put(applied_settings, range(late, late + 1), chats=1)
    assert await heard(applied_settings, "latest", 1, start="earliest") == [f"r{first + 1}"]


async def _first(settings: Settings) -> Turn:
    async with Turns(None, settings=client(settings)) as turns:
        async for turn in turns:
            return turn
    raise AssertionError


async def test_a_loop_that_starts_before_its_broker(applied_settings: Settings) -> None:
    await put(applied_settings, range(1))
    [port] = free_ports(1)
    proxy = Proxy(port, target=int(applied_settings.brokers.rpartition(":")[2]), refuse=True)
    await proxy.start()
    try:
        away = applied_settings.model_copy(update={"brokers": f"127.0.0.1:{port}"})
        waiting = asyncio.create_task(heard(away, "g", 1))
        await asyncio.sleep(1.5)
        assert not waiting.done()
        proxy.refuse = False
        assert await waiting == ["r0"]
    finally:
        await proxy.stop()


async def test_a_missing_topic_is_said(settings: Settings) -> None:
    with pytest.raises(BrokerError, match="topics apply"):
        await heard(settings, "g", 1)


async def put_notice(settings: Settings) -> None:
    record = {"v": 1, "id": "n", "type": "thread.deleted", "at": 1, "thread_id": "t", "data": {"reason": "expired"}}
    await publish(settings, NOTICES, [(b"t", orjson.dumps(record))])


def examples() -> list[str]:
    return re.findall(r"^<!-- tested -->\n```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


async def put_all_kinds(settings: Settings) -> None:
    """A thread with a user's turn, a fact without a turn, an interrupted turn, and a complete one."""
    cut_off = {"reason": "timeout", "interrupted_at": "2026-01-20T10:00:03.000Z"}
    records = [
        make_record(run="asked", role="user"),
        {**make_record(run="named"), "turn": None},
        make_record(run="broken", seconds=2, status="interrupted"),
        make_record(run="whole", seconds=3),
    ]
    del records[2]["turn"]["completed_at"]
    records[2]["turn"] |= {"interruption": cut_off, "messages": []}
    await publish(settings, TURNS, [(r["thread_id"].encode(), turn_record.encode(r)) for r in records])


async def test_the_examples_of_the_page(applied_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    await put_all_kinds(applied_settings)
    monkeypatch.setenv("TURNMILL_BROKERS", applied_settings.brokers)
    monkeypatch.setenv("TURNMILL_TOPIC_PREFIX", applied_settings.topic_prefix)

    class Charged(Exception):
        """Ends an example whose loop has no end."""

    charged: list[object] = []

    def charge(tenant: str | None, agent_id: str, messages: list[object]) -> None:
        charged.append((tenant, agent_id, len(messages)))
        if messages:
            raise Charged

    def forget(*what: object) -> None:
        charged.append(what)
        raise Charged

    blocks = examples()
    assert len(blocks) == 5
    for number, block in enumerate(blocks):
        text = block.replace('agents=["weather"]', 'agents=["a1"]').replace('"billing"', f'"billing {number}"')
        scope: dict[str, object] = {"charge": charge, "forget": forget, "SyncTurns": SyncTurns}
        if "forget(" in block:
            await put_notice(applied_settings)
        if "(notice." in block or "charge(" in block:
            with pytest.raises(Charged):
                await asyncio.to_thread(exec, text, scope)
        else:
            exec(text, scope)
            turn = await _first(applied_settings)
            assert [scope["is_new"](turn), scope["is_new"](turn)] == [True, False]  # type: ignore[operator]
    assert charged == [(None, "a1", 0), (None, "a1", 1)] * 3 + [(None, "t", "expired")]
    assert issubclass(SyncTurns, SyncConsumed)

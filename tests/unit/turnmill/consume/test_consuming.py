"""What a loop over turns takes, what it leaves out, and what it refuses; without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.support.turn_records import make_record
from turnmill import ClientSettings, InvalidRecord, Notices, SyncTurns, Turns
from turnmill.consume import notice, turns
from turnmill.errors import BrokerError, CallerError
from turnmill.kafka import group_reader
from turnmill.kafka.group_reader import Received

SETTINGS = ClientSettings()


def kafka_record(value: bytes, offset: int = 7) -> Any:
    return SimpleNamespace(value=value, partition=3, offset=offset, timestamp=1_768_900_000_000)


def read(record: dict[str, Any], **options: Any) -> Any:
    return Turns("g", settings=SETTINGS, **options)._read(kafka_record(orjson.dumps(record)))


def test_a_turn_has_the_fields_of_its_record_and_its_place() -> None:
    record = make_record(tenant="acme", status="interrupted")
    found = read(record)
    for name in ("tenant", "thread_id", "run_id", "turn_id", "agent_id", "dialect", "status", "turn", "agents"):
        assert getattr(found, name) == record[name]
    assert (found.partition, found.offset) == (3, 7)
    assert found.heard_at == datetime.fromtimestamp(1_768_900_000, UTC)
    assert found.key == ("acme", record["thread_id"], record["turn_id"])
    assert read(record, raw=True) == record


def test_the_rank_says_which_record_of_a_turn_counts() -> None:
    ranks = [
        read(make_record(events=3, status="interrupted", revision=9)).rank,
        read(make_record(events=3, revision=0)).rank,
        read(make_record(events=3, revision=1)).rank,
        read(make_record(events=4, status="interrupted")).rank,
    ]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == 4


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 1),
        ({"tenants": ["acme"]}, 1),
        ({"tenants": [""]}, 0),
        ({"agents": ["a2"]}, 0),
        ({"agents": ["a1", "a2"], "statuses": ["complete"]}, 1),
        ({"statuses": ["interrupted"]}, 0),
    ],
)
def test_filters(options: dict[str, Any], count: int) -> None:
    assert [read(make_record(tenant="acme"), **options)].count(None) == 1 - count


def test_facts_come_only_where_they_are_wanted() -> None:
    facts = make_record() | {"turn": None}
    assert read(facts) is None
    assert read(facts, facts=True).turn is None


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"v": 2}', orjson.dumps(make_record() | {"status": None})])
def test_what_is_no_turn_record(value: bytes) -> None:
    with pytest.raises(InvalidRecord):
        turns.record_of(value)


@pytest.mark.parametrize("change", [{"v": 2}, {"id": ""}, {"type": 1}, {"at": "now"}, {"data": []}, {"tenant": 1}])
def test_what_is_no_notice(change: dict[str, Any]) -> None:
    record = {"v": 1, "id": "n", "type": "thread.deleted", "at": 1000, "thread_id": "t", "data": {}}
    assert notice.notice_of(orjson.dumps(record)).at == datetime.fromtimestamp(1, UTC)
    with pytest.raises(InvalidRecord):
        notice.notice_of(orjson.dumps(record | change))


def test_arguments_that_can_not_work() -> None:
    for group in ("turnmill-store", ""):
        with pytest.raises(CallerError, match="worker's own"):
            Turns(group, settings=SETTINGS)
    with pytest.raises(CallerError, match="at most 249 characters, not 40,000"):
        Turns("g" * 40_000, settings=SETTINGS)
    with pytest.raises(CallerError, match="time zone"):
        SyncTurns("g", settings=SETTINGS, start=datetime(2026, 1, 1))  # noqa: DTZ001  # that is what is refused
    with pytest.raises(CallerError, match="earliest"):
        Notices("g", settings=SETTINGS, start="first")  # type: ignore[arg-type]


class Scripted:
    """Stands in for a GroupReader: it hands out these values, and then nothing."""

    def __init__(self, *values: bytes) -> None:
        self.left = [
            Received(1, SimpleNamespace(topic="t", partition=0), kafka_record(v, n)) for n, v in enumerate(values)
        ]
        self.through: list[int] = []
        self.closed = 0

    def __call__(self, *_: Any) -> Scripted:
        return self

    async def open(self) -> None: ...

    async def poll(self) -> list[Received]:
        await asyncio.sleep(0.01)
        some, self.left = self.left, []
        return some

    def current(self, heard: Received) -> bool:
        return True

    def begun(self) -> None: ...

    def rested(self) -> None: ...

    def done(self, heard: Received) -> None:
        self.through.append(heard.record.offset)

    async def commit_if_due(self) -> None: ...

    async def close(self) -> None:
        self.closed += 1


GOOD = orjson.dumps(make_record())


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    reader = Scripted(GOOD, b"nonsense", GOOD, GOOD)
    monkeypatch.setattr(group_reader, "GroupReader", reader)
    return reader


async def test_a_body_that_raises_leaves_its_turn(scripted: Scripted) -> None:
    async def body() -> None:
        async with Turns("g", settings=SETTINGS) as turns:
            async for found in turns:
                if found.offset == 2:
                    raise BrokerError("the body's own")

    with pytest.raises(BrokerError):
        await body()
    assert scripted.through == [0, 1]  # what can't be read is done
    assert scripted.closed == 1


async def test_a_break_counts_only_where_the_block_says_that_all_is_well(scripted: Scripted) -> None:
    async with Turns("g", settings=SETTINGS) as turns:
        async for _ in turns:
            break
    assert (scripted.through, scripted.closed) == ([0], 1)
    with pytest.raises(CallerError, match="once"):
        aiter(turns)


async def test_a_bare_break_leaves_its_turn_and_ends_the_membership(scripted: Scripted) -> None:
    async for _ in Turns("g", settings=SETTINGS):
        break
    while not scripted.closed:
        await asyncio.sleep(0.01)
    assert scripted.through == []


async def test_close_ends_the_loop_behind_the_turn_at_hand(scripted: Scripted) -> None:
    turns = Turns("g", settings=SETTINGS)
    async for found in turns:
        if found.offset == 2:
            turns.close()
    assert (scripted.through, scripted.closed) == ([0, 1, 2], 1)


async def test_a_cancelled_loop_leaves_the_group(scripted: Scripted) -> None:
    async def forever() -> None:
        async for _ in Turns("g", settings=SETTINGS):
            pass

    task = asyncio.create_task(forever())
    while len(scripted.through) < 4:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scripted.closed == 1


async def test_what_can_not_be_read_is_raised_where_that_is_wanted(scripted: Scripted) -> None:
    with pytest.raises(InvalidRecord):
        async for _ in Turns("g", settings=SETTINGS, unreadable="raise"):
            pass
    assert scripted.through == [0]


def test_the_same_without_an_event_loop(scripted: Scripted) -> None:
    with SyncTurns("g", settings=SETTINGS) as turns:
        for found in turns:
            if found.offset == 2:
                break
    assert (scripted.through, scripted.closed) == ([0, 1, 2], 1)


def test_a_body_without_an_event_loop_that_raises(scripted: Scripted) -> None:
    def body() -> None:
        with SyncTurns("g", settings=SETTINGS) as turns:
            for _ in turns:
                raise BrokerError("the body's own")

    with pytest.raises(BrokerError):
        body()
    assert (scripted.through, scripted.closed) == ([], 1)

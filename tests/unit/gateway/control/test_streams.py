"""The streams of commands: none is left out, none is of another tenant or of a deleted thread."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pipeline.gateway.control.commands import new_command
from pipeline.gateway.control.streams import ERASED, CommandStreams
from pipeline.policies.pools import QUEUED
from topics.thread_key import ThreadKey
from turnmill.control.record import ANSWER, BUDGET, NOW, STEER, STOP, Command, command_of, record_of
from turnmill.remembered import size_of

THREAD: Final = "8e06a734-32f3-584c-a380-4e57c9b39f3f"
DELETED: Final = "0b8a4b4e-6c3b-5b8e-9d55-2f1f6c1f1d11"


async def erased(threads: Sequence[ThreadKey]) -> set[ThreadKey]:
    return {thread for thread in threads if thread.thread_id == DELETED}


def command(kind: str = STOP, thread: str = THREAD, tenant: str = "acme") -> Command:
    payload = {STEER: {"text": "hi"}, ANSWER: {"answer_id": "q", "value": True}}.get(kind)
    return new_command(kind, (thread, tenant), "r", NOW, "ann", payload)


async def heard(streams: CommandStreams, earlier: Sequence[Command] = (), tenant: str | None = "acme") -> list[Command]:
    """Return what a stream yields until it is silent or ends."""
    commands: list[Command] = []
    async for value in streams.opened(tenant, 0.01, earlier):
        if value is None:
            break
        decoded = command_of(record_of(value))
        assert decoded is not None
        commands.append(decoded)
    return commands


async def test_earlier_stops_come_before_answers() -> None:
    answers, stop = [command(ANSWER) for _ in range(2_000)], command()
    assert await heard(CommandStreams(erased), [*answers, stop, command(tenant="evil")]) == [stop, *answers]


async def test_others_have_their_turn_between_two_commands() -> None:
    turns, streams = 0, CommandStreams(erased)

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(other())
    assert len(await heard(streams, [command(ANSWER) for _ in range(2_000)])) == 2_000
    beside.cancel()
    assert turns >= 2_000


async def test_words_of_a_deleted_thread_are_not_sent() -> None:
    stop = command(STOP, DELETED)
    earlier = [command(STEER, DELETED), command(ANSWER, DELETED), stop]
    (told,) = await heard(CommandStreams(erased), earlier)
    assert (told.id, told.kind, told.by) == (stop.id, STOP, ERASED)
    for_budget = replace(stop, by=BUDGET)
    assert [command.by for command in await heard(CommandStreams(erased), [for_budget])] == [BUDGET]


async def test_a_stream_that_misses_a_command_ends() -> None:
    streams = CommandStreams(erased)
    values = streams.opened("acme", 5.0, [])
    first = asyncio.ensure_future(anext(values))
    await asyncio.sleep(0)
    stop = command()
    fitting = QUEUED.size // size_of(stop)
    for _ in range(fitting):
        streams.offer(stop)
    other = await asyncio.wait_for(anext(streams.opened("globex", 0.01, [])), 5), streams.has_room("globex")
    assert other == (None, True)
    assert await first is not None
    told = len([value async for value in values])
    assert fitting // 2 < told < fitting, "a share stays for others, and its reader returns for all that are open"


async def test_what_a_stream_that_ends_has_not_read_takes_no_room() -> None:
    streams, stop = CommandStreams(erased), command()
    for _ in range(3):
        values = streams.opened("acme", 5.0, [])
        first = asyncio.ensure_future(anext(values))
        await asyncio.sleep(0)
        for _ in range(QUEUED.size // size_of(stop) // 2):
            streams.offer(stop)
        assert await first is not None
        await values.aclose()
    assert len(await heard(streams, [command()])) == 1
    assert streams._queued.shares.total == 0

"""A stream of events: a reader that takes nothing is cut off and counted, and one that waits for events is not."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest
from starlette.types import Message

from pipeline.gateway.live import event_stream
from pipeline.gateway.live.event_stream import EventStream
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics

SCOPE = {"type": "http"}


async def never() -> Message:
    return await asyncio.get_running_loop().create_future()


async def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "SEND_TIMEOUT", 0.05)
    metrics = Metrics()

    async def frames() -> AsyncGenerator[bytes]:
        yield b": one\n\n"

    async def send(message: Message) -> None:
        if message.get("body"):
            await never()

    await EventStream(frames(), metrics)(SCOPE, never, send)
    assert metrics.registry.get_sample_value(m.LIVE_CUT.name) == 1


async def test_a_reader_that_waits_for_events_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "SEND_TIMEOUT", 0.02)
    metrics, sent = Metrics(), []

    async def frames() -> AsyncGenerator[bytes]:
        for number in range(3):
            await asyncio.sleep(0.05)
            yield b"%d" % number

    async def send(message: Message) -> None:
        sent.append(message.get("body"))

    with suppress(asyncio.CancelledError):
        await EventStream(frames(), metrics)(SCOPE, never, send)
    assert sent[1:] == [b"0", b"1", b"2", b""]
    assert not metrics.registry.get_sample_value(m.LIVE_CUT.name)

"""The end of tasks that take a cancellation for another one, as aiokafka's clients do while they stop."""

import asyncio
import time
from contextlib import suppress

import pytest

from turnmill import ending
from turnmill.ending import ended, stopped


async def deaf(times: int) -> None:
    """Goes on after so many cancellations."""
    for _ in range(times + 1):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def test_a_task_that_loses_a_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "CANCEL_INTERVAL", 0.01)
    task = asyncio.create_task(deaf(3))
    await asyncio.sleep(0)
    assert await ended(task)


async def test_nothing_is_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ending, "CANCEL_INTERVAL", 0.01)
    task = asyncio.create_task(deaf(1000), name="deaf")
    await asyncio.sleep(0)
    assert not await ended(task, 0.05)
    assert "deaf was cancelled" in caplog.text
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)


async def test_a_task_that_is_over_or_fails_is_no_failure_of_its_end() -> None:
    async def fails() -> None:
        raise LookupError

    task = asyncio.create_task(fails())
    await asyncio.sleep(0)
    assert await ended(task)
    with pytest.raises(LookupError):
        task.result()


async def test_a_cancellation_during_a_stop_reaches_the_caller() -> None:
    over = asyncio.Event()

    async def stop() -> None:
        await asyncio.sleep(0.01)
        over.set()

    async def caller() -> None:
        await stopped(stop())

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await over.wait()  # it is stopped all the same


async def test_a_client_that_does_not_stop_is_left() -> None:
    began = time.monotonic()
    hanging = asyncio.create_task(asyncio.Event().wait())
    await stopped(_none(hanging), 0.01)
    assert time.monotonic() - began < ending.END_TIMEOUT
    hanging.cancel()


async def _none(task: asyncio.Task[bool]) -> None:
    await task

"""A loop in a thread of its own: until it is stopped, or until its main coroutine returns."""

import asyncio
import threading

import pytest

from turnmill.loop_thread import LoopThread, run_apart


async def thread_name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def fails() -> None:
    raise ValueError("no")


def test_it_runs_coroutines_until_it_is_stopped() -> None:
    loop = LoopThread("apart")
    assert loop.wait_for(thread_name()) == "apart"
    with pytest.raises(ValueError, match="no"):
        loop.wait_for(fails())
    assert loop.is_alive()
    loop.stop()
    assert not loop.is_alive()
    loop.call_soon(lambda: None)  # does nothing now


def test_what_is_waited_for_in_vain_is_cancelled() -> None:
    loop, ended = LoopThread("apart"), threading.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        loop.wait_for(waits(), 0.01)
    assert ended.wait(10)
    loop.stop()


def test_it_ends_with_its_main_coroutine() -> None:
    ending = asyncio.Event()

    async def main() -> None:
        await ending.wait()

    loop = LoopThread("apart", main())
    assert loop.is_alive()
    loop.call_soon(ending.set)
    loop.join(10)
    assert not loop.is_alive()


def test_a_thread_that_can_not_start_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    main = asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="can't start"):
        LoopThread("apart", main)
    with pytest.raises(RuntimeError, match="cannot reuse"):
        main.send(None)


async def test_a_caller_in_a_loop_may_use_another_one() -> None:
    assert run_apart(thread_name()) != threading.current_thread().name

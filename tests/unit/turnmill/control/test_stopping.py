"""A run that is told to stop: its stream ends at once, also while nothing comes, and no other run hears of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from tests.support.spools import away, spooled
from turnmill import ClientSettings, PublishedRun, Publisher, RunStopped
from turnmill.clock import now_ms
from turnmill.control.receiver import Control
from turnmill.control.record import AFTER_TURN, EVENT, NOW, Command, command_of, record_of
from turnmill.control.stopping import Stopping
from turnmill.errors import InvalidRecord
from turnmill.publish.run import BLOCKED_SECONDS

START = {"type": "start"}
THREAD = "8e06a734-32f3-584c-a380-4e57c9b39f3f"


def command(run: str = "r", *, mode: str = NOW, **more: Any) -> Command:
    now = now_ms()
    given = {"id": "c1", "thread_id": THREAD, "tenant": None, "by": "ann", "at": now, "expires": now + 60_000, **more}
    return Command(run_id=run, kind="stop", mode=mode, **given)


async def forever() -> AsyncIterator[dict[str, str]]:
    yield START
    await asyncio.Event().wait()


async def published(home: Path, tell: Any) -> tuple[list[Any], list[dict[str, Any]], Any]:
    """A run whose stream stands still; `tell` is called when its first event was passed on."""
    settings = away(home)
    passed, raised = [], None
    async with Publisher(settings, keep_after=0.1) as publisher:
        run = publisher.run(thread_id="t", agent_id="a", dialect="vercel-ai", run_id="r")
        run.hear()
        try:
            async with run:
                async for event in run.tee(forever()):
                    passed.append(event)
                    asyncio.get_running_loop().call_later(0.01, tell, run, asyncio.current_task())
        except (RunStopped, asyncio.CancelledError) as error:
            raised = error
    return passed, spooled(settings), raised


async def test_a_silent_stream_ends_at_once(tmp_path: Path) -> None:
    passed, records, raised = await published(tmp_path, lambda run, _: run.stopped.tell(command()))
    assert passed == [START]
    assert isinstance(raised, RunStopped)
    assert (raised.command_id, raised.by) == ("c1", "ann")
    events = [event for record in records for event in record["events"]]
    assert events == [START, {"type": EVENT, "id": "c1", "state": "acknowledged", "by": "ann"}]
    assert [record.get("end") for record in records][-1] == "aborted"


async def test_a_stream_that_never_waits_leaves_the_loop_its_turn_and_is_closed(tmp_path: Path) -> None:
    closed: list[bool] = []

    class Endless:
        def __iter__(self) -> Iterator[Any]:
            return repeat(START)

        def close(self) -> None:
            closed.append(True)

    async with Publisher(away(tmp_path), keep_after=0.1) as publisher:
        run = publisher.run(thread_id="t", agent_id="a", dialect="vercel-ai", run_id="r")
        run.hear()
        asyncio.get_running_loop().call_later(0.01, run.stopped.tell, command())
        with pytest.raises(RunStopped):
            assert [event async for event in run.tee(Endless())] == []
    assert closed == [True]


async def test_a_stream_that_blocks_lets_the_loop_read_what_has_come_meanwhile(tmp_path: Path) -> None:
    """As many turns of the loop as a command takes from a broker's answer to its run."""

    def blocking() -> Iterator[Any]:
        while True:
            time.sleep(1.2 * BLOCKED_SECONDS)  # a synchronous SDK blocks the loop like this while it waits for a token
            yield START

    async def arrive(run: PublishedRun) -> None:
        for _ in range(8):
            await asyncio.sleep(0)
        run.stopped.tell(command())

    async with Publisher(away(tmp_path), keep_after=0.1) as publisher:
        run = publisher.run(thread_id="t", agent_id="a", dialect="vercel-ai", run_id="r")
        run.hear()
        passed_on = run.tee(blocking())
        assert await anext(passed_on) == START
        arriving = asyncio.create_task(arrive(run))
        with pytest.raises(RunStopped):
            await anext(passed_on)
        await arriving


@pytest.mark.parametrize("how", ["item", "end", "error"])
async def test_a_stream_that_swallows_its_cancellation_is_stopped_all_the_same(how: str) -> None:
    stopping = Stopping()

    async def swallows() -> AsyncIterator[int]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if how == "error":
                raise ConnectionError from None
            if how == "item":
                yield 1

    asyncio.get_running_loop().call_later(0.01, stopping.tell, command())
    with pytest.raises(RunStopped):
        assert [item async for item in stopping.each(swallows())] == []
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_another_cancellation_is_none_of_ours(tmp_path: Path) -> None:
    _, records, raised = await published(tmp_path, lambda _, task: task.cancel())
    assert isinstance(raised, asyncio.CancelledError)
    assert EVENT not in json.dumps(records)
    asyncio.current_task().uncancel()  # type: ignore[union-attr]


async def test_a_cancellation_beside_a_stop_goes_on(tmp_path: Path) -> None:
    def both(run: PublishedRun, task: Any) -> None:
        run.stopped.tell(command())
        task.cancel()

    _, _, raised = await published(tmp_path, both)
    assert isinstance(raised, asyncio.CancelledError)
    asyncio.current_task().uncancel()  # type: ignore[union-attr]


async def test_stopped_may_be_awaited_and_polled() -> None:
    stopping = Stopping()
    assert not stopping
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.sleep(0)
    first = command()
    stopping.tell(first)
    stopping.tell(command(id="c2"))
    assert stopping
    assert await waiting == await stopping == first


async def test_after_the_turn_the_stream_goes_on() -> None:
    stopping = Stopping()

    async def three() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    stopping.tell(command(mode=AFTER_TURN))
    assert [item async for item in stopping.each(three())] == [0, 1, 2]


def encoded(of: Command) -> bytes:
    names = ("id", "thread_id", "run_id", "tenant", "kind", "mode", "by", "at", "expires")
    record = {"v": 1, **{name: getattr(of, name) for name in names if getattr(of, name) is not None}}
    assert command_of(record_of(json.dumps(record).encode())) == of
    return json.dumps(record).encode()


class Run:
    """As far as `Control` looks at one."""

    def __init__(self, run_id: str, tenant: str | None = None) -> None:
        self.thread_id, self.run_id, self.tenant, self.stopped = THREAD, run_id, tenant, Stopping()
        self.parent: tuple[str | None, str] | None = None


async def told(runs: list[Any], *values: bytes, late: bool = False) -> list[bool]:
    control = Control(ClientSettings())
    control._task = asyncio.create_task(asyncio.sleep(0))
    for run in () if late else runs:
        control.begun(run)
    for value in values:
        control.heard(value)
    for run in runs if late else ():
        control.begun(run)
    return [bool(run.stopped) for run in runs]


@pytest.mark.parametrize("late", [False, True])
async def test_a_command_reaches_its_run_and_no_other(late: bool) -> None:  # noqa: FBT001  # a parameter of the test
    runs = [Run("r"), Run("r2"), Run("r", "acme")]
    assert await told(runs[:2], encoded(command("r")), late=late) == [True, False]
    assert await told(runs[2:], encoded(command("r")), late=late) == [False]
    assert await told([Run("r", "acme")], encoded(command("r", tenant="acme")), late=late) == [True]
    assert await told([Run("r")], encoded(command("r", expires=now_ms() - 1)), late=late) == [False]
    assert await told([Run("r")], b"rubbish", b"{}", late=late) == [False]


@pytest.mark.parametrize("late", [False, True])
async def test_a_program_whose_clock_is_ahead_is_stopped(late: bool) -> None:  # noqa: FBT001  # a parameter of the test
    given = now_ms() - 660_000
    assert await told([Run("r")], encoded(command("r", at=given, expires=given + 600_000)), late=late) == [True]


@pytest.mark.parametrize("change", [{"v": 2}, {"id": ""}, {"by": None}, {"at": "now"}, {"payload": []}, {"run_id": 7}])
def test_what_is_no_command_is_refused(change: dict[str, Any]) -> None:
    record = {**json.loads(encoded(command())), **change}
    with pytest.raises(InvalidRecord):
        record_of(json.dumps(record).encode())


async def test_an_error_of_the_programs_callback_is_raised_and_the_run_is_stopped_all_the_same() -> None:
    def fails(_: Command) -> None:
        raise LookupError("of the program")

    stopping = Stopping()
    stopping.then(fails)
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.sleep(0)
    with pytest.raises(LookupError):
        stopping.tell(command())
    assert (await waiting).by == "ann"
    with pytest.raises(LookupError):
        stopping.then(fails)

"""Building parked runs: nothing of one is lost where its records can't be kept, read or built, and no other waits."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pipeline.assembly import parked_runs
from pipeline.assembly.parked_runs import park
from pipeline.settings import Settings
from pipeline.worker import spilled_records as spilled_records_module
from pipeline.worker.assemble_work import AssembleWork
from tests.support.toy import Log, envelope, text
from tests.unit.worker.test_assemble_work import Producer, delivering, feed, letters_of, producer, work
from topics import turn_record

__all__ = ["producer", "work"]  # fixtures


@pytest.fixture
async def topic(work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A broker that takes all, and from which the state topic can be read."""

    async def on_the_topic(_: Settings, __: int, names: Collection[bytes]) -> AsyncIterator[tuple[bytes, bytes]]:
        for record, _delivery in list(producer.sent):
            if record.key in names and record.value is not None:
                yield record.key, record.value

    monkeypatch.setattr(spilled_records_module, "read_entries", on_the_topic)
    broker = asyncio.ensure_future(delivering(producer))
    yield
    broker.cancel()


async def parked(work: AssembleWork, *run_ids: str) -> Log:
    """The log of runs that were parked behind their first record, which is on the state topic."""
    log = Log()
    for run_id in run_ids:
        log.add(envelope(0, text(f"{run_id} begins"), run_id=run_id))
    await feed(work, log)
    core = work.held[0].core
    with _lightest(core, 0):
        park(core, 0)
    await work.tick(0, 0)
    assert await work.flush()
    assert core.counts.parked == 0
    assert {key.run_id for key in core.runs.spilled} == set(run_ids)
    return log


@contextmanager
def _lightest(core: Any, park_bytes: int) -> Iterator[None]:
    limits, core.limits = core.limits, replace(core.limits, park_bytes=park_bytes)
    yield
    core.limits = limits


def turns_of(producer: Producer) -> list[tuple[str, str, int]]:
    found = [turn_record.decode(r.value) for r, _ in producer.sent if r.topic.endswith("turns")]
    return [(turn["run_id"], turn["status"], turn["events"]) for turn in found]


@pytest.mark.usefixtures("topic")
async def test_a_full_disk_holds_the_floor_and_loses_nothing(
    work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await parked(work, "r")

    def full(**_: object) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(spilled_records_module, "TemporaryFile", full)
        log.add(envelope(1, text("b"), end="aborted"))
        log.add(envelope(2, text("c")))
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                await feed(work, log)
            assert work.floor(0) == 1
        assert "No space left" in (work.trouble or "")
    await feed(work, log)
    assert (turns_of(producer), work.trouble) == ([("r", "interrupted", 2)], None)
    assert (work.floor(0), work.held[0].core.runs.open.keys()) == (2, {(None, log.records[0].key.decode(), "r")})


@pytest.mark.usefixtures("topic")
async def test_what_waits_for_a_run_that_can_not_be_read_now_stays(
    work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await parked(work, "r")

    def broken(*_: object) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    log.add(envelope(1, text("b"), end="aborted"))
    log.add(envelope(2, text("c")))
    with monkeypatch.context() as patch:
        patch.setattr(parked_runs, "rebuild", broken)
        with pytest.raises(OSError, match="Input"):
            await feed(work, log)
        assert work.floor(0) == 1
    await feed(work, log)
    assert turns_of(producer) == [("r", "interrupted", 2)]
    assert work.floor(0) == 2


@pytest.mark.usefixtures("topic")
async def test_a_run_that_can_not_be_built_for_an_error_of_ours_is_given_up(
    work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await parked(work, "bad")

    def broken(*_: object) -> Any:
        raise RuntimeError("an error of ours")

    log.add(envelope(1, text("b"), run_id="bad", end="aborted"))
    log.add(envelope(2, text("c"), run_id="bad"))
    log.add(envelope(0, text("d"), run_id="good", end="complete"))
    with monkeypatch.context() as patch:
        patch.setattr(parked_runs, "rebuild", broken)
        await feed(work, log)
    assert [letter.value for letter in letters_of(producer)] == [record.value for record in log.records[:2]]
    assert turns_of(producer) == [("good", "complete", 1)]
    assert work.floor(0) == 2  # the third record opened a run


@pytest.mark.usefixtures("topic")
async def test_a_partition_that_goes_builds_no_more_runs(
    work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await parked(work, "r", "s")
    rebuild, begun = parked_runs.rebuild, []
    loop = asyncio.get_running_loop()

    def slow(*given: Any) -> Any:
        begun.append(given[0].run_id)
        asyncio.run_coroutine_threadsafe(work.interrupt(), loop).result()
        loop.call_soon_threadsafe(work.drop)
        return rebuild(*given)

    monkeypatch.setattr(parked_runs, "rebuild", slow)
    for run_id in ("r", "s"):
        log.add(envelope(1, text("b"), run_id=run_id, end="complete"))
    await feed(work, log)
    assert (begun, turns_of(producer)) == (["r"], [])


@pytest.mark.usefixtures("topic")
async def test_a_segment_of_a_newer_version_is_passed_over(work: AssembleWork, producer: Producer) -> None:
    log = await parked(work, "r")
    for place, (record, delivery) in enumerate(producer.sent):
        if record.topic.endswith("state"):
            newer = replace(record, value=(record.value or b"").replace(b'"v":1', b'"v":2', 1))
            producer.sent.insert(place, (newer, delivery))
            break
    log.add(envelope(1, text("b"), end="complete"))
    await feed(work, log)
    assert turns_of(producer) == [("r", "complete", 2)]

"""Building parked runs: nothing of one is lost where its records can't be kept, read or built, and no other waits."""

import asyncio
import errno
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field, replace
from threading import get_ident
from typing import Any

import pytest

from pipeline.assembly import finishing as finishing_module
from pipeline.assembly import parked_runs
from pipeline.assembly.parked_runs import park
from pipeline.settings import Settings
from pipeline.worker.assemble import checkpoint as checkpoint_module
from pipeline.worker.assemble import outgoing_results
from pipeline.worker.assemble import state_reads as state_reads_module
from pipeline.worker.assemble.checkpoint import AssembleWork
from tests.support.toy import Log, envelope, text
from tests.unit.worker.assemble.test_checkpoint import Producer, delivering, feed, letters_of, producer, work
from topics import turn_record

__all__ = ["producer", "work"]  # fixtures


@dataclass
class Topic:
    """The state topic; `reads`: how many keys each reader wanted. A read ends when `answers` is set."""

    reads: list[int] = field(default_factory=list)
    answers: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
async def topic(work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Topic]:
    """A broker that takes all, and from which the state topic can be read."""
    made = Topic()
    made.answers.set()

    async def on_the_topic(_: Settings, __: int, names: Collection[bytes]) -> AsyncIterator[tuple[bytes, bytes]]:
        made.reads.append(len(names))
        await made.answers.wait()
        for record, _delivery in list(producer.sent):
            if record.key in names and record.value is not None:
                yield record.key, record.value

    monkeypatch.setattr(state_reads_module, "read_entries", on_the_topic)
    broker = asyncio.ensure_future(delivering(producer))
    yield made
    broker.cancel()


async def parked(work: AssembleWork, *run_ids: str) -> Log:
    """The log of runs that were parked behind their first record, which is on the state topic."""
    log = Log()
    for run_id in run_ids:
        log.add(envelope(0, text(f"{run_id} begins"), run_id=run_id))
    await feed(work, log)
    core = work.held[0].core
    park(core, 0)
    await work.tick(0, 0)
    assert await work.flush()
    assert core.counts.parked == 0
    assert {key.run_id for key in core.runs.spilled} == set(run_ids)
    return log


async def finish(work: AssembleWork) -> None:
    """Let the clock tick until all parked runs that are over are built."""
    while work.held and (work.reading is not None or work.held[0].due):
        await work.tick(0, 0)
        await asyncio.sleep(0)


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
        patch.setattr(state_reads_module, "TemporaryFile", full)
        log.add(envelope(1, text("b"), end="aborted"))
        log.add(envelope(2, text("c")))
        for _ in range(2):
            await feed(work, log)
            with pytest.raises(OSError, match="No space"):
                await finish(work)
            assert work.floor(0) == 1
        assert "No space left" in (work.trouble or "")
    await finish(work)
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
        await feed(work, log)
        with pytest.raises(OSError, match="Input"):
            await finish(work)
        assert work.floor(0) == 1
    await finish(work)
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
        await finish(work)
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
    await finish(work)
    assert (begun, turns_of(producer)) == (["r"], [])


@pytest.mark.usefixtures("topic")
async def test_a_segment_of_a_newer_version_is_passed_over(work: AssembleWork, producer: Producer) -> None:
    log = await parked(work, "r")
    for place, (record, delivery) in enumerate(producer.sent):
        if record.topic.endswith("state"):
            newer = record._replace(value=(record.value or b"").replace(b'"v":1', b'"v":2', 1))
            producer.sent.insert(place, (newer, delivery))
            break
    log.add(envelope(1, text("b"), end="complete"))
    await feed(work, log)
    await finish(work)
    assert turns_of(producer) == [("r", "complete", 2)]


async def test_one_read_serves_all_runs_that_wait_for_one(work: AssembleWork, producer: Producer, topic: Topic) -> None:
    names = [f"r{number}" for number in range(50)]
    log = await parked(work, *names)
    for run_id in names:
        log.add(envelope(1, text("b"), run_id=run_id, end="complete"))
    await feed(work, log)
    await finish(work)
    assert topic.reads == [100]  # two segments of each
    assert turns_of(producer) == [(run_id, "complete", 2) for run_id in names]
    assert work.floor(0) == 100


async def test_others_go_on_while_a_run_is_read_and_what_is_over_meanwhile_shares_the_next_read(
    work: AssembleWork, producer: Producer, topic: Topic
) -> None:
    log = await parked(work, "r", "s", "t")
    topic.answers.clear()
    log.add(envelope(1, text("b"), run_id="r", end="complete"))
    await feed(work, log)
    await work.tick(0, 0)
    for run_id in ("s", "t"):
        log.add(envelope(1, text("b"), run_id=run_id, end="complete"))
    log.add(envelope(0, text("a"), run_id="other", end="complete"))
    await feed(work, log)
    await work.tick(0, 0)
    while not topic.reads:
        await asyncio.sleep(0)
    assert (turns_of(producer), work.floor(0)) == ([("other", "complete", 1)], 3)
    topic.answers.set()
    await finish(work)
    assert topic.reads == [2, 4]
    assert [run_id for run_id, *_ in turns_of(producer)] == ["other", "r", "s", "t"]
    assert work.floor(0) == 7


async def test_one_read_takes_as_many_bytes_as_one_run_may_have(
    work: AssembleWork, producer: Producer, topic: Topic
) -> None:
    log = await parked(work, "r", "s", "t")
    size = len(log.records[0].value or b"")
    work.limits = replace(work.limits, run_bytes=5 * size)  # records of two runs, more or less
    for run_id in ("r", "s", "t"):
        log.add(envelope(1, text("b"), run_id=run_id, end="complete"))
    await feed(work, log)  # it waits until no more is due than one read takes
    assert topic.reads == [4]
    await finish(work)
    assert topic.reads == [4, 2]
    assert len(turns_of(producer)) == 3


async def test_where_the_disk_was_full_one_run_is_read_alone(
    work: AssembleWork, topic: Topic, producer: Producer
) -> None:
    log = await parked(work, "r", "s")
    work.no_room = "it was full"
    for run_id in ("r", "s"):
        log.add(envelope(1, text("b"), run_id=run_id, end="complete"))
    await feed(work, log)
    await finish(work)
    assert (topic.reads, len(turns_of(producer)), work.trouble) == ([2, 2], 2, None)


@pytest.mark.usefixtures("topic")
async def test_what_waits_for_runs_that_are_over_is_bounded(
    work: AssembleWork, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "UNCONFIRMED_BYTES", 1000)
    log = await parked(work, "r")
    log.add(envelope(1, text("b"), end="aborted"))
    log.add(envelope(2, text("c")))
    await feed(work, log)
    assert turns_of(producer) == []
    log.add(envelope(3, text("d" * 1000)))
    await feed(work, log)
    assert turns_of(producer) == [("r", "interrupted", 2)]
    assert work.held[0].core.ends.awaited_bytes == 0


@pytest.mark.usefixtures("topic")
async def test_the_floor_waits_for_what_came_for_a_run_that_was_built_before_another(
    work: AssembleWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one may be due since an offset behind that of a record that has opened the first one again."""
    log = await parked(work, "r", "s")
    log.add(envelope(1, text("b"), run_id="r", end="aborted"))
    log.add(envelope(2, text("c"), run_id="r"))
    await feed(work, log)
    log.add(envelope(1, text("b"), run_id="s", end="complete"))
    await feed(work, log)
    rebuild, floors = parked_runs.rebuild, []

    def watched(*given: Any) -> Any:
        floors.append(work.floor(0))
        return rebuild(*given)

    monkeypatch.setattr(parked_runs, "rebuild", watched)
    await finish(work)
    assert (floors, work.floor(0)) == ([2, 3], 3)


async def test_a_run_that_was_read_is_not_read_again_to_be_cut_off(
    work: AssembleWork, producer: Producer, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing_results, "MAX_REQUEST_BYTES", 5000)
    monkeypatch.setattr(finishing_module, "LARGE_RUN_BYTES", 1000)
    log = await parked(work, "r")
    log.add(envelope(1, text("x" * 9000), end="complete"))
    await feed(work, log)
    await finish(work)
    assert (topic.reads, turns_of(producer)) == ([2], [("r", "interrupted", 1)])
    assert [letter.value for letter in letters_of(producer)] == [log.records[1].value]


async def test_runs_are_parked_in_a_thread_of_their_own(work: AssembleWork, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart may have found runs of many megabytes, of which outlines are made."""
    threads = []
    monkeypatch.setattr(parked_runs, "park", lambda *_: threads.append(get_ident()))
    work.settings = replace(work.settings, assembly_bytes=0)
    log = Log()
    log.add(envelope(0, text("a")))
    await feed(work, log)
    await work.tick(0, 0)
    assert len(threads) == 1
    assert get_ident() not in threads

"""Runs of frameworks: `send` and `end` neither wait nor raise, and a run that lacks events does not end as complete."""

import logging
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pipeline.settings import Settings
from tests.support.spools import away, spooled
from turnmill.capture import runs as module
from turnmill.capture.runs import Runs
from turnmill.errors import BrokerError
from turnmill.publish.publisher import Publisher
from turnmill.publish.run import PublishedRun

RUN = {"thread_id": "t", "agent_id": "a", "dialect": "openai-agents", "tenant": "acme"}
EVENT = {"type": "agent_updated_stream_event", "new_agent": {"name": "weather"}}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.0)
    return away(tmp_path)


def ends(settings: Settings) -> dict[str, tuple[int, str | None]]:
    """run_id -> (how many events, how it ended)."""
    found: dict[str, tuple[int, str | None]] = {}
    for record in spooled(settings):
        assert record["tenant"] == "acme"
        events, _ = found.get(record["run_id"], (0, None))
        found[record["run_id"]] = (events + len(record["events"]), record.get("end"))
    return found


async def test_from_any_thread(settings: Settings) -> None:
    def spoken(runs: Runs, name: str) -> None:
        run = runs.begin(**RUN, run_id=name)
        for _ in range(100):
            run.send(EVENT)
        run.end()
        run.send(EVENT)
        run.end("error")

    async with Publisher(settings) as publisher, Runs(publisher) as runs:
        threads = [Thread(target=spoken, args=(runs, f"run-{n}")) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        runs.begin(**RUN, run_id="open").send(EVENT)
    assert ends(settings) == {**{f"run-{n}": (100, "complete") for n in range(4)}, "open": (1, "aborted")}


async def test_what_is_queued_is_with_the_publisher_when_it_is_read(settings: Settings) -> None:
    async with Publisher(settings) as publisher, Runs(publisher) as runs:
        await runs.read()
        runs.begin(**RUN, run_id="run").send(EVENT)
        await runs.read()
        assert publisher.report().sent == 0, "it waits for the next ones"
        await publisher.kept(10)
        report = publisher.report()
        assert (report.sent, report.spooled) == (1, 1)


async def test_without_a_broker_nothing_waits_to_be_on_disk(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may be killed at once, as workers of job queues are behind their task."""
    monkeypatch.setattr("turnmill.publish.spooling.SPOOL_AFTER", 3600.0)
    async with Publisher(settings) as publisher:
        for number in range(3):
            await publisher.run(**RUN, run_id=f"run-{number}").end()
            await publisher.kept(20)
        report = publisher.report()
        assert (report.waiting, report.spooled) == (0, 3)


async def test_what_was_begun_before_waits(settings: Settings) -> None:
    publisher = Publisher(settings)
    runs = Runs(publisher)
    run = runs.begin(**RUN, run_id="early")
    run.send(EVENT)
    run.end("error")
    async with publisher, runs:
        pass
    assert ends(settings) == {"early": (1, "error")}


async def test_what_can_not_travel_or_has_no_room_is_left_out(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """And the run is not shown as complete."""

    class Odd:
        type = "run_item_stream_event"

    caplog.set_level(logging.WARNING, module.log.name)
    async with Publisher(settings) as publisher:
        runs = Runs(publisher, queue_bytes=3_000)
        odd = runs.begin(**RUN, run_id="odd")
        odd.send(Odd())
        odd.end()
        full = runs.begin(**RUN, run_id="full")
        full.send({**EVENT, "more": "x" * 3_000})
        full.send({**EVENT, "more": "x" * 3_000})
        full.end()
        async with runs:
            pass
    assert ends(settings) == {"odd": (0, "error"), "full": (0, "error")}
    assert caplog.text.count("does not keep up") == 1
    assert caplog.text.count("an event was not published") == 1


async def test_what_publishing_refuses_is_logged(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """A run that can't be, each kind of failure once; an event that is too large, whose run is not complete then."""
    caplog.set_level(logging.WARNING, module.log.name)
    async with Publisher(settings) as publisher, Runs(publisher) as runs:
        for _ in range(2):
            wrong: dict[str, Any] = {**RUN, "agent_id": ""}
            run = runs.begin(**wrong)
            run.send(EVENT)
            run.end()
        large = runs.begin(**RUN, run_id="large")
        large.send({**EVENT, "more": "x" * 1_000_000})
        large.send(EVENT)
        large.end()
    assert ends(settings) == {"large": (1, "error")}
    assert caplog.text.count("agent_id must be a string") == 1
    assert caplog.text.count("run large: an event was not published") == 1


async def test_nothing_is_taken_where_there_is_no_loop(settings: Settings) -> None:
    runs = Runs(Publisher(settings))
    runs.shut()
    run = runs.begin(**RUN)
    assert run.ended
    run.send(EVENT)
    run.end()


async def test_open_runs_end_with_the_program_though_one_can_not(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    end = PublishedRun.end

    async def fails(run: PublishedRun, how: str = "complete", *, at: int | None = None) -> None:
        if run.run_id == "first":
            raise BrokerError("nothing is taken")
        await end(run, how, at=at)

    monkeypatch.setattr(PublishedRun, "end", fails)
    async with Publisher(settings) as publisher, Runs(publisher) as runs:
        for name in ("first", "second"):
            runs.begin(**RUN, run_id=name).send(EVENT)
    assert ends(settings)["second"] == (1, "aborted")
    assert caplog.text.count("the end of a run is not published") == 1

"""The publisher without an event loop: plain iterators, in the caller's own thread."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.settings import Settings
from tests.support.spools import away, spooled
from tests.support.waiting import PATIENCE
from turnmill.errors import BrokerError, CallerError, InvalidRecord
from turnmill.publish.synchronous import SyncPublisher

RUN = {"thread_id": "t", "agent_id": "a", "dialect": "vercel-ai"}
EVENTS = [{"type": "text-delta", "id": "t", "delta": str(n)} for n in range(5)]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.0)
    return away(tmp_path)


def published(settings: Settings) -> dict[str, tuple[list[Any], str | None]]:
    """run_id -> (its events, how it ended)."""
    runs: dict[str, tuple[list[Any], str | None]] = {}
    for record in spooled(settings):
        events, _ = runs.get(record["run_id"], ([], None))
        runs[record["run_id"]] = (events + record["events"], record.get("end"))
    return runs


def test_send_and_tee(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmill.publish.publisher.LINGER", PATIENCE)  # so that each run is one record, however slow
    threads = set()

    def slow() -> Iterator[dict[str, Any]]:
        threads.add(threading.current_thread())
        yield from EVENTS

    stream = b"".join(b'data: {"type":"text-delta","id":"t","delta":"%d"}\n\n' % n for n in range(5))
    with SyncPublisher(settings) as publisher:
        with publisher.run(**RUN, run_id="sent") as run:
            for event in EVENTS:
                run.send(event)
            with pytest.raises(InvalidRecord):
                run.send({"type": object()})
        with publisher.run(**RUN, run_id="teed") as run:
            assert list(run.tee(slow())) == EVENTS
        with publisher.run(**RUN, run_id="bytes") as run:
            assert list(run.tee_bytes([stream[:70], stream[70:]])) == [stream[:70], stream[70:]]
        with publisher.run(**RUN, run_id="left") as run:
            next(iter(run.tee(EVENTS)))
        with publisher.run(**RUN, run_id="said") as run:
            run.send_bytes(stream)
            run.end("disconnected")

        def broken() -> Iterator[dict[str, Any]]:
            yield EVENTS[0]
            raise ValueError("model")

        with pytest.raises(ValueError, match="model"), publisher.run(**RUN, run_id="failed") as run:
            list(run.tee(broken()))
        assert (publisher.report().sent, publisher.report().confirmed) == (6, 0)
        with pytest.raises(BrokerError, match="did not confirm all records within 0 s"):
            publisher.flush(0.0)
    assert threads == {threading.current_thread()}
    assert published(settings) == {
        "sent": (EVENTS, "complete"),
        "teed": (EVENTS, "complete"),
        "bytes": (EVENTS, "complete"),
        "left": (EVENTS[:1], "aborted"),
        "said": (EVENTS, "disconnected"),
        "failed": (EVENTS[:1], "error"),
    }


def test_a_publisher_that_is_used_again_begins_anew(settings: Settings) -> None:
    publisher = SyncPublisher(settings)
    for adopted in (0, 1):
        with publisher, publisher.run(**RUN) as run:
            run.send(EVENTS[0])
        report = publisher.report()
        assert (report.sent, report.adopted, report.spooled, report.waiting) == (1, adopted, 1 + adopted, 0)


def test_many_threads_share_one_publisher(settings: Settings) -> None:
    with SyncPublisher(settings) as publisher:

        def work(number: int) -> None:
            with publisher.run(**RUN, run_id=str(number)) as run:
                for event in EVENTS:
                    run.send(event)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert published(settings) == {str(number): (EVENTS, "complete") for number in range(8)}


def test_errors_are_those_of_the_publisher(settings: Settings) -> None:
    publisher = SyncPublisher(settings)
    with pytest.raises(CallerError, match="the publisher is closed"):
        publisher.run(**RUN)
    with pytest.raises(BrokerError, match="no Kafka broker answers"), SyncPublisher(settings, spool=False):
        pass
    with publisher, pytest.raises(CallerError, match="choose one of"):
        publisher.run(**RUN | {"dialect": "smoke"})
    assert [thread.name for thread in threading.enumerate() if "turnmill" in thread.name] == []

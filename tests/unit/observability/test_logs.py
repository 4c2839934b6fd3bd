"""Log lines that an operator can read while the broker is away."""

import json
import logging
from collections.abc import Iterator

import pytest

from pipeline.observability import logs
from pipeline.observability.audit import audit
from turnmill.kafka import client_log
from turnmill.pools import LOGGED
from turnmill.wire.traceparent import log_ids


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in logs.QUIET}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def test_a_client_library_repeats_itself_rarely(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(client_log.time, "monotonic", lambda: now)
    logs.set_up("INFO", "text")
    library, ours = logging.getLogger("aiokafka"), logging.getLogger("pipeline.worker.host.commits")
    for n in range(50):
        library.error("Unable connect to node with id %s", 1)
        library.error("Failed fetch messages from %s: NodeNotReadyError", 1)
        library.error("Topic %s not authorized", "t")
        ours.warning("dead letter %d", n)
    now += client_log.REPEAT_AFTER
    library.error("Unable connect to node with id %s", 2)
    lines = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert [line for line in lines if not line.startswith("dead letter")] == [
        "Unable connect to node with id 1",
        "Topic t not authorized",
        "Unable connect to node with id 2 (99 more like this since the last line)",
    ]
    assert len(lines) == 53


def test_each_part_of_an_outage_is_told_once_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(client_log.time, "monotonic", lambda: now)
    logs.set_up("INFO", "text")
    ours = logging.getLogger("pipeline.worker.sinks.housekeeping")
    for _ in range(180):  # three minutes
        for part in ("sums", "costs"):
            ours.warning("%s wait: %s", part, "the store is away")
        ours.info("a step")
        audit.warning("a thread is erased")
        now += 1
    lines = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    told = [line for line in lines if "wait" in line]
    again = " (59 more like this since the last line)"
    parts = "sums", "costs"
    assert told == [f"{part} wait: the store is away{more}" for more in ("", again, again) for part in parts]
    assert (lines.count("a step"), lines.count("a thread is erased")) == (180, 180)


def test_lines_that_differ_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(client_log.time, "monotonic", lambda: now)
    chatter = client_log.Chatter()
    for n in range(10_000):
        assert chatter.filter(logging.LogRecord("pipeline", logging.WARNING, "", 1, "line %d", (n,), None))
        now += 0.1
    assert chatter._lines.shares.total <= LOGGED.size
    assert 1_000 < len(chatter._lines) < 10_000


def test_json_lines_hold_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("INFO", "json")
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("pipeline").exception("it failed: %s", 5)
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["logger"], line["message"]) == ("ERROR", "pipeline", "it failed: 5")
    assert "ValueError: no" in line["error"]


def test_json_lines_name_the_run_as_far_as_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("INFO", "json")
    log = logging.getLogger("pipeline")
    span = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    log.warning("one", extra=log_ids("t", "r\u2028", span))
    log.warning("two \ud800", extra=log_ids(None, 7, "no span"))
    one, two = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert {name: one[name] for name in logs.IDS} == {
        "thread_id": "t",
        "run_id": "r\u2028",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    }
    assert not set(logs.IDS) & set(two)
    assert two["message"] == "two \ud800"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_process_of_several_is_named(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("INFO", log_format, "store")
    logging.getLogger("pipeline.x").info("begun")
    line = capsys.readouterr().err
    assert (
        "INFO    [store] pipeline.x: begun" in line if log_format == "text" else json.loads(line)["process"] == "store"
    )


def test_what_is_normal_at_a_start_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("INFO", "text")
    ours, group = (
        logging.getLogger("pipeline.worker.host.consumer_thread"),
        logging.getLogger("aiokafka.consumer.group_coordinator"),
    )
    ours.info("[^--BatchThread]: Starting...")
    ours.error("[^--BatchThread]: Crashed reason=%r", "x")
    ours.info("read %s again", "[^x]")
    group.error("Group Coordinator Request failed: %s", "[Error 15] GroupCoordinatorNotAvailableError")
    group.error("Group Coordinator Request failed: %s", "[Error 30] GroupAuthorizationFailedError")
    lines = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "[^--BatchThread]: Crashed reason='x'",
        "read [^x] again",
        "Group Coordinator Request failed: [Error 30] GroupAuthorizationFailedError",
    ]

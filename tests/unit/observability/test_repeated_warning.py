"""A warning that comes for each record is logged now and then."""

import logging

import pytest

from pipeline.observability.logs import INTERVAL, RepeatedWarning


def test_each_kind_is_logged_at_once_and_then_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1000.0
    monkeypatch.setattr("pipeline.observability.logs.time.monotonic", lambda: now)
    warn = RepeatedWarning(logging.getLogger("test"))
    for number in range(50):
        warn("a", "a %d", number)
        warn("b", "b %d", number)
    now += INTERVAL / 2
    warn("a", "a %d", 50)
    now += INTERVAL / 2
    warn("a", "a %d", 51)
    now += INTERVAL
    warn("a", "a %d", 52)
    assert [record.getMessage() for record in caplog.records] == [
        "a 0",
        "b 0",
        "a 51 (50 more like this since the last line)",
        "a 52",
    ]


def test_some_of_each_kind_and_how_many_more(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    now = 1000.0
    monkeypatch.setattr("pipeline.observability.logs.time.monotonic", lambda: now)
    warn = RepeatedWarning(logging.getLogger("test"), 2)
    for number in range(5):
        warn("a", "a %d", number, extra=lambda number=number: {"thread_id": f"t{number}"})  # type: ignore[misc]  # a loop's
    now += INTERVAL
    warn("a", "a %d", 5)
    assert [record.getMessage() for record in caplog.records] == [
        "a 0",
        "a 1",
        "a 5 (3 more like this since the last line)",
    ]
    assert [getattr(record, "thread_id", None) for record in caplog.records] == ["t0", "t1", None]

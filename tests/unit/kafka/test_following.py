"""What reads topics comes back after each failure, and says why it stood still."""

import asyncio
import logging

import pytest

from pipeline.kafka.reading import follow_on
from turnmill.errors import BrokerError

log = logging.getLogger("test.following")


async def test_it_begins_again_whatever_it_was(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = [BrokerError("the broker is away"), None, KeyError("x"), BrokerError(""), asyncio.CancelledError()]
    stops: list[str | None] = []

    async def follow() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    with pytest.raises(asyncio.CancelledError):
        await follow_on(follow, stops.append, pause=0, log=log, meanwhile="nothing is read")
    assert stops == ["the broker is away", None, "KeyError('x')", "BrokerError('')"]
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "nothing is read: the broker is away"),
        ("ERROR", "nothing is read"),
        ("WARNING", "nothing is read: BrokerError('')"),
    ]

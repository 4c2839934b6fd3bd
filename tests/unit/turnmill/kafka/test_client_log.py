"""Lines of aiokafka: left out where our clients are at work, and nowhere else."""

import asyncio
import logging

import pytest

from turnmill.kafka.client_log import below_warning, client_log

log = logging.getLogger("aiokafka")


async def test_by_context_and_not_by_logger(caplog: pytest.LogCaptureFixture) -> None:
    others = asyncio.Event()

    async def another_client() -> None:
        await others.wait()
        log.error("of another client")

    async def background() -> None:
        await asyncio.sleep(0)
        log.error("of our client's task")

    waiting = asyncio.create_task(another_client())
    with caplog.at_level(logging.DEBUG, logger="aiokafka"):
        with client_log(below_warning):
            ours = asyncio.create_task(background())
            log.error("while we connect")
            log.debug("what is sent")
            others.set()
            await waiting
        await ours
        log.error("after it")
    assert [record.getMessage() for record in caplog.records] == ["what is sent", "of another client", "after it"]

"""The end of a consumer's thread: what aiokafka's fetcher has under way does not end it too soon."""

import asyncio
from types import SimpleNamespace
from typing import Any

from aiokafka.consumer.fetcher import Fetcher

from pipeline.worker.host.consumer_thread import end_fetches


async def test_a_fetch_that_waits_to_try_again_does_not_stand_in_the_way_of_closing() -> None:
    waiting, fetching = (asyncio.create_task(asyncio.sleep(60)) for _ in range(2))
    fetcher: Any = SimpleNamespace(
        _closed=False, _fetch_task=fetching, _pending_tasks={waiting}, _fetch_waiters=set(), _notify=print
    )
    await asyncio.sleep(0)
    await end_fetches(fetcher)
    assert waiting.cancelled()
    assert fetching.cancelled()
    await Fetcher.close(fetcher)

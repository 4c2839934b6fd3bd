"""What is overridden in Faust's consumer, without a broker."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from faust.types import TP

from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.worker.host.batch_consumer import BatchConsumer
from pipeline.worker.host.roles import ROLES
from pipeline.worker.host.worker import build_app


async def test_what_is_read_again_is_not_dropped_for_having_been_read(tmp_path: Path) -> None:
    """A batch of before the seek is still on its way when the first one of after it comes."""
    app = build_app(Settings(home=tmp_path), ROLES["store"], Metrics(10))
    came: list[int] = []

    async def callback(message: Any) -> None:
        came.append(message.offset)

    async def nothing(*_: Any) -> None:
        pass

    consumer = BatchConsumer(app.transport, callback, nothing, nothing)
    stopped = asyncio.Event()

    async def getmany(timeout: float) -> AsyncIterator[tuple[TP, Any]]:  # noqa: ASYNC109  # as in Faust
        for last in (30, 9, 20, 30):
            yield TP("turns", 0), SimpleNamespace(offset=last, topic="turns", key=None, value=[])
        stopped.set()

    consumer.getmany = getmany  # type: ignore[method-assign]  # instead of Kafka
    await consumer._drain_messages(SimpleNamespace(_stopped=stopped))
    assert came == [30, 9, 20, 30]

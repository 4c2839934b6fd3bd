"""How long a worker stands still while the members of its group change."""

import asyncio
from typing import Any, cast

import pytest

from tests.bench import scale
from tests.bench.worker import Worker
from turnmill.errors import BrokerError


class Standing:
    """A worker that stands still for `pause` seconds after it was told to, and counts the rebalance at its end."""

    def __init__(self) -> None:
        self.rebalances = 3.0
        self.still = False

    async def ready(self) -> bool:
        await asyncio.sleep(0)
        return not self.still

    async def metric(self, name: str) -> float:
        assert name == "turnmill_rebalances_total"
        return self.rebalances

    async def rebalance(self, pause: float) -> None:
        self.still = True
        await asyncio.sleep(pause)
        self.rebalances += 1
        self.still = False


async def paused(worker: Standing, work: Any) -> float:
    async with scale._pause(cast("Worker", worker)) as found:
        await work
    return sum(found)


async def test_the_pause_lasts_until_partitions_are_assigned_anew() -> None:
    worker = Standing()
    assert await paused(worker, worker.rebalance(0.25)) > 0


async def test_a_rebalance_that_comes_after_the_block_counts() -> None:
    worker = Standing()

    async def later() -> None:
        tasks.append(asyncio.ensure_future(worker.rebalance(0.25)))

    tasks: list[asyncio.Future[None]] = []
    assert await paused(worker, later()) > 0


async def test_a_group_that_does_not_change_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "SETTLED_WITHIN", 0.1)
    with pytest.raises(BrokerError, match="the group had come to rest"):
        await paused(Standing(), asyncio.sleep(0))

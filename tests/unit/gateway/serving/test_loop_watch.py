"""How long the event loop was held."""

import time

from pipeline.gateway.serving.status import MIN_BLOCK, LoopWatch
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from tests.support.waiting import until


async def test_a_hold_is_observed() -> None:
    metrics = Metrics()
    watch = LoopWatch(metrics)
    watch.start()
    time.sleep(0.3)  # noqa: ASYNC251  # as a body does that is read in the loop

    async def observed() -> bool:
        return bool(metrics.registry.get_sample_value(f"{m.LOOP_HELD.name}_count"))

    await until(observed)
    await watch.close()
    longest = metrics.registry.get_sample_value(f"{m.LOOP_HELD.name}_sum")
    assert longest is not None
    assert longest > 0.2 > MIN_BLOCK

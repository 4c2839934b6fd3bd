"""Before a worker's own code: the clock that its broker stamps records with is as far off as a variable says, in ms.

Its own clock is, too, as `tests/chaos/clock` says, which this loads.
"""

import os
import runpy
from typing import Any

from aiokafka.producer.message_accumulator import MessageBatch

runpy.run_path(os.environ["CLOCK"])
_done = MessageBatch.done


def _ahead(batch: Any, base_offset: int, timestamp: int | None = None, *rest: Any) -> None:
    if timestamp is not None and timestamp >= 0:
        timestamp += int(os.environ["BROKER_AHEAD"])
    _done(batch, base_offset, timestamp, *rest)


MessageBatch.done = _ahead  # type: ignore[method-assign]  # a broker's clock can't be set

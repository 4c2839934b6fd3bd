"""A worker that ends itself with SIGKILL at one exact point: python -m tests.chaos.saboteur POINT COUNT worker …

The code of the pipeline knows nothing of it: the method at that point is wrapped, and kills at its COUNT-th call.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from pipeline.__main__ import main
from pipeline.kafka.outbox import Outbox
from pipeline.stores import turns
from pipeline.stores.database.store import ThreadStore
from pipeline.worker.assemble.checkpoint import AssembleWork
from pipeline.worker.sinks import store as sinks_store


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def countdown(count: int) -> Callable[[], None]:
    left = [count]

    def count_down() -> None:
        left[0] -= 1
        if left[0] <= 0:
            die()

    return count_down


def stored(count: int) -> None:
    """The transaction is done, its offsets are not committed."""
    write, down = turns.write_turns, countdown(count)

    async def wrapped(store: ThreadStore, *batch: Any) -> Any:
        result = await write(store, *batch)
        down()
        return result

    sinks_store.write_turns = wrapped


def produced(count: int, *, wait: float = 0.0) -> None:
    """Turns are with the producer; none is confirmed (or, after `wait` seconds, perhaps all are)."""
    send, down = Outbox.send, countdown(count)

    async def wrapped(self: Outbox, records: deque[Any], at_once: int = 1000) -> None:
        turns = any(record.topic.endswith(".turns") for record in records)
        await send(self, records, at_once)
        if turns:
            await asyncio.sleep(wait)
            down()

    Outbox.send = wrapped  # type: ignore[method-assign]


def delivered(count: int) -> None:
    """Turns are on their topic, and nobody has looked whether they are."""
    produced(count, wait=0.2)


def flushed(count: int) -> None:
    """Turns are confirmed, marks sent, offsets not committed."""
    flush, down = AssembleWork.flush, countdown(count)

    async def wrapped(self: AssembleWork) -> bool:
        marks = bool(self.waiting.marks)
        done = await flush(self)
        if marks:
            down()
        return done

    AssembleWork.flush = wrapped  # type: ignore[method-assign]


def marked(count: int) -> None:
    """Turns are confirmed; their marks are not sent."""
    send, flush, down = Outbox.send, Outbox.flush, countdown(count)
    unconfirmed = False

    async def sending(self: Outbox, records: deque[Any], at_once: int = 1000) -> None:
        nonlocal unconfirmed
        unconfirmed |= any(record.topic.endswith(".turns") for record in records)
        await send(self, records, at_once)

    async def flushing(self: Outbox) -> bool:
        nonlocal unconfirmed
        turns, unconfirmed = unconfirmed, False
        done = await flush(self)
        if turns:
            down()
        return done

    Outbox.send = sending  # type: ignore[method-assign]  # to wrap it is the point
    Outbox.flush = flushing  # type: ignore[method-assign]  # likewise


POINTS = {"stored": stored, "produced": produced, "delivered": delivered, "marked": marked, "flushed": flushed}

if __name__ == "__main__":
    point, number = sys.argv[1], int(sys.argv[2])
    sys.argv[1:] = sys.argv[3:]
    POINTS[point](number)
    main()

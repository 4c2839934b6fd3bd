"""An agent that is told things from elsewhere: python -m tests.chaos.commanded_program NAME LIFE

It publishes runs over Kafka, in a few threads at once, until it is killed, or has SIGTERM and ends its last ones. LIFE
is in the ids of its runs, so that none has the id of a run that died.
"""

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from turnmill import PublishedRun, Publisher, RunStopped

THREADS: Final = 3
WORDS: Final = 20
ASKED_FOR: Final = 4.0  # seconds


async def events(run: PublishedRun, rng: random.Random, *, asks: bool, waits: bool) -> AsyncIterator[dict[str, Any]]:
    """Say some words, with messages taken up between them; `waits`: for an answer; `asks`: at the end."""
    yield {"type": "start"}
    yield {"type": "start-step"}
    for number in range(rng.randint(2, WORDS)):
        yield {"type": "text-start", "id": f"t{number}"}
        yield {"type": "text-delta", "id": f"t{number}", "delta": f"word {number} "}
        yield {"type": "text-end", "id": f"t{number}"}
        await asyncio.sleep(rng.uniform(0.05, 0.3))
        await run.steered()
    if waits:
        with suppress(TimeoutError):
            async with asyncio.timeout(ASKED_FOR):
                await run.answered("q")
    if asks:
        yield {"type": "tool-input-available", "toolCallId": "c", "toolName": "pay", "input": {}}
        yield {"type": "tool-approval-request", "approvalId": "q", "toolCallId": "c"}
    yield {"type": "finish-step"}
    yield {"type": "finish"}


async def speaks(publisher: Publisher, name: str, life: str, over: asyncio.Event) -> None:
    """Publish one run after the other; every third one asks at its end, in a thread that waits then."""
    rng, number = random.Random(f"{name} {life}"), 0
    while not over.is_set():
        asks, waits = number % 3 == 2, number % 3 == 1
        thread = f"{name}-asks-{life}-{number}" if asks else name
        identity = {"thread_id": thread, "agent_id": "told", "run_id": f"{name}-{life}-{number}"}
        run = publisher.run(**identity, dialect="vercel-ai", steers=number % 5 != 4)
        with suppress(RunStopped):
            async with run:
                async for _ in run.tee(events(run, rng, asks=asks, waits=waits)):
                    pass
        number += 1


async def main(name: str, life: str) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with Publisher() as publisher:
        await asyncio.gather(*(speaks(publisher, f"{name}-{n}", life, over) for n in range(THREADS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

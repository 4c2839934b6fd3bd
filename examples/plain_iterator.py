# /// script
# requires-python = ">=3.11"
# dependencies = ["turnmill"]
# ///
"""Any iterator of events is published on its way to whoever reads it: `python examples/plain_iterator.py`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from turnmill import Publisher


async def events() -> AsyncIterator[dict[str, Any]]:
    """Stands for an SDK's stream."""
    yield {"type": "start"}
    yield {"type": "text-start", "id": "t"}
    for word in ("It ", "rains ", "in ", "Paris."):
        await asyncio.sleep(0.02)
        yield {"type": "text-delta", "id": "t", "delta": word}
    yield {"type": "text-end", "id": "t"}
    yield {"type": "finish", "finishReason": "stop"}


async def main() -> None:
    """Read the stream as if nobody published it."""
    async with Publisher() as publisher:
        async with publisher.run(thread_id="chat-42", agent_id="weather", dialect="vercel-ai") as run:
            async for event in run.tee(events()):
                print(event.get("delta", ""), end="", flush=True)  # noqa: T201  # its purpose
        print()  # noqa: T201
        await publisher.flush()
        print(publisher.report())  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())

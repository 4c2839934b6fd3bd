"""The chat server that is measured, as a process of its own: uvicorn, FastAPI, and an agent at a steady pace.

`python -m tests.bench.chat_server PORT plain|tee|middleware`: GET /chat streams TOKENS text deltas at PACE a second,
/cpu gives the CPU seconds of the process so far. `plain` publishes nothing, `tee` passes the events through `run.tee`,
`middleware` leaves the handler alone.
"""

import sys
import time
from asyncio import sleep
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import orjson
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from turnmill import Publisher, PublishStreams

PACE: Final = 50  # tokens/s of one stream
TOKENS: Final = 500


async def speak() -> AsyncIterator[dict[str, Any]]:
    """One run's events."""
    yield {"type": "start"}
    yield {"type": "text-start", "id": "t"}
    began = time.monotonic()
    for number in range(TOKENS):
        await sleep(max(0.0, began + number / PACE - time.monotonic()))
        yield {"type": "text-delta", "id": "t", "delta": f" word{number}"}
    yield {"type": "text-end", "id": "t"}
    yield {"type": "finish", "finishReason": "stop"}


async def encoded(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Events -> server-sent events of the AI SDK."""
    async for event in events:
        yield b"data: " + orjson.dumps(event) + b"\n\n"
    yield b"data: [DONE]\n\n"


def application(mode: str) -> FastAPI:
    """The server, with or without publishing."""
    publisher = Publisher()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if mode != "plain":
                await stack.enter_async_context(publisher)
            yield

    app = FastAPI(lifespan=lifespan)
    if mode == "middleware":
        app.add_middleware(PublishStreams, publisher=publisher)

    async def teed() -> AsyncIterator[dict[str, Any]]:
        async with publisher.run(thread_id="bench", agent_id="bench", dialect="vercel-ai") as run:
            async for event in run.tee(speak()):
                yield event

    @app.get("/chat")
    async def chat() -> StreamingResponse:
        return StreamingResponse(encoded(teed() if mode == "tee" else speak()), media_type="text/event-stream")

    @app.get("/cpu")
    async def cpu() -> float:
        return time.process_time()

    return app


if __name__ == "__main__":
    uvicorn.run(application(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")

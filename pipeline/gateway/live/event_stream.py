"""Server-Sent Events as an ASGI response (WHATWG HTML, "9.2 Server-sent events")."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from math import inf
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pipeline.observability import metrics as m
from turnmill.ending import ended

SEND_TIMEOUT: Final = 30.0  # seconds in which a reader must take what was sent
ROUND_BYTES: Final = 65_536  # sent in a round of the event loop at most; a frame counts as FRAME_BYTES more
FRAME_BYTES: Final = 1_024
HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",  # of nginx
}
STREAMED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}  # a route's answer, for OpenAPI
}


class EventStream(Response):
    """A response that sends `frames` until they end, the reader disconnects, or it is too slow."""

    def __init__(self, frames: AsyncGenerator[bytes], metrics: m.Metrics, headers: Mapping[str, str] = HEADERS) -> None:
        super().__init__(headers=dict(headers))
        del self.headers["content-length"]
        self._frames = frames
        self._metrics = metrics
        self._untaken = inf  # when the frame was sent that the reader has not taken yet; time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request. Leaving the answer unfinished closes the connection."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        both = sending, leaving = asyncio.ensure_future(self._send(send)), asyncio.ensure_future(gone(receive))
        try:
            left = SEND_TIMEOUT  # a timer for all frames: setting a timer for each costs more than sending it
            while left > 0 and not (await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED))[0]:
                left = min(SEND_TIMEOUT, self._untaken + SEND_TIMEOUT - time.monotonic())
            if left <= 0:
                self._metrics.add(m.LIVE_CUT)
            if sending.done():
                sending.result()
        finally:
            leaving.cancel()
            with suppress(asyncio.CancelledError):
                await ended(sending)

    async def _send(self, send: Send) -> None:
        sent = 0
        async with aclosing(self._frames) as frames:
            async for frame in frames:
                self._untaken = time.monotonic()
                await send({"type": "http.response.body", "body": frame, "more_body": True})
                self._untaken = inf
                sent += FRAME_BYTES + len(frame)
                if sent > ROUND_BYTES:  # megabytes may be sent without waiting
                    sent = 0
                    await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def gone(receive: Receive) -> None:
    """Return once the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def frame(data: bytes, event_id: str | None = None, name: str | None = None) -> bytes:
    """Return the frame of one event; `data` is one line."""
    head = (f"id: {event_id}\n" if event_id else "") + (f"event: {name}\n" if name else "")
    return head.encode() + b"data: " + data + b"\n\n"


def comment(text: str, retry_ms: int | None = None, event_id: str | None = None) -> bytes:
    """Return a frame that readers skip.

    `retry_ms`: how long readers wait before they reconnect; `event_id`: the id after which they resume.
    """
    head = (f"id: {event_id}\n" if event_id else "") + (f"retry: {retry_ms}\n" if retry_ms is not None else "")
    return f"{head}: {text}\n\n".encode()

"""Server-Sent Events as an ASGI response (WHATWG HTML, "9.2 Server-sent events")."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pipeline.observability import metrics as m
from turnmill.ending import ended

SEND_TIMEOUT: Final = 30.0  # seconds in which a reader must take what was sent
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request. Leaving the answer unfinished closes the connection."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            leaving.cancel()
            with suppress(asyncio.CancelledError):
                await ended(sending)

    async def _send(self, send: Send) -> None:
        async with aclosing(self._frames) as frames:
            async for frame in frames:
                try:
                    async with asyncio.timeout(SEND_TIMEOUT):
                        await send({"type": "http.response.body", "body": frame, "more_body": True})
                except TimeoutError:
                    self._metrics.add(m.LIVE_CUT)
                    return
                await asyncio.sleep(0)  # megabytes may be sent without waiting, and other callers have their turn
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

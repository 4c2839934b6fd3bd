"""Passes an answer on to the client, piece by piece; ends a stopped one in the form of its wire."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp
from starlette.types import Send

from pipeline.gateway.proxy.publishing import Followed
from turnmill.capture import refusal


class Passing:
    """Passes on the body of one answer. `size`: bytes passed so far."""

    def __init__(self, body: aiohttp.StreamReader, followed: Followed, send: Send, idle: float) -> None:
        self._body = body
        self._followed = followed
        self._send = send
        self._idle = idle
        self._newest = b""
        self.size = 0

    async def piece(self) -> bool:
        """Pass the next piece on; return False at the end. Raises TimeoutError, and aiohttp's errors."""
        async with asyncio.timeout(self._idle):
            chunk = await self._body.readany()
        if not chunk:
            return False
        self._followed.data(chunk)
        self.size += len(chunk)
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        self._newest = (self._newest + chunk[-4:])[-4:]
        return True

    async def stopped(self, why: str, headers: Mapping[str, str]) -> None:
        """Send the reason why the answer ends here; if its wire has no form for this, the answer breaks off."""
        last = refusal.at_end(self._followed.dialect, why, headers, self._newest)
        if last is not None:
            await self._send({"type": "http.response.body", "body": last})


async def refused(send: Send, dialect: str, why: str) -> None:
    """Answer a call that was stopped before it had an answer."""
    headers = [(name.encode(), value.encode()) for name, value in refusal.HEADERS.items()]
    await send({"type": "http.response.start", "status": refusal.STATUS, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.whole(dialect, why)})

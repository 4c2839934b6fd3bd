"""The bodies of requests: whole where they are published, else as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.types import Receive

from pipeline.gateway import limits
from pipeline.gateway.limits import BodyTooLarge, BodyTooSlow
from pipeline.gateway.problems import RETRY_AFTER, Problem
from turnmill.limits import PROXIED_BYTES, PROXIED_TOGETHER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Room:
    """How many bytes of requests the proxy may hold at once."""

    left: int = PROXIED_TOGETHER_BYTES

    @contextmanager
    def taken(self) -> Iterator[Taken]:
        """Bytes that are held during the block."""
        taken = Taken(self)
        try:
            yield taken
        finally:
            self.left += taken.bytes


@dataclass(slots=True)
class Taken:
    """What one request holds of the room."""

    room: Room
    bytes: int = 0

    def more(self, count: int) -> None:
        """Take so many bytes more. Raises Problem where there is no room."""
        if count > self.room.left:
            raise Problem(
                "unavailable",
                "the gateway holds as many requests to models as it may",
                headers={"Retry-After": str(RETRY_AFTER)},
            )
        self.room.left -= count
        self.bytes += count


async def chunks(receive: Receive, idle: float, most: int) -> AsyncIterator[bytes]:
    """A body's chunks as they come; `idle` in seconds, `most` in bytes. Raises Problem, and ClientDisconnect."""
    try:
        async for chunk in limits.chunks(receive, idle, most):
            yield chunk
    except BodyTooSlow:
        raise Problem("too-slow", f"nothing of the body came for {idle:g} s") from None
    except BodyTooLarge:
        raise Problem("too-large", f"a body may have {most:,} bytes") from None


async def whole(receive: Receive, idle: float, taken: Taken) -> bytes:
    """A body of at most PROXIED_BYTES. Raises as `chunks` does."""
    found = []
    async for chunk in chunks(receive, idle, PROXIED_BYTES):
        taken.more(len(chunk))
        found.append(chunk)
    return b"".join(found)


def length(headers: list[tuple[bytes, bytes]]) -> str | None:
    """How long a body is that is passed on as it comes; None: unknown, or there is none.

    A request may claim a length beside `Transfer-Encoding`, which then says how it is framed: the claim does not count.
    """
    held = dict(headers)
    return None if b"transfer-encoding" in held else held.get(b"content-length", b"").decode("latin-1") or None


def is_there(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a request has a body."""
    return b"transfer-encoding" in dict(headers) or length(headers) not in (None, "0")

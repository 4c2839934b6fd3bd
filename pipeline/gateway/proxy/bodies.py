"""The bodies of requests: read as a whole if they are published, else passed on as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

from starlette.types import Receive

from pipeline.gateway.access import limits
from pipeline.gateway.access.limits import BodyTooLarge, BodyTooSlow
from pipeline.gateway.problems import Problem, later
from turnmill.limits import PROXIED_BYTES
from turnmill.shares import Room

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE_SECONDS: Final = 10.0  # seconds after which the rate of a body is checked
MIN_RATE: Final = 16_384  # bytes a second, on average: a slower body would occupy memory for days


@dataclass(slots=True)
class Taken:
    """The memory that one request takes of the pool shared by all requests to models."""

    room: Room
    tenant: str | None
    bytes: int = 0

    def more(self, count: int) -> None:
        """Take `count` more bytes. Raises Problem if the tenant's share is used up."""
        if not self.room.take(self.tenant, count):
            full = "the gateway holds as many bytes of requests to models as it may for one tenant, or for all"
            raise later("unavailable", full)
        self.bytes += count


@contextmanager
def taken(room: Room, tenant: str | None) -> Iterator[Taken]:
    """Yield a request's share of the pool, and return it to the pool after the block."""
    held = Taken(room, tenant)
    try:
        yield held
    finally:
        room.give(tenant, held.bytes)


async def chunks(receive: Receive, idle: float, most: int) -> AsyncIterator[bytes]:
    """Yield a body's chunks as they come; `idle` in seconds, `most` in bytes. Raises Problem, and ClientDisconnect."""
    try:
        async for chunk in limits.chunks(receive, idle, most):
            yield chunk
    except BodyTooSlow:
        raise Problem("too-slow", f"nothing of the body came for {idle:g} s") from None
    except BodyTooLarge:
        raise Problem("too-large", f"a body may have {most:,} bytes") from None


async def whole(receive: Receive, idle: float, taken: Taken) -> bytes:
    """Return a body, at most PROXIED_BYTES long, and at least as fast as MIN_RATE. Raises as `chunks` does."""
    parts, began = [], monotonic()
    async for chunk in chunks(receive, idle, PROXIED_BYTES):
        taken.more(len(chunk))
        parts.append(chunk)
        lasted = monotonic() - began
        if lasted > GRACE_SECONDS and taken.bytes < MIN_RATE * lasted:
            raise Problem("too-slow", f"the body came at less than {MIN_RATE:,} bytes a second")
    return b"".join(parts)


def length(headers: list[tuple[bytes, bytes]]) -> str | None:
    """Return the declared length of a body that is passed on as it comes; None if unknown, or without a body.

    A length is ignored if there is a `Transfer-Encoding` too, which then determines how the body is framed.
    """
    held = dict(headers)
    return None if b"transfer-encoding" in held else held.get(b"content-length", b"").decode("latin-1") or None

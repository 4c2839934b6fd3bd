"""Bounds on callers: requests a second and at once, bytes of bodies, and pauses within them."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from functools import partial
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from pipeline.gateway.problems import Problem, later
from pipeline.policies.pools import CALLERS
from turnmill.remembered import Remembered

BURST_SECONDS: Final = 2.0  # seconds' worth of requests that may come at once
BUCKET_BYTES: Final = 150  # what the bucket of a caller takes in memory
# In the scope of a request: what is awaited before its answer begins, and what is called at its end.
BEFORE_ANSWER: Final = "turnmill.before_answer"
AT_END: Final = "turnmill.at_end"


class Rate:
    """A token bucket for each caller. `per_second` 0 bounds nothing."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._clock = clock
        self._buckets: Remembered[Hashable, tuple[float, float]] = Remembered(CALLERS, lambda _: BUCKET_BYTES)

    def take(self, caller: Hashable, own_rate: float | None = None) -> None:
        """Count one request; `own_rate`: the caller's, if its token has any. Raises Problem if the bucket is empty."""
        rate = min(self._rate or math.inf, own_rate or math.inf)
        if rate == math.inf:
            return
        now, burst = self._clock(), max(1.0, rate * BURST_SECONDS)
        left, at = self._buckets.pop("", caller) or (burst, now)  # requests left, when
        left = min(burst, left + (now - at) * rate)
        self._buckets.put("", caller, (max(0.0, left - 1) if left >= 1 else left, now))
        if left < 1:
            wait = math.ceil((1 - left) / rate)
            raise Problem(
                "rate-limited",
                f"a token has {rate:g} requests a second: try again in {wait} s",
                headers={"Retry-After": str(wait)},
            )


class AtOnce:
    """The number of each caller's open requests; at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[Hashable] = Counter()

    def begin(self, caller: Hashable) -> Callable[[], None]:
        """Count a request; return a function to be called at its end. Raises Problem where too many are open."""
        if self._open[caller] >= self._most:
            most = f"a token may have {self._most:,} requests open at once"
            raise later("rate-limited", f"{most}, with uploads and live streams: end some")
        self._open[caller] += 1
        return partial(self._end, caller)

    def _end(self, caller: Hashable) -> None:
        self._open[caller] -= 1
        if not self._open[caller]:
            del self._open[caller]


def at_end(scope: Scope, done: Callable[[], None]) -> None:
    """Have `done` called when the request is over, whether its answer was sent or abandoned."""
    scope.setdefault(AT_END, []).append(done)


class BodyTooSlow(Exception):
    """No byte of the body has come for `idle` seconds."""


class BodyTooLarge(Exception):
    """The body has more bytes than allowed."""


async def chunks(receive: Receive, idle: float, most: int) -> AsyncIterator[bytes]:
    """Yield the body's chunks as they come from ASGI's `receive`; `idle` in seconds, `most` in bytes.

    Raises ClientDisconnect, BodyTooSlow and BodyTooLarge.
    """
    size, more = 0, True
    while more:
        try:
            async with asyncio.timeout(idle):
                message = await receive()
        except TimeoutError:
            raise BodyTooSlow from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > most:
            raise BodyTooLarge
        if chunk:
            yield chunk

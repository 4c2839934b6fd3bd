"""A connection that is made when it is first needed, once for all who need it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from turnmill.errors import TurnmillError

RETRY_DELAY: Final = 1.0  # seconds after a failure before the next attempt to connect

T = TypeVar("T")


class Opened(Generic[T]):
    """A connection that the first caller makes. Callers within RETRY_DELAY after a failure get the same error."""

    def __init__(self, connect: Callable[[], Awaitable[T]]) -> None:
        self._connect = connect
        self._lock = asyncio.Lock()
        self._failure: tuple[TurnmillError, float] | None = None
        self.value: T | None = None

    async def get(self) -> T:
        """Return the connection. Raises the error of connecting."""
        if self.value is not None:
            return self.value
        async with self._lock:
            if self.value is None:
                if self._failure is not None and time.monotonic() < self._failure[1]:
                    raise self._failure[0].with_traceback(None)
                try:
                    self.value = await self._connect()
                except TurnmillError as error:
                    self._failure = (error, time.monotonic() + RETRY_DELAY)
                    raise
            return self.value

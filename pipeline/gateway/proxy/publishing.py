"""Publishing of the calls that pass the proxy, which never delays them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from pipeline.policies.pools import CAPTURES
from pipeline.stores.database.opened import Opened
from turnmill.capture.capture import Call, Capture
from turnmill.capture.conversations import Conversations
from turnmill.capture.reading import Reading
from turnmill.publish.publisher import Publisher

if TYPE_CHECKING:  # where calls can be stopped
    from turnmill.capture.stop import Stop
    from turnmill.control.receiver import Control

AGENT: Final = "proxy"  # the agent of calls that name none, if the caller has no name either
OPEN_TIMEOUT: Final = 1.0  # seconds for which the first requests wait for the publisher
PLACE_TIMEOUT: Final = 1.0  # seconds
LOG_INTERVAL: Final = 60.0  # seconds between two log lines of the same content

log = logging.getLogger(__name__)


class Followed(Protocol):
    """A call that is passed on; implemented by `turnmill.capture.capture.CapturedCall`.

    `ended`: nothing more is captured. `dialect`: its wire. `stop`: signals that it must stop; None: not controlled.
    """

    @property
    def ended(self) -> bool: ...
    @property
    def dialect(self) -> str: ...
    @property
    def stop(self) -> Stop | None: ...

    def answered(self, status: int, headers: Mapping[str, str], /) -> None:
        """Note the head of the answer."""

    def data(self, chunk: bytes, /) -> None:
        """Note a piece of its body."""

    def finished(self) -> None:
        """Note that the body is complete."""

    def failed(self, error: str, /) -> None:
        """Note that there is no answer, or no more of it."""

    def cancelled(self) -> None:
        """Note that the client abandoned the call."""

    def stopped(self) -> None:
        """Note that the call was stopped by a command."""


class _NotFollowed:
    """A request that is passed on and not published."""

    ended: Final = True
    dialect: Final = ""
    stop: Final = None

    def answered(self, *_: object) -> None:
        """Nothing."""

    data = finished = failed = cancelled = stopped = answered


NOT_FOLLOWED: Final = _NotFollowed()


class Publishing:
    """The gateway's one Capture, which is made when it is first needed."""

    def __init__(
        self,
        publisher: Callable[[], Awaitable[Publisher]],
        conversations: Conversations,
        control: Control | None = None,
    ) -> None:
        self._publisher = publisher
        self._control = control
        self._conversations = conversations
        self._capture = Opened(self._open)
        self._logged_at = -LOG_INTERVAL

    async def begin(self, call: Call, reading: Reading, tenant: str | None) -> Followed:
        """Begin to publish a call. If that fails, log it; the call is passed on all the same."""
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                capture = await self._capture.get()
            return capture.begin(replace(call, body=b""), reading, tenant=tenant)
        except Exception:  # the program's call must not fail for any fault of ours
            if time.monotonic() >= self._logged_at + LOG_INTERVAL:
                self._logged_at = time.monotonic()
                log.exception("calls are passed on, and are not published")
            return NOT_FOLLOWED

    async def placed(self) -> None:
        """Return once it is known to which runs the calls under way belong, or after a second."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PLACE_TIMEOUT):
                await (await self._capture.get()).read()

    async def close(self) -> None:
        """Publish the rest of the captured calls."""
        if self._capture.value is not None:
            await self._capture.value.close()

    async def _open(self) -> Capture:
        capture = Capture(
            await self._publisher(),
            self._conversations,
            agent_id=AGENT,
            queue_bytes=CAPTURES.size,
            shared=True,
            control=self._control,
        )
        return await capture.__aenter__()

"""Read topics for as long as the process lives; start again after each failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from turnmill.errors import TurnmillError


async def follow_on(
    follow: Callable[[], Awaitable[None]],
    stopped: Callable[[str | None], None],
    *,
    pause: float,
    log: logging.Logger,
    meanwhile: str,
) -> NoReturn:
    """Call `follow`, and again `pause` seconds after each return or exception.

    `stopped` is called with the reason each time; None: it has returned, since the topics' partitions have changed.
    Failures are logged as `meanwhile`, a text that says what doesn't work until then, followed by the reason.
    """
    while True:
        trouble = None
        try:
            await follow()
        except TurnmillError as error:
            trouble = str(error) or repr(error)
            log.warning("%s: %s", meanwhile, trouble)
        except Exception as error:  # whatever it is, following must start again
            trouble = repr(error)
            log.exception("%s", meanwhile)
        stopped(trouble)
        await asyncio.sleep(pause)

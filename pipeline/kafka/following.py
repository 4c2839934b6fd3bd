"""Reading topics for as long as the process lives, again after each failure."""

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
    """Call `follow`, and again `pause` seconds after it has returned or failed, whatever it was.

    `stopped` is called with the reason each time; None: it has returned, as the topics have other partitions. The log
    has the reason behind `meanwhile`, which says what stands still.
    """
    while True:
        trouble = None
        try:
            await follow()
        except TurnmillError as error:
            trouble = str(error) or repr(error)
            log.warning("%s: %s", meanwhile, trouble)
        except Exception as error:  # it must come back
            trouble = repr(error)
            log.exception("%s", meanwhile)
        stopped(trouble)
        await asyncio.sleep(pause)

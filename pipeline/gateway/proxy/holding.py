"""Holds calls while a person is asked whether more of a budget may be used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

from starlette.requests import ClientDisconnect

from pipeline.gateway.budgets.memory import Budgets
from pipeline.policies.budgets import Budget, Verdict
from pipeline.policies.pools import HELD
from turnmill.shares import Room

POLL_INTERVAL: Final = 0.25  # seconds

Leaving = Callable[[], Coroutine[Any, Any, None]]


class Holding:
    """The held calls of one gateway; each waits for at most `within` seconds."""

    def __init__(self, budgets: Budgets, within: float) -> None:
        self._budgets = budgets
        self._within = within
        self._room = Room(HELD.size)

    async def verdict(self, tenant: str | None, budgets: Collection[Budget], leaving: Leaving) -> Verdict:
        """Return the verdict on a tenant's call, once no question is open any more, or after the longest hold.

        `leaving` returns when the client has disconnected; then raises ClientDisconnect.
        """
        verdict = self._budgets.verdict(tenant, budgets)
        if not verdict.asks or not self._room.take(tenant, 1):
            return verdict
        until, gone = time.monotonic() + self._within, asyncio.ensure_future(leaving())
        try:
            while verdict.asks and time.monotonic() < until:
                await asyncio.wait((gone,), timeout=POLL_INTERVAL)
                if gone.done():
                    raise ClientDisconnect
                verdict = self._budgets.verdict(tenant, budgets)
            return verdict
        finally:
            gone.cancel()
            self._room.give(tenant, 1)
